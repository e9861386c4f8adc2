import Docker from 'dockerode';
import { ImageCoordinator, type Progress } from 'handover';
import { type DockerImage, dockerImages } from 'handover/docker';
import { FakeEngine } from 'handover/testing';
import { expect, it, onTestFinished } from 'vitest';
import { hurried } from './hurried.js';

const PULL = { method: 'POST', path: /^\/images\/create/ } as const;

/** A coordinator of a fake engine whose registry serves `app:v1`. */
async function stage(attempts: number): Promise<{ engine: FakeEngine; images: ImageCoordinator<DockerImage> }> {
  const engine = await FakeEngine.start();
  onTestFinished(() => engine.close());
  engine.publish('app:v1');
  const clock = hurried();
  const source = dockerImages(new Docker({ socketPath: engine.socketPath }), { clock });
  const images = new ImageCoordinator({ source, pull: { attempts } }, { clock });
  onTestFinished(() => images.close());
  return { engine, images };
}

/** What engines say of a pull whose layers somebody prunes away under it. */
const WORDS = [
  'failed to register layer: layer does not exist',
  'failed to get digest sha256:1f: open /var/lib/docker/image: no such file or directory',
  'unknown parent image ID sha256:1f',
];

it.each(WORDS)('S38 a pull that a prune broke ("%s") is told for what it is, and made anew', async (words) => {
  const { engine, images } = await stage(2);
  engine.fault(PULL, { inStreamError: words });
  const told = new Set<string | undefined>();
  const onProgress = ({ phase, lastError }: Progress): void => {
    if (phase === 'retrying') told.add(lastError?.message);
  };
  const lease = await images.acquire('app:v1', { owner: 'a', onProgress });
  await lease.verify();
  expect(engine.calls.filter((call) => call.startsWith('POST /images/create'))).toHaveLength(2);
  expect([...told]).toEqual([expect.stringContaining(words)]);
});

it('IC-10 which pull failed is said once, however many attempts it had', async () => {
  const { engine, images } = await stage(3);
  engine.fault({ ...PULL, times: 3 }, { inStreamError: 'the disk is on fire' });
  const failed = await images.acquire('app:v1', { owner: 'a' }).catch((error: unknown) => error);
  expect(failed).toMatchObject({
    message:
      'Pull of docker.io/library/app:v1 failed after 3 attempts: the disk is on fire; see the text of the engine',
    details: { reason: 'unknown', attempts: 3 },
  });
});
