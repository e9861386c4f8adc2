import type { Call } from '../call.js';
import type { AnyTaskDriver, ExclusiveResource, ListedTask, PreparedTask, TaskHandle } from '../driver/driver.js';
import type { Ground } from '../env.js';
import { formatDuration } from '../duration.js';
import { HandoverError, invalidOption, isHandoverError } from '../errors.js';
import type { Progress } from '../image/types.js';
import { backoff } from '../internal/backoff.js';
import { deferred } from '../internal/deferred.js';
import { onAbort, sleep, withDeadline } from '../internal/signals.js';
import type { ExitResult } from '../shutdown/types.js';
import { messageOf } from '../internal/message-of.js';
import { specHash } from './spec-hash.js';

/** How soon something that could not be confirmed is tried again. */
const RETRY = { first: 1_000, max: 60_000, jitter: 'full' } as const;

/** How often an undo is tried before whoever waits for it is let go; it is tried on in the background. */
const UNDO_TRIES = 3;

/** How long a driver may take to undo what was called off, before whoever called it off is told anyway (G-4). */
const UNDO_BOUND_MS = 60_000;

/** What a task tells its alloc. */
export interface TaskPorts {
  readonly ground: Ground;
  /** Aborts when the alloc is let go of: from then on nothing is undone or tried again. */
  readonly life: AbortSignal;
  progress(progress: Progress): void;
  warn(message: string, error: unknown): void;
}

/** One task of an alloc, from its preparation to its remains. */
export class AllocTaskRunner {
  readonly owner: string;
  readonly specHash: string;
  readonly exclusive: readonly ExclusiveResource[];
  readonly #driver: AnyTaskDriver;
  readonly #spec: unknown;
  #prepared: PreparedTask | undefined;
  #handle: TaskHandle | undefined;
  /** What an earlier process prepared, and did not start. */
  #leftover: ListedTask | undefined;

  constructor(
    private readonly allocId: string,
    readonly name: string,
    driver: AnyTaskDriver,
    spec: unknown,
    private readonly ports: TaskPorts,
    private readonly labels: Readonly<Record<string, string>>,
  ) {
    this.owner = `${allocId}/${name}`;
    this.#driver = driver;
    this.#spec = driver.parse(spec);
    this.specHash = specHash(spec);
    this.exclusive = driver.exclusive(this.#spec);
  }

  get handle(): TaskHandle | undefined {
    return this.#handle;
  }

  /** Whether an earlier process prepared it and did not start it. */
  get leftOver(): boolean {
    return this.#leftover !== undefined;
  }

  /**
   * Refuses a port that the task will not have, as far as its driver can tell.
   *
   * @param path - of the option that asks for it
   * @throws HandoverError `ERR_INVALID_OPTION`
   */
  requirePort(path: string, port: string): void {
    const names = this.#driver.ports?.(this.#spec);
    if (names === undefined || names.includes(port)) return;
    const has = names.length === 0 ? 'it has none' : `it has ${names.join(', ')}`;
    throw invalidOption(path, `task ${this.name} has no port ${port}; ${has}`);
  }

  /**
   * The slow work. It may have been done in spite of an abort.
   *
   * @throws HandoverError `ERR_PRESTART_FAILED`
   */
  async prestart(signal: AbortSignal): Promise<void> {
    try {
      this.#prepared = await this.#bounded(
        signal,
        async () => (await this.#driver.prestart(this.#context(signal))) as PreparedTask,
        (late) => late.discard(),
      );
      this.#leftover = undefined;
    } catch (error) {
      if (!signal.aborted) throw this.#failed('ERR_PRESTART_FAILED', 'could not be prepared', error);
    }
  }

  /** Whether what was prepared is all still there (AL-3). */
  async intact(call: Call): Promise<boolean> {
    return (await this.#prepared?.intact(call)) ?? false;
  }

  /**
   * Starts what was prepared. A start that failed, or whose fate is unknown, leaves nothing behind.
   *
   * @throws HandoverError `ERR_START_FAILED`, or the signal's reason
   */
  async start(signal: AbortSignal): Promise<TaskHandle> {
    try {
      this.#handle = await this.#bounded(signal, () => this.#driver.start(this.#prepared, { signal }), endNow, letGo);
      return this.#handle;
    } catch (error) {
      this.ports.life.throwIfAborted();
      await this.discard();
      if (signal.aborted) throw signal.reason;
      throw this.#failed('ERR_START_FAILED', 'did not start', error);
    }
  }

  /**
   * Finds what an earlier process left, by its driver's labels.
   *
   * @returns a task that was started, and whether its spec is ours; `undefined`: there is none
   */
  async recover(call: Call): Promise<{ readonly handle: TaskHandle; readonly sameSpec: boolean } | undefined> {
    const listed = await this.#driver.list(call);
    const ours = listed.filter(({ allocId, task }) => allocId === this.allocId && task === this.name);
    const started = ours.find((one) => one.started);
    this.#leftover = started === undefined ? ours[0] : undefined;
    if (started === undefined) return undefined;
    this.#handle = await this.#driver.recover(started.state, { ...call, owner: this.owner });
    return this.#handle && { handle: this.#handle, sameSpec: started.specHash === this.specHash };
  }

  /** Resolves with the exit; a connection that breaks is not an exit (G-8). */
  async exit(handle: TaskHandle, signal: AbortSignal): Promise<ExitResult> {
    const { clock } = this.ports.ground;
    for (let failures = 1; ; failures++) {
      try {
        return await handle.wait({ signal });
      } catch {
        signal.throwIfAborted();
        await sleep(clock, backoff(RETRY, failures, clock), { signal });
      }
    }
  }

  /** Undoes the preparation, unless the alloc was let go of. What cannot be confirmed is tried on in the background (DP-1). */
  async discard(): Promise<void> {
    const prepared = this.#prepared;
    if (prepared !== undefined) await this.#undo(() => prepared.discard());
    else if (this.#leftover !== undefined) await this.#undo(() => this.#removeLeftover());
    this.#prepared = undefined;
    this.#leftover = undefined;
  }

  /**
   * A leftover is removed by taking it over (DP-2, ST-2). What cannot be taken over the driver clears away before it
   * makes a new one, and that is called off as soon as it shows.
   */
  async #removeLeftover(): Promise<void> {
    if (this.#leftover === undefined) return;
    const anew = new AbortController();
    const { specHash } = this.#leftover;
    const context = { ...this.#context(anew.signal), specHash, report: () => anew.abort() };
    try {
      const taken = (await this.#driver.prestart(context)) as PreparedTask;
      await taken.discard();
    } catch (error) {
      if (!anew.signal.aborted) throw error;
    }
  }

  /** Removes the remains of a task that has ended, and lets go of its content. */
  async destroy(call: Call): Promise<void> {
    if (this.#leftover !== undefined) await this.discard();
    await this.#handle?.destroy(call);
    this.#handle = undefined;
  }

  #context(signal: AbortSignal): Parameters<AnyTaskDriver['prestart']>[0] {
    const { allocId, name: task, owner, specHash: hash } = this;
    const report = (progress: Progress): void => this.ports.progress(progress);
    return { owner, allocId, task, spec: this.#spec, specHash: hash, labels: this.labels, signal, report };
  }

  /**
   * Waits for a driver's work; after an abort only so long (G-4), and not at all once the alloc was let go of.
   *
   * @param undo - undoes what comes after all, when nobody waits for it any more
   * @param release - lets go of what comes once the alloc was let go of
   */
  async #bounded<T>(
    signal: AbortSignal,
    work: () => Promise<T>,
    undo: (late: T) => Promise<void>,
    release: (late: T) => void = () => undefined,
  ): Promise<T> {
    const { ground, life } = this.ports;
    const left = deferred<never>();
    left.promise.catch(() => undefined);
    let waiting = true;
    let stopTimer: (() => void) | undefined;
    const disposers = [
      onAbort(signal, (reason) => (stopTimer = ground.clock.timer(UNDO_BOUND_MS, () => left.reject(reason)))),
      onAbort(life, left.reject),
    ];
    const result = work();
    const late = async (value: T): Promise<void> => {
      if (life.aborted) release(value);
      else if (!waiting) await this.#undo(() => undo(value));
    };
    void result.then(late, () => undefined);
    try {
      return await Promise.race([result, left.promise]);
    } finally {
      waiting = false;
      stopTimer?.();
      for (const dispose of disposers) dispose();
    }
  }

  async #undo(undo: () => Promise<void>): Promise<void> {
    for (let failures = 1; !this.ports.life.aborted; failures++) {
      try {
        await this.#undoOnce(undo);
        return;
      } catch (error) {
        this.ports.warn(`The undoing of ${this.owner} could not be confirmed; it is tried again`, error);
      }
      if (failures === UNDO_TRIES) {
        void this.#undoLater(undo, failures);
        return;
      }
      await this.#pause(failures, true);
    }
  }

  async #undoLater(undo: () => Promise<void>, failures: number): Promise<void> {
    await this.#pause(failures, false);
    if (this.ports.life.aborted) return;
    await this.#undoOnce(undo).catch(() => this.#undoLater(undo, failures + 1));
  }

  /** A driver that does not answer must not hold up whoever waits. */
  async #undoOnce(undo: () => Promise<void>): Promise<void> {
    const { ground, life } = this.ports;
    const late = (): Error => new Error(`no answer in ${formatDuration(UNDO_BOUND_MS)}`);
    await withDeadline(ground.clock, UNDO_BOUND_MS, life, late, undo);
  }

  async #pause(failures: number, keepAlive: boolean): Promise<void> {
    const { ground, life } = this.ports;
    const ms = backoff(RETRY, failures, ground.clock);
    await sleep(ground.clock, ms, { signal: life, keepAlive }).catch(() => undefined);
  }

  #failed(code: 'ERR_PRESTART_FAILED' | 'ERR_START_FAILED', what: string, cause: unknown): HandoverError {
    if (isHandoverError(cause, code)) return cause;
    return new HandoverError(code, `Task ${this.owner} ${what}: ${messageOf(cause)}`, {
      details: { allocId: this.allocId, task: this.name },
      cause,
      retryable: isHandoverError(cause) && cause.retryable,
    });
  }
}

/** For a task that started after its alloc was let go of: whatever it holds open for us is closed, and it runs on. */
function letGo(handle: TaskHandle): void {
  handle.wait({ signal: AbortSignal.abort() }).catch(() => undefined);
}

/** For a task whose start nobody wanted any more when it succeeded. */
async function endNow(handle: TaskHandle): Promise<void> {
  await handle.kill({});
  await handle.wait({});
  await handle.destroy();
}
