import Docker from 'dockerode';
import { ImageCoordinator } from 'handover';
import { DockerDriver, dockerImages, type DockerSpec } from 'handover/docker';
import { describeTaskDriver, FakeEngine } from 'handover/testing';
import { describe, it } from 'vitest';

let engine: FakeEngine;
let coordinators: AsyncDisposable[] = [];

function driver(): DockerDriver {
  const docker = new Docker({ socketPath: engine.socketPath });
  const images = new ImageCoordinator({ source: dockerImages(docker) });
  coordinators.push(images);
  return new DockerDriver({ docker, images });
}

function withEnv(env: Readonly<Record<string, string>>): DockerSpec {
  return { image: 'app:v1', env };
}

describeTaskDriver<DockerSpec>('DockerDriver on a fake engine', {
  runner: { describe, it },
  async make() {
    engine = await FakeEngine.start();
    engine.publish('app:v1');
    return driver();
  },
  async close() {
    for (const each of coordinators) await each[Symbol.asyncDispose]();
    coordinators = [];
    await engine.close();
  },
  again: async () => driver(),
  spec: (version) => ({
    ...withEnv({ VERSION: version }),
    ports: { http: { container: 80 }, admin: { container: 81 } },
  }),
  exiting: () => withEnv({ EXIT_AFTER_MS: '5', EXIT_CODE: '3' }),
  stubborn: () => withEnv({ IGNORE_TERM: '1' }),
  hanging: () => {
    engine.fault({ path: /^\/images\/create/, times: Infinity }, { silence: 'request' });
    return withEnv({});
  },
  async vanish(owner) {
    const alloc = owner.split('/')[0];
    for (const c of engine.containers) if (c.labels['handover.alloc'] === alloc) engine.remove(c.id);
  },
});
