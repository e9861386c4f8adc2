import Docker from 'dockerode';
import { dockerImages } from 'handover/docker';
import { describeArtifactSource, FakeEngine } from 'handover/testing';
import { describe, it } from 'vitest';

let engine: FakeEngine;
const contents = new Map<string, string>();

const publish = async (name: string, content: string): Promise<string> => {
  const reference = `127.0.0.1:5000/${name}:v1`;
  contents.set(reference, content);
  engine.publish(reference, { content });
  return reference;
};

describeArtifactSource('docker, on a fake engine', {
  runner: { describe, it },
  make: async () => {
    engine = await FakeEngine.start();
    return dockerImages(new Docker({ socketPath: engine.socketPath }));
  },
  close: () => engine.close(),
  publish,
  missing: () => '127.0.0.1:5000/nowhere/to-be-found:v1',
  alias: (reference, name) => publish(name, contents.get(reference) ?? ''),
  hanging: async () => {
    engine.fault({ method: 'POST', path: /images\/create/ }, { silentAfter: 100 });
    return publish('hanging', 'never comes');
  },
  broken: async () => {
    engine.fault({ method: 'POST', path: /images\/create/ }, { cutAfter: 100 });
    return { reference: await publish('broken', 'comes at last'), mend: async () => undefined };
  },
});
