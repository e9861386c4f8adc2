import fc from 'fast-check';
import { FakeClock } from 'handover/testing';
import { expect, it } from 'vitest';
import { HeapTimer } from '../../src/internal/heap-timer.js';

it('IC-15 any adds and cancels: each alarm fires at its time or never, on one timer', async () => {
  const step = fc.record({ ms: fc.nat(50), cancel: fc.boolean(), wait: fc.nat(20) });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const clock = new FakeClock();
      const timers = new HeapTimer(clock);
      const alarms: { due: number; cancel: () => void; fired?: number; cancelled?: true }[] = [];
      for (const { ms, cancel, wait } of steps) {
        const alarm: (typeof alarms)[number] = { due: clock.now() + ms, cancel: () => undefined };
        alarm.cancel = timers.add(ms, () => (alarm.fired = clock.now()));
        alarms.push(alarm);
        const victim = alarms[(ms * 7) % alarms.length]!;
        if (cancel && victim.fired === undefined) {
          victim.cancel();
          victim.cancelled = true;
        }
        expect(clock.pending).toBeLessThanOrEqual(1);
        await clock.advance(wait);
      }
      await clock.advance(100);
      for (const alarm of alarms) expect(alarm.fired).toBe(alarm.cancelled ? undefined : alarm.due);
      expect([timers.size, clock.pending]).toEqual([0, 0]);
    }),
    { numRuns: 60 },
  );
});

it('G-5 its timer does not keep the process alive; never is never', () => {
  const asked: unknown[] = [];
  const timers = new HeapTimer({
    now: () => 0,
    wall: () => 0,
    random: () => 0,
    timer: (ms, _fire, o) => {
      if (ms !== Infinity) asked.push(o);
      return () => undefined;
    },
  });
  timers.add(Infinity, () => undefined);
  expect(asked).toEqual([]);
  timers.add(5, () => undefined);
  expect(asked).toEqual([{ keepAlive: false }]);
});

it('IC-23 clear cancels everything', async () => {
  const clock = new FakeClock();
  const timers = new HeapTimer(clock);
  const cancel = timers.add(5, () => expect.unreachable());
  timers.clear();
  cancel();
  await clock.advance(10);
  expect([timers.size, clock.pending]).toEqual([0, 0]);
});
