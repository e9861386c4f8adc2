import assert from 'node:assert/strict';
import type { TaskHandle } from '../driver/driver.js';
import type { DriverBench } from './driver-suite.js';
import type { Check } from './suite-runner.js';

const REASON = new Error('called off by the suite');

const START_CHECKS: readonly Check<DriverBench>[] = [
  [
    'DP-8 start() gives a handle to a running task, under its owner as id',
    async (bench) => {
      const handle = await bench.start('v1');
      assert.equal(handle.id, bench.owner);
      assert.equal(await bench.settle(handle.isRunning({})), true);
      const listed = (await bench.listed()).map(({ started, specHash }) => ({ started, specHash }));
      assert.deepEqual(listed, [{ started: true, specHash: 'hash-of-v1' }]);
    },
  ],
  [
    'DP-8 ports() is pure, and names the endpoints that the task then has',
    async (bench) => {
      const { driver, options } = bench;
      if (driver.ports === undefined) return;
      const spec: unknown = driver.parse(options.spec('v1'));
      const names = [...driver.ports(spec)].sort();
      assert.deepEqual([...driver.ports(spec)].sort(), names);
      assert.deepEqual(await bench.listed(), []);
      const { endpoints } = await bench.start('v1');
      assert.deepEqual(Object.keys(endpoints).sort(), names);
    },
  ],
  [
    'DP-1 discard() after start() has resolved is a no-op',
    async (bench) => {
      const prepared = await bench.prestart('v1');
      const handle = await bench.begin(prepared);
      await bench.settle(prepared.discard());
      assert.equal(await bench.settle(handle.isRunning({})), true);
    },
  ],
  [
    'G-4 start() with a signal that has aborted rejects with its reason; discard() then leaves nothing',
    async (bench) => {
      const prepared = await bench.prestart('v1');
      const start = bench.driver.start(prepared, { signal: AbortSignal.abort(REASON) });
      await assert.rejects(bench.settle(start), REASON);
      await bench.settle(prepared.discard());
      assert.deepEqual(await bench.listed(), []);
    },
  ],
  [
    'DP-2 what runs is no leftover: preparing its owner again, with whatever spec, leaves it running',
    async (bench) => {
      const handle = await bench.start('v1');
      const driver = await bench.again();
      await bench.prestart('v1', { driver }).catch(() => undefined);
      await bench.prestart('v2', { driver }).catch(() => undefined);
      assert.equal(await bench.settle(handle.isRunning({})), true);
    },
  ],
  [
    'DP-8 two allocs run side by side, and one of them ends alone',
    async (bench) => {
      const mine = await bench.start('v1');
      const other = await bench.start('v2', { alloc: bench.other });
      await bench.end(mine);
      assert.equal(await bench.settle(mine.isRunning({})), false);
      assert.equal(await bench.settle(other.isRunning({})), true);
    },
  ],
  [
    'G-4 an abort ends the waiting, not the task',
    async (bench) => {
      const handle = await bench.start('v1');
      const controller = new AbortController();
      const wait = handle.wait({ signal: controller.signal });
      controller.abort(REASON);
      await assert.rejects(bench.settle(wait), REASON);
      assert.equal(await bench.settle(handle.isRunning({})), true);
    },
  ],
];

const RECOVER_CHECKS: readonly Check<DriverBench>[] = [
  [
    'DP-8 recover() finds a running task by its state after JSON, and the handle works',
    async (bench) => {
      const handle = await bench.start('v1');
      const state: unknown = JSON.parse(JSON.stringify(handle.state));
      assert.deepEqual(state, handle.state);
      const driver = await bench.again();
      const found: TaskHandle | undefined = await bench.settle(driver.recover(state, { owner: bench.owner }));
      assert.ok(found);
      assert.equal(found.id, handle.id);
      assert.deepEqual(found.state, state);
      assert.deepEqual(found.endpoints, handle.endpoints);
      assert.equal(await bench.settle(found.isRunning({})), true);
      await bench.end(found);
      assert.equal(await bench.settle(found.isRunning({})), false);
      await bench.settle(found.destroy());
      assert.deepEqual(await bench.listed(driver), []);
    },
  ],
  [
    'DP-8 the state that list() tells is one to recover by',
    async (bench) => {
      const handle = await bench.start('v1');
      const driver = await bench.again();
      const [listed] = await bench.listed(driver);
      assert.deepEqual(listed?.state, handle.state);
    },
  ],
  [
    'DP-8 recover() of a task that is gone is undefined',
    async (bench) => {
      const handle = await bench.start('v1');
      await bench.end(handle);
      await bench.settle(handle.destroy());
      const driver = await bench.again();
      assert.equal(await bench.settle(driver.recover(handle.state, { owner: bench.owner })), undefined);
    },
  ],
];

/** Checks of a started task: `start`, `list` and `recover` (DP-1, DP-2, DP-8). */
export const RUNNING_CHECKS: readonly Check<DriverBench>[] = [...START_CHECKS, ...RECOVER_CHECKS];
