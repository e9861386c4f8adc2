import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { Call, Opt } from '../call.js';
import type { ListedTask, PreparedTask, PrestartContext, TaskDriver, TaskHandle } from '../driver/driver.js';
import { INPUT_CHECKS } from './driver-checks-input.js';
import { keepingChecks } from './driver-checks-keeping.js';
import { outputChecks } from './driver-checks-output.js';
import { RACE_CHECKS } from './driver-checks-races.js';
import { endingChecks } from './driver-checks-ending.js';
import { prestartChecks } from './driver-checks-prestart.js';
import { RUNNING_CHECKS } from './driver-checks-running.js';
import { type SuiteOptions, registerChecks } from './suite-runner.js';

/** What the suite has to know of a driver. What is optional switches on the checks that need it. */
export type TaskDriverSuite<S> = {
  /** A driver; called before each check. Its world may be shared: the suite uses alloc ids of its own. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- only the spec's type matters to the suite
  make(): Promise<TaskDriver<S, any, any>>;
  /** A spec of a task that runs until it is signalled, and ends on SIGTERM. Versions differ in their spec. */
  spec(version: string): S;
} & SuiteOptions &
  Opt<{
    /** Another driver over the world of the last `make()`, as after a restart of the process. Default: the same driver. */
    // eslint-disable-next-line @typescript-eslint/no-explicit-any -- as above
    again: () => Promise<TaskDriver<S, any, any>>;
    /** Waits for the promise, and moves time for it if the driver runs by a fake clock. Default: only waits. */
    settle: <T>(promise: Promise<T>) => Promise<T>;
    /** Waits until a task that was just started takes signals as it means to. Default: at once. */
    ready: (handle: TaskHandle) => Promise<void>;
    /** Removes, behind the driver's back, what was prepared for the owner `${allocId}/${task}`. */
    vanish: (owner: string) => Promise<void>;
    /** A spec of a task that ends by itself with exit code 3, soon after its start. */
    exiting: (allocId: string) => S;
    /** A spec of a task that ignores SIGTERM. */
    stubborn: (allocId: string) => S;
    /** A spec whose prestart goes on until it is aborted. */
    hanging: (allocId: string) => S;
    /** A spec of a task that soon writes `out` and a line's end to its output, and `err` to its error output, and runs on. */
    speaking: (allocId: string) => S;
    /** A command for `exec()` that writes `ran` and a line's end, and ends with the code. */
    command: (code: number) => readonly string[];
    /** How often content has been fetched so far, by any driver of the world. */
    fetches: () => number;
    /** Whether the driver that was made last holds content for the owner `${allocId}/${task}`. */
    leased: (owner: string) => boolean;
    /** The signals that the task of the owner was sent, oldest first, SIGKILL left out. */
    signals: (owner: string) => readonly string[];
  }>;

/** A driver whose own types do not matter. */
type AnyDriver = TaskDriver<unknown>;

/** How a check asks for a preparation. */
export type PrestartAsk = Call &
  Opt<{
    alloc: string;
    spec: unknown;
    driver: AnyDriver;
    report: () => void;
    labels: Readonly<Record<string, string>>;
    content: unknown;
  }>;

/** What one check works with: a driver, and alloc ids that nobody else has. */
export class DriverBench {
  readonly alloc = `suite-${randomUUID().slice(0, 8)}`;
  readonly other = `${this.alloc}-other`;
  readonly owner = `${this.alloc}/main`;
  readonly #undo: (() => Promise<unknown>)[] = [];

  constructor(
    readonly options: TaskDriverSuite<unknown>,
    readonly driver: AnyDriver,
  ) {}

  settle<T>(promise: Promise<T>): Promise<T> {
    return this.options.settle === undefined ? promise : this.options.settle(promise);
  }

  /** Another driver over the same world. */
  async again(): Promise<AnyDriver> {
    return (await this.options.again?.()) ?? this.driver;
  }

  async prestart(version: string, ask: PrestartAsk = {}): Promise<PreparedTask> {
    const driver = ask.driver ?? this.driver;
    const prepared = await this.settle(driver.prestart(this.context(version, ask)));
    this.#undo.push(() => prepared.discard());
    return prepared;
  }

  /** What a driver is given for a prestart. */
  context(version: string, ask: PrestartAsk = {}): PrestartContext<unknown> {
    const { alloc: allocId = this.alloc, driver = this.driver, report, signal, labels, content } = ask;
    const spec: unknown = driver.parse(ask.spec ?? this.options.spec(version));
    return {
      ...{ owner: `${allocId}/main`, allocId, task: 'main', spec, specHash: `hash-of-${version}` },
      ...{ signal, labels, content },
      report: () => report?.(),
    };
  }

  /** Prepares, starts and waits until the task is ready. */
  async start(version: string, ask: PrestartAsk = {}): Promise<TaskHandle> {
    const handle = await this.begin(await this.prestart(version, ask), ask.driver);
    await this.options.ready?.(handle);
    return handle;
  }

  /** Starts what was prepared. */
  async begin(prepared: PreparedTask, driver: AnyDriver = this.driver): Promise<TaskHandle> {
    return this.mind(await this.settle(driver.start(prepared, {})));
  }

  /** Finds this check's own task again. */
  async recover(state: unknown, driver: AnyDriver): Promise<TaskHandle> {
    const found = await this.settle(driver.recover(state, { owner: this.owner }));
    assert.ok(found, 'recover() has not found a task that is there');
    return found;
  }

  /** It ends with the check. */
  mind(handle: TaskHandle): TaskHandle {
    this.#undo.push(() => this.end(handle).then(() => this.settle(handle.destroy())));
    return handle;
  }

  /** Kills the task and waits for its exit. */
  async end(handle: TaskHandle): Promise<void> {
    await handle.kill({});
    await this.settle(handle.wait({}));
  }

  /** What the driver lists of this check's allocs. */
  async listed(driver: AnyDriver = this.driver): Promise<readonly ListedTask[]> {
    const all: readonly ListedTask[] = await this.settle(driver.list({}));
    return all.filter(({ allocId }) => allocId.startsWith(this.alloc));
  }

  /** Takes away what the check left, newest first; each step is one that the checks themselves prove to be harmless. */
  async clear(): Promise<void> {
    for (const undo of this.#undo.reverse()) await undo().catch(() => undefined);
  }
}

/**
 * The conformance suite of drivers (DP-11): what {@link AllocLifecycle} and `replace()` rely on, as checks against any
 * {@link TaskDriver}. Call it at the top of a test file.
 *
 * @param name - of the driver, for the report
 * @param o - how to get the driver and specs for it
 * @throws HandoverError `ERR_INVALID_OPTION` when there is neither `o.runner` nor a global one
 */
export function describeTaskDriver<S>(name: string, o: TaskDriverSuite<S>): void {
  const checks = [
    ...INPUT_CHECKS,
    ...prestartChecks(o),
    ...keepingChecks(o),
    ...RUNNING_CHECKS,
    ...RACE_CHECKS,
    ...outputChecks(o),
    ...endingChecks(o),
  ];
  registerChecks(`task driver ${name}`, o, checks, async (check) => {
    const bench = new DriverBench(o, (await o.make()) as AnyDriver);
    try {
      await check(bench);
    } finally {
      await bench.clear();
    }
  });
}
