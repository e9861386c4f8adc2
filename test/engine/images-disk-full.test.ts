import { dirname } from 'node:path';
import Docker from 'dockerode';
import { ImageCoordinator } from 'handover';
import { dockerImages } from 'handover/docker';
import { expect, it, onTestFinished } from 'vitest';
import { type BuiltImage, EngineProxy, type RealEngine, uniqueName } from './harness/index.js';
import { type IsolatedEngine, isolatedEngine, isolatedSuite } from './harness/isolated-engine.js';

const DISK_MB = 100;

async function present({ docker }: IsolatedEngine, id: string): Promise<boolean> {
  return docker
    .getImage(id)
    .inspect()
    .then(
      () => true,
      () => false,
    );
}

/** An engine with a small disk, on which one image runs and another one of so many MB is idle. */
async function crowded(real: RealEngine, idleMb: number) {
  const registry = await real.registryProxy();
  const engine = await isolatedEngine(registry, { diskMb: DISK_MB });
  const proxy = await EngineProxy.start(engine.socketPath, dirname(engine.socketPath));
  onTestFinished(() => proxy.close());
  const images = new ImageCoordinator({ source: dockerImages(new Docker({ socketPath: proxy.socketPath })) });
  onTestFinished(() => images.close());
  const push = async (paddingMb: number): Promise<BuiltImage & { readonly reference: string }> => {
    const image = await real.pushImage({ name: uniqueName('disk'), tag: 'v1', paddingMb });
    return { ...image, reference: registry.ref(image.name, 'v1') };
  };
  const [runs, idle] = [await push(0), await push(idleMb)];
  for (const { reference } of [runs, idle]) await (await images.acquire(reference, { owner: 'before' })).release();
  const container = await engine.docker.createContainer({ Image: runs.reference, HostConfig: { NetworkMode: 'none' } });
  await container.start();
  return {
    ...{ engine, images, push, runs, idle },
    running: async () => (await container.inspect()).State.Running,
    /** Pulls that the engine was asked for under this name. */
    pulls: ({ name }: BuiltImage) =>
      proxy.calls.filter(({ method, path }) => method === 'POST' && path.includes(encodeURIComponent(name))).length,
    deletes: () => proxy.sequence.filter((call) => call.startsWith('DELETE /images/')).length,
  };
}

isolatedSuite('IC-10 S18 the disk of the engine is full', (real) => {
  it('too big for the whole disk: idle images are collected once, one more try, then no-space', async () => {
    const { engine, images, push, runs, idle, running, pulls, deletes } = await crowded(real, 5);
    const big = await push(DISK_MB);
    await expect(images.acquire(big.reference, { owner: 'a' })).rejects.toMatchObject({
      ...{ code: 'ERR_PULL_FAILED', retryable: false },
      details: { reason: 'no-space', attempts: 2 },
    });
    expect([pulls(big), deletes()]).toEqual([2, 1]);
    expect([await present(engine, idle.id), await present(engine, runs.id), await running()]).toEqual([
      false,
      true,
      true,
    ]);
  });

  it('big enough once what is idle has gone: the second try brings it', async () => {
    const { engine, images, push, runs, idle, running, pulls } = await crowded(real, 36);
    const big = await push(36);
    const lease = await images.acquire(big.reference, { owner: 'a' });
    expect([lease.imageId, pulls(big)]).toEqual([big.id, 2]);
    expect([await present(engine, idle.id), await present(engine, runs.id), await running()]).toEqual([
      false,
      true,
      true,
    ]);
  });
});
