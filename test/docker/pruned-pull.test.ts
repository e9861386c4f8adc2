import Docker from 'dockerode';
import { ImageCoordinator, type Progress } from 'handover';
import { dockerImages } from 'handover/docker';
import { FakeEngine } from 'handover/testing';
import { expect, it, onTestFinished } from 'vitest';
import { hurried } from './hurried.js';

/** What engines say of a pull whose layers somebody prunes away under it. */
it.each([
  'failed to register layer: layer does not exist',
  'failed to get digest sha256:1f: open /var/lib/docker/image: no such file or directory',
  'unknown parent image ID sha256:1f',
])(
  'S38 a pull that a prune by somebody else broke ("%s") is told for what it is, and made anew once',
  async (words) => {
    const engine = await FakeEngine.start();
    onTestFinished(() => engine.close());
    const { id } = engine.publish('app:v1');
    engine.fault({ method: 'POST', path: /^\/images\/create/ }, { inStreamError: words });
    const clock = hurried();
    const source = dockerImages(new Docker({ socketPath: engine.socketPath }), { clock });
    const images = new ImageCoordinator({ source }, { clock });
    const told = new Set<string | undefined>();
    const onProgress = ({ phase, lastError }: Progress): void => {
      if (phase === 'retrying') told.add(lastError?.message);
    };
    const lease = await images.acquire('app:v1', { owner: 'a', onProgress });
    expect(lease.imageId).toBe(id);
    expect(engine.calls.filter((call) => call.startsWith('POST /images/create'))).toHaveLength(2);
    expect([...told]).toEqual([expect.stringContaining(words)]);
    await images.close();
  },
);
