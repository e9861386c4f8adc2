import type { Call } from '../call.js';
import type { AnyTaskDriver, PreparedTask, TaskHandle } from '../driver/driver.js';
import type { Ground } from '../env.js';
import { HandoverError, isHandoverError } from '../errors.js';
import type { Progress } from '../image/types.js';
import { backoff } from '../internal/backoff.js';
import { sleep } from '../internal/signals.js';
import type { ExitResult } from '../shutdown/types.js';
import { specHash } from './spec-hash.js';

/** How soon something that could not be confirmed is tried again. */
const RETRY = { first: 1_000, max: 60_000, jitter: 'full' } as const;

/** How often an undo is tried before whoever waits for it is let go; it is tried on in the background. */
const UNDO_TRIES = 3;

/** What a task tells its alloc. */
export interface TaskPorts {
  readonly ground: Ground;
  progress(progress: Progress): void;
  warn(message: string, error: unknown): void;
}

/** One task of an alloc, from its preparation to its remains. */
export class AllocTaskRunner {
  readonly owner: string;
  readonly driver: AnyTaskDriver;
  readonly specHash: string;
  readonly #spec: unknown;
  #prepared: PreparedTask | undefined;
  #handle: TaskHandle | undefined;

  constructor(
    private readonly allocId: string,
    readonly name: string,
    driver: AnyTaskDriver,
    spec: unknown,
    private readonly ports: TaskPorts,
  ) {
    this.owner = `${allocId}/${name}`;
    this.driver = driver;
    this.specHash = specHash(spec);
    this.#spec = driver.parse(spec);
  }

  get handle(): TaskHandle | undefined {
    return this.#handle;
  }

  get exclusive() {
    return this.driver.exclusive(this.#spec);
  }

  /**
   * The slow work. What a driver prepared in spite of an abort is undone here.
   *
   * @throws HandoverError `ERR_PRESTART_FAILED`, or the signal's reason
   */
  async prestart(signal: AbortSignal): Promise<void> {
    const { allocId, name, owner, specHash: hash } = this;
    try {
      const prepared = (await this.driver.prestart({
        ...{ owner, allocId, task: name, spec: this.#spec, specHash: hash, labels: {}, signal },
        report: (progress) => this.ports.progress(progress),
      })) as PreparedTask;
      this.#prepared = prepared;
      if (!signal.aborted) return;
      await this.discard();
    } catch (error) {
      if (!signal.aborted) throw this.#failed('ERR_PRESTART_FAILED', 'could not be prepared', error);
    }
    throw signal.reason;
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
  async start(call: Call): Promise<TaskHandle> {
    try {
      this.#handle = await this.driver.start(this.#prepared, call);
      return this.#handle;
    } catch (error) {
      await this.discard();
      if (call.signal?.aborted === true) throw call.signal.reason;
      throw this.#failed('ERR_START_FAILED', 'did not start', error);
    }
  }

  /** Finds a running or ended task of an earlier process by its driver's labels. */
  async recover(call: Call): Promise<TaskHandle | undefined> {
    const listed = await this.driver.list(call);
    const ours = listed.find(({ allocId, task, started }) => started && allocId === this.allocId && task === this.name);
    if (ours === undefined) return undefined;
    this.#handle = await this.driver.recover(ours.state, { ...call, owner: this.owner });
    return this.#handle;
  }

  /** Resolves with the exit; a connection that breaks is not an exit (G-8). */
  async exit(handle: TaskHandle, signal: AbortSignal): Promise<ExitResult> {
    for (let failures = 1; ; failures++) {
      try {
        return await handle.wait({ signal });
      } catch {
        signal.throwIfAborted();
        await sleep(this.ports.ground.clock, backoff(RETRY, failures, this.ports.ground.clock), { signal });
      }
    }
  }

  /** Undoes the preparation. What cannot be confirmed is tried on in the background (DP-1). */
  async discard(): Promise<void> {
    const prepared = this.#prepared;
    if (prepared === undefined) return;
    await this.#undo(`${this.owner}: undoing the preparation`, () => prepared.discard());
    this.#prepared = undefined;
  }

  /** Removes the remains of a task that has ended, and lets go of its content. */
  async destroy(call: Call): Promise<void> {
    await this.#handle?.destroy(call);
    this.#handle = undefined;
  }

  async #undo(what: string, undo: () => Promise<void>): Promise<void> {
    const { clock } = this.ports.ground;
    for (let failures = 1; ; failures++) {
      try {
        await undo();
        return;
      } catch (error) {
        this.ports.warn(`${what} could not be confirmed; it will be tried again`, error);
        if (failures === UNDO_TRIES) {
          void this.#undoLater(undo, failures);
          return;
        }
        await sleep(clock, backoff(RETRY, failures, clock));
      }
    }
  }

  async #undoLater(undo: () => Promise<void>, failures: number): Promise<void> {
    const { clock } = this.ports.ground;
    await sleep(clock, backoff(RETRY, failures, clock), { keepAlive: false });
    await undo().catch(() => this.#undoLater(undo, failures + 1));
  }

  #failed(code: 'ERR_PRESTART_FAILED' | 'ERR_START_FAILED', what: string, cause: unknown): HandoverError {
    if (isHandoverError(cause, code)) return cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    return new HandoverError(code, `Task ${this.owner} ${what}: ${why}`, {
      details: { allocId: this.allocId, task: this.name },
      cause,
      retryable: isHandoverError(cause) && cause.retryable,
    });
  }
}
