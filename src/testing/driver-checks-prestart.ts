import assert from 'node:assert/strict';
import { isHandoverError } from '../errors.js';
import { deferred } from '../internal/deferred.js';
import type { DriverBench, TaskDriverSuite } from './driver-suite.js';
import type { Check } from './suite-runner.js';

const REASON = new Error('called off by the suite');

/** Checks of `parse`, `exclusive` and `prestart` (DP-1 to DP-7). */
export function prestartChecks(o: TaskDriverSuite<unknown>): readonly Check<DriverBench>[] {
  const { vanish, hanging } = o;
  return [
    ...SPEC_CHECKS,
    ...IDEMPOTENCE_CHECKS,
    ...ABORT_CHECKS,
    ...(vanish === undefined ? [] : [vanished(vanish)]),
    ...(hanging === undefined ? [] : hangingChecks(hanging)),
  ];
}

const SPEC_CHECKS: readonly Check<DriverBench>[] = [
  [
    'G-2 parse() takes a spec as JSON, and refuses a key it does not know by its name',
    async ({ driver, options }) => {
      const wire = JSON.parse(JSON.stringify(options.spec('v1'))) as object;
      assert.ok(driver.parse(wire));
      assert.throws(
        () => driver.parse({ ...wire, noSuchKey: 1 }),
        (error) => isHandoverError(error, 'ERR_INVALID_OPTION') && error.details.path === 'noSuchKey',
      );
    },
  ],
  [
    'DP-7 exclusive() is pure',
    async (bench) => {
      const spec: unknown = bench.driver.parse(bench.options.spec('v1'));
      assert.deepEqual(bench.driver.exclusive(spec), bench.driver.exclusive(spec));
      assert.deepEqual(await bench.listed(), []);
    },
  ],
  [
    'DP-5 prestart() prepares and starts nothing',
    async (bench) => {
      const prepared = await bench.prestart('v1');
      assert.deepEqual([prepared.owner, prepared.specHash], [bench.owner, 'hash-of-v1']);
      const listed = (await bench.listed()).map(({ state: _, labels: __, ...facts }) => facts);
      assert.deepEqual(listed, [{ allocId: bench.alloc, task: 'main', specHash: 'hash-of-v1', started: false }]);
    },
  ],
  [
    'DP-1 discard() leaves nothing, and may be repeated',
    async (bench) => {
      const prepared = await bench.prestart('v1');
      await bench.settle(prepared.discard());
      await bench.settle(prepared.discard());
      await bench.settle(prepared[Symbol.asyncDispose]());
      assert.deepEqual(await bench.listed(), []);
    },
  ],
  [
    'AL-3 intact() tells whether what was prepared is still there',
    async (bench) => {
      const prepared = await bench.prestart('v1');
      assert.equal(await bench.settle(prepared.intact({})), true);
      await bench.settle(prepared.discard());
      assert.equal(await bench.settle(prepared.intact({})), false);
    },
  ],
];

const IDEMPOTENCE_CHECKS: readonly Check<DriverBench>[] = [
  [
    'DP-2 S44 the same spec at the same time is prepared once',
    async (bench) => {
      const [a, b] = await Promise.all([bench.prestart('v1'), bench.prestart('v1')]);
      assert.equal((await bench.listed()).length, 1);
      assert.equal(await bench.settle(a.intact({})), true);
      assert.equal(await bench.settle(b.intact({})), true);
    },
  ],
  [
    'DP-2 S44 another spec for the same owner discards the first',
    async (bench) => {
      const first = await bench.prestart('v1');
      const second = await bench.prestart('v2');
      assert.deepEqual(
        (await bench.listed()).map(({ specHash }) => specHash),
        ['hash-of-v2'],
      );
      assert.equal(await bench.settle(first.intact({})), false);
      assert.equal(await bench.settle(second.intact({})), true);
    },
  ],
  [
    'DP-2 S45 a leftover of an earlier process with the same spec is adopted',
    async (bench) => {
      await bench.prestart('v1');
      const driver = await bench.again();
      const adopted = await bench.prestart('v1', { driver });
      assert.equal((await bench.listed(driver)).length, 1);
      assert.equal(await bench.settle(adopted.intact({})), true);
      const handle = await bench.begin(adopted, driver);
      assert.equal(await bench.settle(handle.isRunning({})), true);
    },
  ],
  [
    'DP-2 S45 a leftover of an earlier process with another spec is discarded',
    async (bench) => {
      await bench.prestart('v1');
      const driver = await bench.again();
      await bench.prestart('v2', { driver });
      assert.deepEqual(
        (await bench.listed(driver)).map(({ specHash }) => specHash),
        ['hash-of-v2'],
      );
    },
  ],
  [
    'DP-2 two allocs are prepared side by side',
    async (bench) => {
      const mine = await bench.prestart('v1');
      const other = await bench.prestart('v2', { alloc: bench.other });
      await bench.settle(mine.discard());
      assert.equal(await bench.settle(other.intact({})), true);
      assert.deepEqual(
        (await bench.listed()).map(({ allocId }) => allocId),
        [bench.other],
      );
    },
  ],
];

const ABORT_CHECKS: readonly Check<DriverBench>[] = [
  [
    'G-4 prestart() with a signal that has aborted rejects with its reason and makes nothing',
    async (bench) => {
      await assert.rejects(bench.prestart('v1', { signal: AbortSignal.abort(REASON) }), REASON);
      assert.deepEqual(await bench.listed(), []);
    },
  ],
  [
    'G-4 an abort after prestart() has settled changes nothing',
    async (bench) => {
      const controller = new AbortController();
      const prepared = await bench.prestart('v1', { signal: controller.signal });
      controller.abort(REASON);
      assert.equal(await bench.settle(prepared.intact({})), true);
    },
  ],
];

function vanished(vanish: (owner: string) => Promise<void>): Check<DriverBench> {
  return [
    'AL-3 what somebody else removed is not intact, and discard() succeeds all the same',
    async (bench) => {
      const prepared = await bench.prestart('v1');
      await vanish(bench.owner);
      assert.equal(await bench.settle(prepared.intact({})), false);
      await bench.settle(prepared.discard());
      assert.deepEqual(await bench.listed(), []);
    },
  ];
}

function hangingChecks(hanging: (allocId: string) => unknown): readonly Check<DriverBench>[] {
  return [
    [
      'DP-3 an abort in the middle of prestart() rejects with its reason and leaves nothing',
      async (bench) => {
        const controller = new AbortController();
        const begun = deferred();
        const ask = { spec: hanging(bench.alloc), signal: controller.signal, report: () => begun.resolve() };
        const prestart = bench.prestart('v1', ask);
        await Promise.race([begun.promise, prestart]);
        controller.abort(REASON);
        await assert.rejects(prestart, REASON);
        assert.deepEqual(await bench.listed(), []);
      },
    ],
    [
      'DP-2 the one of two joiners that leaves rejects at once, and the last one calls the work off',
      async (bench) => {
        const [a, b] = [new AbortController(), new AbortController()];
        const begun = deferred();
        const spec = hanging(bench.alloc);
        const first = bench.prestart('v1', { spec, signal: a.signal, report: () => begun.resolve() });
        await Promise.race([begun.promise, first]);
        const second = bench.prestart('v1', { spec, signal: b.signal });
        // Should the first one fail in another way than it has to, nobody waits for this one.
        second.catch(() => undefined);
        a.abort(REASON);
        await assert.rejects(first, REASON);
        b.abort(REASON);
        await assert.rejects(second, REASON);
        assert.deepEqual(await bench.listed(), []);
      },
    ],
  ];
}
