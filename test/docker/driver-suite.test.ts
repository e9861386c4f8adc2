import Docker from 'dockerode';
import { ImageCoordinator } from 'handover';
import { DockerDriver, type DockerImage, dockerImages, type DockerSpec } from 'handover/docker';
import { describeTaskDriver, FakeEngine } from 'handover/testing';
import { describe, it } from 'vitest';

let engine: FakeEngine;
let coordinators: ImageCoordinator<DockerImage>[] = [];

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
  speaking: () => ({ ...withEnv({}), command: ['/bin/app', 'do', 'out\n', 'err\n', '0', '60000'] }),
  command: (code) => ['/bin/app', 'do', 'ran\n', '', String(code), '0'],
  fetches: () => engine.calls.filter((call) => call.includes('/images/create')).length,
  leased: (owner) =>
    coordinators
      .at(-1)
      ?.snapshot()
      .some(({ holders }) => holders.some((one) => one.owner === owner)) ?? false,
  signals: (owner) =>
    engine.containers
      .filter(({ labels }) => `${labels['handover.alloc']}/main` === owner)
      .flatMap(({ signals }) => signals.filter((signal) => signal !== 'SIGKILL')),
  hanging: () => {
    engine.fault({ path: /^\/images\/create/, times: Infinity }, { silence: 'request' });
    return withEnv({});
  },
  async vanish(owner) {
    const alloc = owner.split('/')[0];
    for (const c of engine.containers) if (c.labels['handover.alloc'] === alloc) engine.remove(c.id);
  },
});
