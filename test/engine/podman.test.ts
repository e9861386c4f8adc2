import type { PrestartContext } from 'handover';
import { ImageCoordinator } from 'handover';
import { DockerDriver, dockerImages, type DockerSpec, type DockerState } from 'handover/docker';
import { describeTaskDriver } from 'handover/testing';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Handle, handleCases } from '../docker/handle-cases.js';
import { uniqueName } from './harness/index.js';
import { type Podman, podmanSuite, startPodman } from './harness/podman.js';

podmanSuite('Podman', (real) => {
  const name = uniqueName('podman');
  let podman: Podman;
  const running: Podman[] = [];
  let image: string;

  beforeAll(async () => {
    await real.pushImage({ name, tag: 'v1' });
    image = `127.0.0.1:${real.registry.port}/${name}:v1`;
    podman = await startPodman(real.registry.port);
    running.push(podman);
  }, 90_000);

  afterAll(async () => {
    for (const { docker, end } of running) {
      try {
        const left = await docker.listContainers({ all: true });
        for (const c of left) await docker.getContainer(c.Id).remove({ force: true });
        expect(left.map(({ Names }) => Names)).toEqual([]);
      } finally {
        await end();
      }
    }
  });

  const made = (more: Partial<DockerSpec>): DockerSpec => ({ image, networks: 'none', ...more });
  const fresh = async (): Promise<DockerDriver> => {
    const images = new ImageCoordinator({ source: dockerImages(podman.docker), removal: { enabled: false } });
    return new DockerDriver({ docker: podman.docker, images });
  };

  describeTaskDriver<DockerSpec>('DockerDriver on Podman', {
    runner: { describe, it },
    make: fresh,
    again: fresh,
    async ready(handle) {
      const { containerId } = handle.state as DockerState;
      const logs = await podman.docker.getContainer(containerId).logs({ follow: true, stdout: true });
      for await (const chunk of logs) if (String(chunk).includes('listening')) return;
    },
    spec: (version) => made({ env: { VERSION: version } }),
    exiting: () => made({ env: { EXIT_AFTER_MS: '20', EXIT_CODE: '3' } }),
    stubborn: () => made({ env: { IGNORE_TERM: '1' } }),
    speaking: () => made({ command: ['/bin/app', 'do', 'out\n', 'err\n', '0', '60000'] }),
    command: (code) => ['/bin/app', 'do', 'ran\n', '', String(code), '0'],
    async vanish(owner) {
      const label = [`handover.alloc=${owner.split('/')[0]}`];
      const found = await podman.docker.listContainers({ all: true, filters: { label } });
      for (const c of found) await podman.docker.getContainer(c.Id).remove({ force: true });
    },
  });

  handleCases(async (spec) => {
    const driver = await fresh();
    const allocId = uniqueName('alloc');
    const ctx: PrestartContext<DockerSpec> = {
      ...{ owner: `${allocId}/web`, allocId, task: 'web', specHash: 'hash-1', report: () => {} },
      spec: made(spec),
    };
    const handle: Handle = await driver.start(await driver.prestart(ctx), {});
    onTestFinished(async () => {
      await handle.kill({});
      await handle.wait({});
      await handle.destroy();
    });
    return handle;
  });
});
