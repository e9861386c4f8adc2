import assert from 'node:assert/strict';
import type { DriverBench, TaskDriverSuite } from './driver-suite.js';
import type { Check } from './suite-runner.js';

/** Checks of how a task ends and is destroyed (DP-8, DP-9). */
export function endingChecks(o: TaskDriverSuite<unknown>): readonly Check<DriverBench>[] {
  const { exiting, stubborn, signals } = o;
  return [
    ...EXIT_CHECKS,
    ...DESTROY_CHECKS,
    ...(exiting === undefined ? [] : [exitsByItself(exiting)]),
    ...(stubborn === undefined ? [] : [ignoresTerm(stubborn)]),
    ...(stubborn === undefined || signals === undefined ? [] : [signalledOnce(stubborn, signals)]),
  ];
}

const EXIT_CHECKS: readonly Check<DriverBench>[] = [
  [
    'DP-9 a task that our signal ended says so',
    async (bench) => {
      const handle = await bench.start('v1');
      const wait = handle.wait({});
      await bench.settle(handle.signal('SIGTERM', {}));
      const exit = await bench.settle(wait);
      assert.equal(exit.by, 'signal');
      assert.equal(await bench.settle(handle.isRunning({})), false);
      assert.deepEqual(await bench.settle(handle.wait({})), exit);
    },
  ],
  [
    'DP-9 a task that our kill ended says so',
    async (bench) => {
      const handle = await bench.start('v1');
      await bench.settle(handle.kill({}));
      const exit = await bench.settle(handle.wait({}));
      assert.equal(exit.by, 'kill');
      assert.equal(await bench.settle(handle.isRunning({})), false);
    },
  ],
  [
    'DP-9 S73 a signal or a kill for a task that has ended is a success',
    async (bench) => {
      const handle = await bench.start('v1');
      await bench.end(handle);
      await bench.settle(handle.signal('SIGTERM', {}));
      await bench.settle(handle.kill({}));
      await bench.settle(handle.destroy());
      await bench.settle(handle.signal('SIGTERM', {}));
      await bench.settle(handle.kill({}));
    },
  ],
];

const DESTROY_CHECKS: readonly Check<DriverBench>[] = [
  [
    'DP-8 destroy() leaves nothing, and may be repeated',
    async (bench) => {
      const handle = await bench.start('v1');
      await bench.end(handle);
      await bench.settle(handle.destroy());
      await bench.settle(handle.destroy());
      assert.deepEqual(await bench.listed(), []);
    },
  ],
  [
    'DP-8 destroy() of a task that still runs is refused and leaves it running',
    async (bench) => {
      const handle = await bench.start('v1');
      await assert.rejects(bench.settle(handle.destroy()));
      assert.equal(await bench.settle(handle.isRunning({})), true);
    },
  ],
  [
    'DP-2 the remains of a task that has ended do not stand in the way of a new one',
    async (bench) => {
      await bench.end(await bench.start('v1'));
      const again = await bench.start('v1');
      assert.equal(await bench.settle(again.isRunning({})), true);
      assert.equal((await bench.listed()).length, 1);
    },
  ],
  [
    'DP-8 after destroy() the same owner can be prepared again, with another spec',
    async (bench) => {
      const handle = await bench.start('v1');
      await bench.end(handle);
      await bench.settle(handle.destroy());
      const again = await bench.start('v2');
      assert.equal(await bench.settle(again.isRunning({})), true);
    },
  ],
];

function exitsByItself(exiting: (allocId: string) => unknown): Check<DriverBench> {
  return [
    'DP-9 a task that ends by itself tells its exit code, also to who asks late',
    async (bench) => {
      const handle = await bench.begin(await bench.prestart('v1', { spec: exiting(bench.alloc) }));
      const { code, signal, by } = await bench.settle(handle.wait({}));
      assert.deepEqual({ code, signal, by }, { code: 3, signal: null, by: 'self' });
      assert.equal((await bench.settle(handle.wait({}))).code, 3);
    },
  ];
}

function ignoresTerm(stubborn: (allocId: string) => unknown): Check<DriverBench> {
  return [
    'DP-9 a task that ignores SIGTERM goes on until it is killed',
    async (bench) => {
      const handle = await bench.start('v1', { spec: stubborn(bench.alloc) });
      await bench.settle(handle.signal('SIGTERM', {}));
      assert.equal(await bench.settle(handle.isRunning({})), true);
      await bench.settle(handle.kill({}));
      assert.equal((await bench.settle(handle.wait({}))).by, 'kill');
    },
  ];
}

function signalledOnce(
  stubborn: (allocId: string) => unknown,
  signals: (owner: string) => readonly string[],
): Check<DriverBench> {
  return [
    'SS-5 what is sent is sent once: nothing but that, and the kill',
    async (bench) => {
      const handle = await bench.start('v1', { spec: stubborn(bench.alloc) });
      await bench.settle(handle.signal('SIGTERM', {}));
      await bench.settle(handle.kill({}));
      await bench.settle(handle.wait({}));
      assert.deepEqual(signals(bench.owner), ['SIGTERM']);
    },
  ];
}
