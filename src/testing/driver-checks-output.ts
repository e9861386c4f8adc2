import assert from 'node:assert/strict';
import type { Call } from '../call.js';
import type { ExecResult, LogChunk, LogOptions, TaskHandle } from '../driver/driver.js';
import { isHandoverError } from '../errors.js';
import type { DriverBench, TaskDriverSuite } from './driver-suite.js';
import type { Check } from './suite-runner.js';

const REASON = new Error('called off by the suite');
const BOTH = { stdout: 'out\n', stderr: 'err\n' };
const HEALTH = ['starting', 'healthy', 'unhealthy', 'none'];

/** Checks of what a handle may offer besides: `logs`, `exec`, `health` (DP-8). */
export function outputChecks(o: TaskDriverSuite<unknown>): readonly Check<DriverBench>[] {
  const { speaking, command } = o;
  return [
    ...(speaking === undefined ? [] : [...logChecks(speaking), ...logLimits(speaking)]),
    ...(command === undefined ? [] : execChecks(command)),
    HEALTH_CHECK,
  ];
}

function logChecks(speaking: (allocId: string) => unknown): readonly Check<DriverBench>[] {
  const speak = async (bench: DriverBench): Promise<TaskHandle> =>
    bench.begin(await bench.prestart('v1', { spec: speaking(bench.alloc) }));
  return [
    [
      'DP-8 logs() tells both outputs of a task that runs',
      async (bench) => {
        const handle = await speak(bench);
        assert.deepEqual(await bench.settle(until(handle)), BOTH);
        assert.equal(await bench.settle(handle.isRunning({})), true);
      },
    ],
    [
      'DP-8 logs() followed ends with the task',
      async (bench) => {
        const handle = await speak(bench);
        const read = all(handle, { follow: true });
        await bench.settle(until(handle));
        await bench.settle(handle.kill({}));
        assert.deepEqual(await bench.settle(read), BOTH);
      },
    ],
    [
      'DP-8 logs() of a task that has ended tells what it wrote, to another process too',
      async (bench) => {
        const handle = await speak(bench);
        await bench.settle(until(handle));
        await bench.end(handle);
        assert.deepEqual(await bench.settle(all(handle)), BOTH);
        const driver = await bench.again();
        assert.deepEqual(await bench.settle(all(await bench.recover(handle.state, driver))), BOTH);
      },
    ],
  ];
}

function logLimits(speaking: (allocId: string) => unknown): readonly Check<DriverBench>[] {
  const speak = async (bench: DriverBench): Promise<TaskHandle> =>
    bench.begin(await bench.prestart('v1', { spec: speaking(bench.alloc) }));
  return [
    [
      'G-4 logs() ends with the reason of its signal',
      async (bench) => {
        const handle = await speak(bench);
        const controller = new AbortController();
        const read = all(handle, { follow: true, signal: controller.signal });
        controller.abort(REASON);
        await assert.rejects(bench.settle(read), REASON);
      },
    ],
    [
      'DP-8 whoever stops reading logs() leaves the task alone',
      async (bench) => {
        const handle = await speak(bench);
        await bench.settle(until(handle));
        assert.equal(await bench.settle(handle.isRunning({})), true);
      },
    ],
    [
      'G-2 logs() refuses bad options at once',
      async (bench) => {
        const handle = await speak(bench);
        for (const o of [null, { follow: 'yes' }, { since: -1 }, { tail: 1 }]) {
          assert.throws(() => logs(handle, o as never), isRefused);
        }
      },
    ],
  ];
}

function execChecks(command: (code: number) => readonly string[]): readonly Check<DriverBench>[] {
  return [
    [
      'DP-8 exec() tells the exit code and the output of a command',
      async (bench) => {
        const handle = await bench.start('v1');
        assert.deepEqual(await bench.settle(exec(handle, command(0), {})), { code: 0, output: 'ran\n' });
        assert.equal((await bench.settle(exec(handle, command(7), {}))).code, 7);
        assert.equal(await bench.settle(handle.isRunning({})), true);
      },
    ],
    [
      'DP-8 exec() of a task that was recovered',
      async (bench) => {
        const { state } = await bench.start('v1');
        const driver = await bench.again();
        const found = await bench.recover(state, driver);
        assert.equal((await bench.settle(exec(found, command(0), {}))).output, 'ran\n');
      },
    ],
    [
      'DP-8 exec() of a task that has ended is an ERR_DRIVER',
      async (bench) => {
        const handle = await bench.start('v1');
        await bench.end(handle);
        await assert.rejects(bench.settle(exec(handle, command(0), {})), (error) =>
          isHandoverError(error, 'ERR_DRIVER'),
        );
      },
    ],
    [
      'G-4 exec() with a signal that has aborted rejects with its reason',
      async (bench) => {
        const handle = await bench.start('v1');
        const run = exec(handle, command(0), { signal: AbortSignal.abort(REASON) });
        await assert.rejects(bench.settle(run), REASON);
      },
    ],
    [
      'G-2 exec() refuses what is no command',
      async (bench) => {
        const handle = await bench.start('v1');
        for (const argv of [[], [''], 'ls', [5]]) {
          await assert.rejects(bench.settle(exec(handle, argv as never, {})), isRefused);
        }
      },
    ],
  ];
}

const HEALTH_CHECK: Check<DriverBench> = [
  'DP-8 health(), if there is one, says one of four words',
  async (bench) => {
    const handle = await bench.start('v1');
    const health = await bench.settle(handle.health?.({}) ?? Promise.resolve('none'));
    assert.ok(HEALTH.includes(health), health);
  },
];

function isRefused(error: unknown): boolean {
  return isHandoverError(error, 'ERR_INVALID_OPTION');
}

function logs(handle: TaskHandle, o?: LogOptions): AsyncIterable<LogChunk> {
  const read = handle.logs?.(o);
  assert.ok(read, 'a suite with a speaking spec needs a handle with logs()');
  return read;
}

async function exec(handle: TaskHandle, argv: readonly string[], call: Call): Promise<ExecResult> {
  const result = await handle.exec?.(argv, call);
  assert.ok(result, 'a suite with a command needs a handle with exec()');
  return result;
}

async function all(handle: TaskHandle, o?: LogOptions): Promise<Readonly<Record<'stdout' | 'stderr', string>>> {
  const text = { stdout: '', stderr: '' };
  for await (const { stream, chunk } of logs(handle, o)) text[stream] += Buffer.from(chunk).toString('utf8');
  return text;
}

/** Reads until both outputs have come: a task may take a moment to write. */
async function until(handle: TaskHandle): Promise<typeof BOTH> {
  const text = { stdout: '', stderr: '' };
  for await (const { stream, chunk } of logs(handle, { follow: true })) {
    text[stream] += Buffer.from(chunk).toString('utf8');
    if (text.stdout.length + text.stderr.length >= BOTH.stdout.length + BOTH.stderr.length) break;
  }
  return text;
}
