import { ImageCoordinator, type PullOptions } from 'handover';
import { type DockerImage, dockerImages } from 'handover/docker';
import { expect, onTestFinished, it } from 'vitest';
import { type IsolatedEngine, isolatedEngine, isolatedSuite } from './harness/isolated-engine.js';
import { type BuiltImage, type RealEngine, type RegistryProxy, uniqueName } from './harness/index.js';

interface World {
  readonly engine: IsolatedEngine;
  readonly registry: RegistryProxy;
  readonly image: BuiltImage;
  readonly images: ImageCoordinator<DockerImage>;
  readonly reference: string;
  /** Resolves in the middle of a pull. */
  midway(): Promise<void>;
}

async function world(real: RealEngine, pull: PullOptions): Promise<World> {
  const image = await real.pushImage({ name: uniqueName('crash'), tag: 'v1', paddingMb: 3 });
  const registry = await real.registryProxy({ bytesPerSecond: 1_000_000 });
  const engine = await isolatedEngine(registry);
  const images = new ImageCoordinator({ source: dockerImages(engine.docker), pull });
  onTestFinished(() => images.close());
  return {
    ...{ engine, registry, image, images, reference: registry.ref(image.name, 'v1') },
    midway: () => expect.poll(() => registry.blobBytes, { timeout: 30_000 }).toBeGreaterThan(1_000_000),
  };
}

const reasonOf = (error: unknown): object => {
  const { code, retryable, details } = error as { code: string; retryable: boolean; details: { reason: string } };
  return { code, retryable, reason: details.reason };
};

isolatedSuite('The engine is killed in the middle of a pull', (real) => {
  it('IC-9 G-8 it comes back at once: the callers get the image by the next attempt', async () => {
    const { engine, image, images, reference, midway } = await world(real, {});
    const callers = ['a', 'b', 'c'].map((owner) => images.acquire(reference, { owner }));
    await midway();
    await engine.crash();
    await engine.revive();
    const leases = await Promise.all(callers);
    expect(leases.map(({ imageId }) => imageId)).toEqual([image.id, image.id, image.id]);
    expect((await engine.docker.getImage(reference).inspect()).Id).toBe(image.id);
  });

  it('IC-9 IC-10 it stays away: every caller settles as engine-unavailable, who has time gets it later', async () => {
    const { engine, registry, image, images, reference, midway } = await world(real, { attempts: 1 });
    const short = ['a', 'b'].map((owner) => images.acquire(reference, { owner }));
    const patient = images.acquire(reference, { owner: 'c', timeout: '90s' });
    await midway();
    await engine.crash();
    const failures = await Promise.all(short.map((asked) => asked.then(() => undefined, reasonOf)));
    const unavailable = { code: 'ERR_PULL_FAILED', retryable: true, reason: 'engine-unavailable' };
    expect(failures).toEqual([unavailable, unavailable]);
    registry.set({});
    await engine.revive();
    images.retryNow(reference);
    const next = await images.acquire(reference, { owner: 'd' });
    expect([(await patient).imageId, next.imageId]).toEqual([image.id, image.id]);
    expect(
      images
        .explain(reference)
        .holders.map(({ owner }) => owner)
        .toSorted(),
    ).toEqual(['c', 'd']);
  });
});
