import { getEventListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import Docker from 'dockerode';
import { ImageCoordinator } from 'handover';
import { dockerImages } from 'handover/docker';
import { expect, it, onTestFinished } from 'vitest';
import { chance } from './harness/chance.js';
import { countingClock } from './harness/counting-clock.js';
import { engineSuite, uniqueName } from './harness/index.js';

const CALLERS = 20;
const LEAVING = Math.ceil(CALLERS / 3);
/** Well before the pull can be done: 3 MB at 1 MB/s. */
const LEAVE_WITHIN_MS = 2_000;

engineSuite('Many callers of one image behind a slow registry', (engine) => {
  it('IC-1 IC-3 IC-4 20 callers, a third leaves at any time: one pull, the rest gets it, nothing is left', async () => {
    const { seed, below } = chance(7);
    const image = await engine.pushImage({ name: uniqueName('crowd'), tag: 'v1', paddingMb: 3 });
    const registry = await engine.registryProxy({ bytesPerSecond: 1_000_000 });
    const proxy = await engine.engineProxy();
    const clock = countingClock();
    const images = new ImageCoordinator(
      { source: dockerImages(new Docker({ socketPath: proxy.socketPath })), removal: { delay: 0 } },
      { clock },
    );
    onTestFinished(() => images.close());
    const reference = registry.ref(image.name, 'v1');
    const callers = Array.from({ length: CALLERS }, (_, i) => ({
      owner: `caller ${i}`,
      controller: new AbortController(),
    }));
    const outcomes = Promise.allSettled(
      callers.map(({ owner, controller }) => images.acquire(reference, { owner, signal: controller.signal })),
    );
    const left = new Set<number>();
    while (left.size < LEAVING) left.add(below(CALLERS));
    const reason = new Error('this caller leaves');
    await Promise.all(
      [...left].map(async (i) => {
        await sleep(below(LEAVE_WITHIN_MS));
        callers[i]!.controller.abort(reason);
      }),
    );

    const settled = await outcomes;
    const seen = settled.map((outcome) =>
      outcome.status === 'rejected' ? (outcome.reason as Error) : outcome.value.imageId,
    );
    expect(seen, `HANDOVER_SEED=${seed}`).toEqual(callers.map((_, i) => (left.has(i) ? reason : image.id)));
    expect(proxy.sequence.filter((call) => call === 'POST /images/create')).toHaveLength(1);
    expect(registry.blobBytes).toBe(image.bytes);
    expect(images.explain(reference).holders).toHaveLength(CALLERS - LEAVING);

    for (const outcome of settled) if (outcome.status === 'fulfilled') await outcome.value.release();
    await expect.poll(() => images.snapshot()).toEqual([]);
    await images.close();
    expect(callers.map(({ controller }) => getEventListeners(controller.signal, 'abort').length)).toEqual(
      callers.map(() => 0),
    );
    expect(clock.armed).toBe(0);
    await expect(engine.docker.getImage(reference).inspect()).rejects.toMatchObject({ statusCode: 404 });
  });
});
