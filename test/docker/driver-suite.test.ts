import Docker from 'dockerode';
import { DockerDriver, type DockerSpec } from 'handover/docker';
import { describeTaskDriver, FakeEngine } from 'handover/testing';
import { describe, it } from 'vitest';
import { TestLeases } from './driver-bench.js';

let engine: FakeEngine;

function driver(): DockerDriver {
  const docker = new Docker({ socketPath: engine.socketPath });
  return new DockerDriver({ docker, images: new TestLeases(docker) });
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
  close: () => engine.close(),
  again: async () => driver(),
  spec: (version) => withEnv({ VERSION: version }),
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
