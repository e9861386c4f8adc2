import fc from 'fast-check';
import { FakeClock } from 'handover/testing';
import { expect, it } from 'vitest';
import { HeapTimer } from '../../src/internal/heap-timer.js';

/** What somebody does, and again when the alarm fires that it has set: numbers are those of alarms, modulo their count. */
type Deed =
  { readonly add: number; readonly then: readonly Deed[] } | { readonly cancel: number } | { readonly advance: number };

const { deeds } = fc.letrec<{ deed: Deed; deeds: readonly Deed[] }>((tie) => ({
  deeds: fc.array(tie('deed'), { maxLength: 4, depthIdentifier: 'deeds' }),
  deed: fc.oneof(
    { depthIdentifier: 'deeds', maxDepth: 4, withCrossShrink: true },
    fc.record({ cancel: fc.nat(20) }),
    fc.record({ add: fc.nat(3), then: tie('deeds') }),
  ),
}));
const steps = fc.array(
  fc.oneof(
    fc.record({ add: fc.nat(3), then: deeds }),
    fc.record({ cancel: fc.nat(20) }),
    fc.record({ advance: fc.nat(5) }),
  ),
  { maxLength: 30 },
);

/** The same as a list that is looked through: each alarm at its time, of several at one time the first that was added. */
class Model {
  now = 0;
  readonly fired: string[] = [];
  #alarms: { readonly at: number; readonly number: number; readonly then: readonly Deed[] }[] = [];
  #count = 0;

  get size(): number {
    return this.#alarms.length;
  }

  do(deed: Deed): void {
    if ('add' in deed) this.#alarms.push({ at: this.now + deed.add, number: this.#count++, then: deed.then });
    else if ('cancel' in deed) this.#drop(deed.cancel % Math.max(1, this.#count));
    else this.#advance(this.now + deed.advance);
  }

  #drop(number: number): void {
    this.#alarms = this.#alarms.filter((alarm) => alarm.number !== number);
  }

  #advance(end: number): void {
    for (;;) {
      const [next] = this.#alarms.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at || a.number - b.number);
      this.now = next?.at ?? end;
      if (next === undefined) return;
      this.#drop(next.number);
      this.fired.push(`${next.number} at ${next.at}`);
      next.then.forEach((deed) => this.do(deed));
    }
  }
}

it('IC-15 whatever is added and cancelled, also by alarms that fire: each comes at its time or never, on one timer', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const model = new Model();
      const clock = new FakeClock();
      const timers = new HeapTimer(clock);
      const fired: string[] = [];
      const cancels: (() => void)[] = [];
      const act = (deed: Deed): void => {
        if ('add' in deed) {
          const number = cancels.length;
          cancels.push(() => undefined);
          cancels[number] = timers.add(deed.add, () => {
            fired.push(`${number} at ${clock.now()}`);
            deed.then.forEach(act);
          });
        } else if ('cancel' in deed) cancels[deed.cancel % Math.max(1, cancels.length)]?.();
      };
      for (const deed of [...all, { advance: 100 }]) {
        if ('advance' in deed) await clock.advance(deed.advance);
        else act(deed);
        model.do(deed);
        expect([fired, timers.size, clock.pending]).toEqual([model.fired, model.size, Math.min(1, model.size)]);
      }
    }),
    { numRuns: 200 },
  );
});

it('IC-15 an alarm that is cancelled by another one of the same time does not come', async () => {
  const clock = new FakeClock();
  const timers = new HeapTimer(clock);
  const fired: string[] = [];
  timers.add(10, () => {
    fired.push('first');
    cancel();
  });
  const cancel = timers.add(10, () => fired.push('cancelled'));
  timers.add(10, () => {
    fired.push('third');
    timers.clear();
  });
  timers.add(10, () => fired.push('cleared'));
  await clock.advance(20);
  expect([fired, timers.size, clock.pending]).toEqual([['first', 'third'], 0, 0]);
});

it('IC-15 an alarm that throws keeps no other from its ring', () => {
  let ring: () => void = () => undefined;
  const fired: string[] = [];
  const timers = new HeapTimer({
    now: () => 0,
    wall: () => 0,
    random: () => 0,
    timer: (_, fire) => {
      ring = fire;
      return () => undefined;
    },
  });
  timers.add(0, () => {
    throw new Error('broken');
  });
  timers.add(0, () => fired.push('second'));
  expect(ring).toThrow('broken');
  ring();
  expect([fired, timers.size]).toEqual([['second'], 0]);
});

it('G-5 case C64 its timer does not keep the process alive; never is never', () => {
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

it('IC-15 an alarm that is due at once, added by one that fires, comes after whatever else is due by then', async () => {
  const clock = new FakeClock();
  const timers = new HeapTimer(clock);
  const order: string[] = [];
  timers.add(10, () => {
    order.push('first');
    timers.add(0, () => order.push('added'));
  });
  clock.timer(10, () => order.push('other'));
  await clock.advance(10);
  expect(order).toEqual(['first', 'other', 'added']);
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
