import assert from 'node:assert/strict';
import { isHandoverError } from '../errors.js';
import type { DriverBench } from './driver-suite.js';
import type { Check } from './suite-runner.js';

const NEEDED = ['owner', 'allocId', 'task', 'specHash', 'report'] as const;
const KINDS = ['port', 'name', 'address', 'mount', 'device'];

function isRefused(error: unknown): boolean {
  return isHandoverError(error, 'ERR_INVALID_OPTION');
}

const CONTEXT_CHECKS: readonly Check<DriverBench>[] = NEEDED.map((key) => [
  `G-2 prestart() refuses a context without ${key}, and makes nothing`,
  async (bench) => {
    const ctx = { ...bench.context('v1'), [key]: undefined } as never;
    await assert.rejects(bench.settle(bench.driver.prestart(ctx)), isRefused);
    assert.deepEqual(await bench.listed(), []);
  },
]);

/** Checks of what drivers are given (G-2), and of what they say of a spec. */
export const INPUT_CHECKS: readonly Check<DriverBench>[] = [
  ...CONTEXT_CHECKS,
  [
    'G-2 parse() refuses what is no spec',
    async ({ driver }) => {
      for (const input of [undefined, null, 5, 'spec', [], {}]) assert.throws(() => driver.parse(input), isRefused);
    },
  ],
  [
    'G-2 parse() leaves its input as it is',
    async ({ driver, options }) => {
      const spec = options.spec('v1');
      const before = JSON.stringify(spec);
      driver.parse(spec);
      assert.equal(JSON.stringify(spec), before);
    },
  ],
  [
    'G-2 parse() of what it gave changes nothing',
    async ({ driver, options }) => {
      const parsed: unknown = driver.parse(options.spec('v1'));
      assert.deepEqual(driver.parse(parsed), parsed);
    },
  ],
  [
    'DP-7 exclusive() tells kind, key, scope, and from when on, as JSON',
    async ({ driver, options }) => {
      const resources = driver.exclusive(driver.parse(options.spec('v1')));
      assert.deepEqual(JSON.parse(JSON.stringify(resources)), resources);
      for (const { kind, key, scope, needed } of resources) {
        assert.ok(KINDS.includes(kind), kind);
        assert.notEqual(key, '');
        assert.ok(['host', 'cluster'].includes(scope), scope);
        assert.ok(['create', 'start'].includes(needed), needed);
      }
    },
  ],
  [
    'G-2 start() refuses what it has not prepared',
    async (bench) => {
      for (const prepared of [null, {}, { owner: bench.owner, specHash: 'x' }]) {
        await assert.rejects(bench.settle(bench.driver.start(prepared as never, {})), isRefused);
      }
      assert.deepEqual(await bench.listed(), []);
    },
  ],
  [
    'G-2 recover() refuses what is no state of its own',
    async (bench) => {
      for (const state of [undefined, null, 5, 'state', {}]) {
        await assert.rejects(bench.settle(bench.driver.recover(state, { owner: bench.owner })), isRefused);
      }
    },
  ],
  [
    'G-2 list() refuses what is no call',
    async (bench) => {
      await assert.rejects(bench.settle(bench.driver.list(null as never)), isRefused);
    },
  ],
  [
    'G-2 signal() refuses what is no signal, and the task goes on',
    async (bench) => {
      const handle = await bench.start('v1');
      for (const name of ['SIGNOPE', '', 'TERM!']) {
        await assert.rejects(bench.settle(handle.signal(name, {})), isRefused);
      }
      assert.equal(await bench.settle(handle.isRunning({})), true);
    },
  ],
];
