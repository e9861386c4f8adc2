import type { Progress } from 'handover';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { FakeClock } from 'handover/testing';
import { PullProgress } from '../../src/docker/pull-progress.js';
import { ProgressFeed } from '../../src/image/progress.js';
import { fixture } from './fixture.js';

it('IC-12 within an attempt nothing goes backwards, whatever the source says', () => {
  const phases = fc.constantFrom<Progress['phase'][]>('resolving', 'downloading', 'extracting');
  const count = fc.record({ done: fc.nat(1000) }, { requiredKeys: ['done'] });
  const total = fc.record({ done: fc.nat(1000), total: fc.nat(1000) });
  const step = fc.record({ phase: phases, bytes: fc.oneof(count, total), layers: fc.oneof(count, total) });
  // Layers come in and are unpacked side by side.
  const begun = (phase: Progress['phase']): boolean => phase !== 'resolving';
  fc.assert(
    fc.property(fc.array(step, { minLength: 2 }), (steps) => {
      const feed = new ProgressFeed(new FakeClock(), () => undefined);
      let last: Progress | undefined;
      for (const next of steps) {
        feed.set({ ...next, attempt: 1 });
        const now = feed.latest;
        if (last !== undefined) {
          expect(now.bytes.done).toBeGreaterThanOrEqual(last.bytes.done);
          expect(now.bytes.total ?? Infinity).toBeGreaterThanOrEqual(last.bytes.total ?? 0);
          expect(now.layers!.done).toBeGreaterThanOrEqual(last.layers!.done);
          if (begun(last.phase)) expect(begun(now.phase)).toBe(true);
        }
        if (now.bytes.total !== undefined) expect(now.bytes.total).toBeGreaterThanOrEqual(now.bytes.done);
        last = now;
      }
    }),
  );
});

it('IC-12 told at most every 250 ms, a new phase at once, and the last value is never lost', async () => {
  const clock = new FakeClock();
  const told: (readonly [number, number])[] = [];
  const feed = new ProgressFeed(clock, ({ bytes }) => told.push([clock.now(), bytes.done]));
  for (let done = 1; done <= 100; done += 1) {
    feed.set({ phase: 'downloading', attempt: 1, bytes: { done } });
    await clock.advance(10);
  }
  feed.set({ phase: 'extracting', attempt: 1, bytes: { done: 100 } });
  expect(told.map(([at]) => at)).toEqual([0, 250, 500, 750, 1000, 1000]);
  expect(told.at(-1)).toEqual([1000, 100]);
  expect(clock.pending).toBe(0);
});

it('IC-12 rate and remaining time are measured when the source does not tell them', async () => {
  const clock = new FakeClock();
  const feed = new ProgressFeed(clock, () => undefined);
  for (let done = 0; done <= 5_000; done += 1_000) {
    feed.set({ phase: 'downloading', attempt: 1, bytes: { done, total: 10_000 } });
    if (done < 5_000) await clock.advance(1_000);
  }
  expect(feed.latest).toMatchObject({ rate: 1_000, eta: 5_000 });
  feed.set({ phase: 'extracting', attempt: 1, bytes: { done: 10_000 } });
  expect(feed.latest.rate).toBeUndefined();
});

it('IC-12 one small layer that is verified while others wait leaves the rest of the download its rate', async () => {
  const clock = new FakeClock();
  const told: Progress[] = [];
  const feed = new ProgressFeed(clock, (progress) => told.push(progress));
  const engine = new PullProgress();
  const line = async (id: string, status: string, progressDetail = {}): Promise<void> => {
    engine.read({ id, status, progressDetail });
    feed.set({ ...engine.now, attempt: 1 });
    await clock.advance(300);
  };
  await line('there', 'Already exists');
  await line('small', 'Pulling fs layer');
  await line('big', 'Waiting');
  await line('small', 'Downloading', { current: 1_000, total: 1_000 });
  await line('small', 'Verifying Checksum');
  await line('small', 'Download complete');
  for (let i = 1; i <= 10; i += 1) await line('big', 'Downloading', { current: i * 300_000, total: 1e7 });
  expect(told.map(({ phase }) => phase).slice(0, 6)).toEqual([
    ...['extracting', 'downloading', 'downloading', 'downloading', 'extracting', 'downloading'],
  ]);
  expect(told.at(-1)).toMatchObject({ phase: 'downloading', rate: expect.closeTo(1e6) as number });
  expect(clock.pending).toBe(0);
});

it('S11 IC-5 a late caller gets the latest at once, everybody the end once', async () => {
  const { images, source } = fixture();
  const held = source.hold('fetch redis:7');
  const early: Progress[] = [];
  const late: Progress[] = [];
  const first = images.acquire('redis:7', { owner: 'a', onProgress: (progress) => early.push(progress) });
  const { onProgress } = await held.reached;
  onProgress({ phase: 'downloading', bytes: { done: 7, total: 10 } });
  const second = images.acquire('redis:7', { owner: 'b', onProgress: (progress) => late.push(progress) });
  expect(late).toMatchObject([{ phase: 'downloading', bytes: { done: 7 } }]);
  held.go();
  await Promise.all([first, second]);
  onProgress({ phase: 'downloading', bytes: { done: 9 } });
  expect(early.map(({ phase }) => phase)).toEqual(['queued', 'resolving', 'downloading', 'done']);
  expect(late.map(({ phase }) => phase)).toEqual(['downloading', 'done']);
});

it('IC-12 one aggregate for all: the event names the owners that wait', async () => {
  const { images, source, events } = fixture();
  const held = source.hold('fetch redis:7');
  const all = ['a', 'b', 'b'].map((owner) => images.acquire('redis:7', { owner }));
  const { onProgress } = await held.reached;
  onProgress({ phase: 'downloading', bytes: { done: 7 } });
  expect(events.findLast(({ type }) => type === 'image:progress')).toMatchObject({
    reference: 'redis:7',
    owners: ['a', 'b'],
    progress: { phase: 'downloading', attempt: 1 },
  });
  held.go();
  await Promise.all(all);
});

it('G-7 an onProgress that throws disturbs nobody', async () => {
  const { images, told } = fixture();
  const onProgress = () => {
    throw new Error('oops');
  };
  await expect(images.acquire('redis:7', { owner: 'a', onProgress })).resolves.toBeDefined();
  expect(told()).toContain('warning:listener-threw');
});
