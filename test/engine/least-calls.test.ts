import Docker from 'dockerode';
import { AllocLifecycle, ImageCoordinator, memoryRegistrar } from 'handover';
import { DockerDriver, dockerImages } from 'handover/docker';
import { expect, it } from 'vitest';
import { callsOfReplace, LEAST_OF_REPLACE } from '../docker/least-calls.js';
import { engineSuite, uniqueName } from './harness/index.js';

engineSuite('the engine calls of a replacement', (real) => {
  it('B12 are those that are written down', async () => {
    const name = uniqueName('calls');
    await real.pushImage({ name, tag: 'v1' });
    const image = `127.0.0.1:${real.registry.port}/${name}:v1`;
    const proxy = await real.engineProxy();
    const docker = new Docker({ socketPath: proxy.socketPath });
    const images = new ImageCoordinator({ source: dockerImages(docker), removal: { enabled: false } });
    const driver = new DockerDriver({ docker, images });
    const alloc = (id: string, VERSION: string): AllocLifecycle =>
      new AllocLifecycle(
        {
          ...{ id: uniqueName(id), health: { minHealthyTime: 0 }, shutdown: { shutdownDelay: 0 } },
          tasks: [{ name: 'web', driver, spec: { image, env: { VERSION } } }],
        },
        { registrar: memoryRegistrar() },
      );
    const current = alloc('web-1', 'v1');
    const next = alloc('web-2', 'v2');
    try {
      await current.start({});
      expect(await callsOfReplace(current, next, () => proxy.sequence, image)).toEqual(LEAST_OF_REPLACE);
    } finally {
      for (const one of [next, current]) {
        await one.stop({ reason: 'operator' }).result;
        await one.destroy();
      }
      await images.close();
      await real.docker.getImage(image).remove();
    }
  });
});
