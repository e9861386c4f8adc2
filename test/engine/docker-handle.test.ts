import { ImageCoordinator, type PrestartContext } from 'handover';
import { DockerDriver, dockerImages, type DockerSpec } from 'handover/docker';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { app, type Handle, handleCases } from '../docker/handle-cases.js';
import { engineSuite, uniqueName } from './harness/index.js';

engineSuite('a handle of a real container', (real) => {
  const name = uniqueName('handle');
  const images = new ImageCoordinator({ source: dockerImages(real.docker), removal: { enabled: false } });
  const driver = new DockerDriver({ docker: real.docker, images });
  let image: string;

  beforeAll(async () => {
    await real.pushImage({ name, tag: 'v1' });
    image = `127.0.0.1:${real.registry.port}/${name}:v1`;
  });

  afterAll(async () => {
    await real.docker.getImage(image).remove();
  });

  async function start(spec: Partial<DockerSpec>): Promise<Handle> {
    const allocId = uniqueName('alloc');
    const ctx: PrestartContext<DockerSpec> = {
      ...{ owner: `${allocId}/web`, allocId, task: 'web', specHash: 'hash-1', report: () => {} },
      spec: { image, ...spec },
    };
    const handle = await driver.start(await driver.prestart(ctx), {});
    onTestFinished(async () => {
      await handle.kill({});
      await handle.wait({});
      await handle.destroy();
    });
    return handle;
  }

  handleCases(start);

  it.each([
    [0, 'healthy'],
    [1, 'unhealthy'],
  ] as const)('DP-8 health() is what the check says: code %i is %s', async (code, says) => {
    const test = ['/bin/app', 'do', '', '', String(code), '0'];
    const handle = await start({ healthcheck: { test, interval: 50, retries: 1 } });
    await expect.poll(() => handle.health({}), { timeout: 10_000 }).toBe(says);
  });

  it('DP-8 of a command that a container was given: what it wrote, and how it ended', async () => {
    const handle = await start(app('out', 'err', 4));
    expect(await handle.wait({})).toMatchObject({ code: 4, signal: null, by: 'self' });
  });
});
