import assert from 'node:assert/strict';
import type { TaskHandle } from '../driver/driver.js';
import type { DriverBench } from './driver-suite.js';
import type { Check } from './suite-runner.js';

const REASON = new Error('called off by the suite');

const START_RACES: readonly Check<DriverBench>[] = [
  [
    'DP-1 two starts of one prepared task at the same time start one',
    async (bench) => {
      const prepared = await bench.prestart('v1');
      const starts = await Promise.allSettled([bench.begin(prepared), bench.begin(prepared)]);
      assert.ok(starts.some(({ status }) => status === 'fulfilled'));
      assert.equal((await bench.listed()).length, 1);
      for (const start of starts) {
        if (start.status === 'fulfilled') assert.equal(await bench.settle(start.value.isRunning({})), true);
      }
    },
  ],
  [
    'DP-1 a discard during a start undoes all of it, or nothing',
    async (bench) => {
      const prepared = await bench.prestart('v1');
      const [start] = await bench.settle(Promise.allSettled([bench.driver.start(prepared, {}), prepared.discard()]));
      if (start.status === 'rejected') {
        await bench.settle(prepared.discard());
        assert.deepEqual(await bench.listed(), []);
      } else {
        bench.mind(start.value);
        assert.equal(await bench.settle(start.value.isRunning({})), true);
      }
    },
  ],
  [
    'DP-1 a start after a discard is refused, and nothing runs',
    async (bench) => {
      const prepared = await bench.prestart('v1');
      await bench.settle(prepared.discard());
      await assert.rejects(bench.begin(prepared));
      assert.deepEqual(await bench.listed(), []);
    },
  ],
  [
    'DP-1 a prestart during a start gets nothing that its start takes away',
    async (bench) => {
      const prepared = await bench.prestart('v1');
      const [start, again] = await Promise.allSettled([bench.begin(prepared), bench.prestart('v1')]);
      assert.equal(start.status, 'fulfilled');
      assert.equal(await bench.settle(start.value.isRunning({})), true);
      if (again.status === 'fulfilled') assert.notEqual(again.value, prepared);
    },
  ],
  [
    'DP-2 of two specs at the same time the later one is prepared, and only that',
    async (bench) => {
      const [, second] = await Promise.allSettled([bench.prestart('v1'), bench.prestart('v2')]);
      assert.equal(second.status, 'fulfilled');
      assert.deepEqual(
        (await bench.listed()).map(({ specHash }) => specHash),
        ['hash-of-v2'],
      );
    },
  ],
  [
    'DP-1 two discards at the same time leave nothing',
    async (bench) => {
      const prepared = await bench.prestart('v1');
      await bench.settle(Promise.all([prepared.discard(), prepared.discard()]));
      assert.deepEqual(await bench.listed(), []);
    },
  ],
];

const END_RACES: readonly Check<DriverBench>[] = [
  [
    'DP-8 of several who wait one may leave; the others get the same exit',
    async (bench) => {
      const handle = await bench.start('v1');
      const controller = new AbortController();
      const leaver = handle.wait({ signal: controller.signal });
      const stayers = Promise.all([handle.wait({}), handle.wait({})]);
      controller.abort(REASON);
      await assert.rejects(bench.settle(leaver), REASON);
      await bench.settle(handle.kill({}));
      const [one, other] = await bench.settle(stayers);
      assert.deepEqual(one, other);
    },
  ],
  [
    'DP-8 two destroys at the same time leave nothing',
    async (bench) => {
      const handle = await bench.start('v1');
      await bench.end(handle);
      await bench.settle(Promise.all([handle.destroy(), handle.destroy()]));
      assert.deepEqual(await bench.listed(), []);
    },
  ],
  [
    'DP-8 a task recovered twice is one task: its end is seen by all who wait',
    async (bench) => {
      const handle = await bench.start('v1');
      const driver = await bench.again();
      const recover = () => bench.recover(handle.state, driver);
      const [one, other] = await Promise.all([recover(), recover()]);
      const waits = Promise.all([one.wait({}), other.wait({})]);
      await bench.settle(one.kill({}));
      for (const exit of await bench.settle(waits)) assert.ok(exit);
      assert.equal(await bench.settle(other.isRunning({})), false);
    },
  ],
  [
    'SS-5 a task is killed while it is waited for through another handle',
    async (bench) => {
      const handle = await bench.start('v1');
      const driver = await bench.again();
      const found = await bench.recover(handle.state, driver);
      const wait = handle.wait({});
      await bench.settle(found.kill({}));
      const { code, signal, oom, at } = await bench.settle(wait);
      assert.ok(code === null || signal === null);
      assert.deepEqual([typeof oom, Number.isFinite(at)], ['boolean', true]);
    },
  ],
];

/** What a call with a signal that has aborted must not do. */
type Ask = (bench: DriverBench, handle: TaskHandle, signal: AbortSignal) => Promise<unknown>;
const ASKS: Readonly<Record<string, Ask>> = {
  'isRunning()': (_, handle, signal) => handle.isRunning({ signal }),
  'wait()': (_, handle, signal) => handle.wait({ signal }),
  'signal()': (_, handle, signal) => handle.signal('SIGTERM', { signal }),
  'kill()': (_, handle, signal) => handle.kill({ signal }),
  'list()': ({ driver }, _, signal) => driver.list({ signal }),
  'recover()': ({ driver, owner }, { state }, signal) => driver.recover(state, { owner, signal }),
};

const ABORTED_CHECKS: readonly Check<DriverBench>[] = Object.entries(ASKS).map(([what, ask]) => [
  `G-4 ${what} with a signal that has aborted rejects with its reason, and does nothing`,
  async (bench) => {
    const handle = await bench.start('v1');
    await assert.rejects(bench.settle(ask(bench, handle, AbortSignal.abort(REASON))), REASON);
    assert.equal(await bench.settle(handle.isRunning({})), true);
  },
]);

const HYGIENE_CHECKS: readonly Check<DriverBench>[] = Object.entries(ASKS)
  .filter(([what]) => !['signal()', 'kill()', 'wait()'].includes(what))
  .map(([what, ask]) => [
    `C61 nothing of ${what} stays on its signal`,
    async (bench) => {
      const handle = await bench.start('v1');
      const counted = new CountedSignal();
      await bench.settle(ask(bench, handle, counted.signal));
      assert.equal(counted.listeners, 0);
    },
  ]);

/** Checks of what happens at the same time (DP-1, DP-2, DP-8), and of calls that are called off (G-4). */
export const RACE_CHECKS: readonly Check<DriverBench>[] = [
  ...START_RACES,
  ...END_RACES,
  ...ABORTED_CHECKS,
  ...HYGIENE_CHECKS,
  [
    'C61 nothing of a whole life stays on its signal',
    async (bench) => {
      const counted = new CountedSignal();
      const { signal } = counted;
      const prepared = await bench.prestart('v1', { signal });
      const handle = bench.mind(await bench.settle(bench.driver.start(prepared, { signal })));
      const wait = handle.wait({ signal });
      await bench.settle(handle.kill({ signal }));
      await bench.settle(wait);
      await bench.settle(handle.destroy({ signal }));
      assert.equal(counted.listeners, 0);
    },
  ],
];

/** Knows how many listen to it. */
class CountedSignal {
  readonly signal = new AbortController().signal;
  readonly #listeners = new Set<unknown>();

  constructor() {
    const { signal } = this;
    const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)];
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      this.#listeners.add(args[1]);
      add(...args);
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      this.#listeners.delete(args[1]);
      remove(...args);
    };
  }

  get listeners(): number {
    return this.#listeners.size;
  }
}
