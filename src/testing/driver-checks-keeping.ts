import assert from 'node:assert/strict';
import { deferred } from '../internal/deferred.js';
import type { DriverBench, TaskDriverSuite } from './driver-suite.js';
import type { Check } from './suite-runner.js';

const LABELS = { 'handover.stop': '{"signal":"SIGINT"}', shift: 'night' };
const REASON = new Error('called off by the suite');

/** Checks of what a driver keeps for a task: its labels, its content, its leases (DP-2, DP-3, DP-8). */
export function keepingChecks(o: TaskDriverSuite<unknown>): readonly Check<DriverBench>[] {
  const { fetches, leased, hanging } = o;
  return [
    ...LABEL_CHECKS,
    ...(fetches === undefined ? [] : contentChecks(fetches)),
    ...(leased === undefined ? [] : leaseChecks(leased)),
    ...(leased === undefined || hanging === undefined ? [] : [abortedLease(leased, hanging)]),
  ];
}

const LABEL_CHECKS: readonly Check<DriverBench>[] = [
  [
    'DP-8 list() tells the labels of the prestart, to another process too',
    async (bench) => {
      await bench.prestart('v1', { labels: LABELS });
      const [listed] = await bench.listed(await bench.again());
      assert.deepEqual(listed?.labels, LABELS);
    },
  ],
  [
    'DP-8 list() tells the labels of a task that runs',
    async (bench) => {
      await bench.start('v1', { labels: LABELS });
      const [listed] = await bench.listed();
      assert.deepEqual(listed?.labels, LABELS);
    },
  ],
  [
    'DP-8 list() tells no labels where there are none',
    async (bench) => {
      await bench.prestart('v1');
      const [listed] = await bench.listed();
      assert.deepEqual(listed?.labels ?? {}, {});
    },
  ],
  [
    'DP-8 the labels of one task are not another one’s',
    async (bench) => {
      await bench.prestart('v1', { labels: LABELS });
      await bench.prestart('v1', { alloc: bench.other, labels: { shift: 'day' } });
      const labels = (await bench.listed()).map((one) => [one.allocId, one.labels?.['shift']] as const);
      assert.deepEqual(
        new Map(labels),
        new Map([
          [bench.alloc, 'night'],
          [bench.other, 'day'],
        ]),
      );
    },
  ],
];

function contentChecks(fetches: () => number): readonly Check<DriverBench>[] {
  return [
    [
      'DP-2 with the content of a task that has ended nothing is fetched, and the new one runs',
      async (bench) => {
        const handle = await bench.start('v1');
        await bench.end(handle);
        await bench.settle(handle.destroy());
        const before = fetches();
        const again = await bench.start('v1', { content: handle.state });
        assert.equal(await bench.settle(again.isRunning({})), true);
        assert.equal(fetches(), before);
      },
    ],
    [
      'DP-2 with the content of a task that runs another alloc gets the same',
      async (bench) => {
        const handle = await bench.start('v1');
        const before = fetches();
        const other = await bench.start('v1', {
          alloc: bench.other,
          content: JSON.parse(JSON.stringify(handle.state)),
        });
        assert.equal(await bench.settle(other.isRunning({})), true);
        assert.equal(fetches(), before);
      },
    ],
    [
      'DP-2 a leftover of the same spec is adopted without a fetch',
      async (bench) => {
        await bench.prestart('v1');
        const before = fetches();
        await bench.prestart('v1', { driver: await bench.again() });
        assert.equal(fetches(), before);
      },
    ],
  ];
}

function leaseChecks(leased: (owner: string) => boolean): readonly Check<DriverBench>[] {
  return [
    [
      'DP-1 what is prepared holds its content; a discard lets go of it',
      async (bench) => {
        const prepared = await bench.prestart('v1');
        assert.equal(leased(bench.owner), true);
        await bench.settle(prepared.discard());
        assert.equal(leased(bench.owner), false);
      },
    ],
    [
      'DP-8 a task holds its content until destroy(), also when it has ended',
      async (bench) => {
        const handle = await bench.start('v1');
        assert.equal(leased(bench.owner), true);
        await bench.end(handle);
        assert.equal(leased(bench.owner), true);
        await bench.settle(handle.destroy());
        assert.equal(leased(bench.owner), false);
      },
    ],
    [
      'DP-2 recover() takes its content again',
      async (bench) => {
        const { state } = await bench.start('v1');
        const driver = await bench.again();
        const found = await bench.recover(state, driver);
        assert.equal(leased(bench.owner), true);
        await bench.end(found);
        await bench.settle(found.destroy());
        assert.equal(leased(bench.owner), false);
      },
    ],
  ];
}

function abortedLease(leased: (owner: string) => boolean, hanging: (allocId: string) => unknown): Check<DriverBench> {
  return [
    'DP-3 a prestart that is called off lets go of what it held',
    async (bench) => {
      const controller = new AbortController();
      const begun = deferred();
      const ask = { spec: hanging(bench.alloc), signal: controller.signal, report: () => begun.resolve() };
      const prestart = bench.prestart('v1', ask);
      await Promise.race([begun.promise, prestart]);
      controller.abort(REASON);
      await assert.rejects(prestart, REASON);
      assert.equal(leased(bench.owner), false);
    },
  ];
}
