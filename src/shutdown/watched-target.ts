import type { Call } from '../call.js';
import type { Clock } from '../clock.js';
import { backoff, type BackoffOptions } from '../internal/backoff.js';
import { deferred } from '../internal/deferred.js';
import { abortable, sleep, withDeadline } from '../internal/signals.js';
import type { Warn } from './context.js';
import { CALL_MS } from './plan.js';
import type { ExitResult, ShutdownTarget } from './types.js';

/** Between two waits when the engine does not answer. */
const REWAIT: BackoffOptions = { first: 250, max: 5_000, jitter: 'none' };

/**
 * A target while it is stopped: watched for its exit from before the first step (SS-6), and asked only under
 * deadlines of our own (G-8).
 */
export class WatchedTarget {
  /** Resolves once the exit is known as well as it will ever be. */
  readonly ended: Promise<void>;
  /** Settles with the first look. */
  readonly looked: Promise<unknown>;
  readonly #ended = deferred();
  readonly #life = new AbortController();
  #gone = false;
  #wasRunning = false;
  #disarming: Promise<void> | undefined;
  #exit: ExitResult | undefined;

  /**
   * @param onGone - told once, synchronously, as soon as it is known not to run
   */
  constructor(
    private readonly target: ShutdownTarget,
    private readonly clock: Clock,
    private readonly warn: Warn,
    private readonly onGone: () => void,
  ) {
    this.ended = this.#ended.promise;
    void this.#watch();
    this.looked = this.#firstLook();
  }

  /** Whether it is known not to run any more. */
  get gone(): boolean {
    return this.#gone;
  }

  /** Whether it may have been running when the stop began. */
  get wasRunning(): boolean {
    return this.#wasRunning;
  }

  get exit(): ExitResult | undefined {
    return this.#exit;
  }

  get disarms(): boolean {
    return this.target.disarm !== undefined;
  }

  /**
   * Asks it to end. Not waited for: a signal whose fate is unknown counts as sent (G-8), and what counts is the exit.
   */
  signal(name: string): void {
    const { id } = this.target;
    this.#ask(`signal ${name}`, this.#life.signal, (call) => this.target.signal(name, call)).catch((error: unknown) => {
      if (this.#gone || this.#life.signal.aborted) return;
      this.warn('signal-unknown', `Whether ${name} has reached ${id} is not known; it counts as sent`, error);
    });
  }

  async kill(signal: AbortSignal): Promise<void> {
    await this.#ask('SIGKILL', signal, (call) => this.target.kill(call));
  }

  async disarm(signal: AbortSignal): Promise<void> {
    await this.#ask('disarm', signal, async (call) => {
      this.#disarming = this.target.disarm?.(call);
      await this.#disarming;
    });
  }

  /** The call to `disarm`, once made; it may go on after {@link WatchedTarget.disarm} was called off. */
  get disarming(): Promise<void> | undefined {
    return this.#disarming;
  }

  async rearm(signal: AbortSignal): Promise<void> {
    await this.#ask('rearm', signal, async (call) => this.target.rearm?.(call));
  }

  /** @returns whether it runs; `undefined` = the question was not answered */
  async look(signal: AbortSignal = this.#life.signal): Promise<boolean | undefined> {
    try {
      const running = await this.#ask('isRunning', signal, (call) => this.target.isRunning(call));
      if (!running) this.#markGone();
      return running;
    } catch {
      return undefined;
    }
  }

  /** Lets go: no call, timer or listener is left. */
  close(): void {
    this.#life.abort();
  }

  async #ask<T>(what: string, parent: AbortSignal, work: (call: Call) => Promise<T>): Promise<T> {
    const late = (): Error => new Error(`no answer to ${what} in ${CALL_MS} ms`);
    return withDeadline(this.clock, CALL_MS, parent, late, async (signal) => work({ signal }));
  }

  async #firstLook(): Promise<void> {
    // No answer is no proof: it is then stopped like one that runs, which does no harm to one that does not.
    if ((await this.look()) !== false && !this.#gone) this.#wasRunning = true;
  }

  /** A wait that is rejected proves nothing: look, and wait again (C39, C41, S69). */
  async #watch(): Promise<void> {
    const { signal } = this.#life;
    for (let failures = 1; ; failures++) {
      const seenGone = this.#gone;
      try {
        this.#ends(await abortable(this.#wait(signal), signal));
        return;
      } catch (error) {
        if (signal.aborted) return;
        if (seenGone) {
          this.#ends(this.#unknownExit());
          return;
        }
        if (failures === 1) this.warn('wait-failed', `The wait for the exit of ${this.target.id} broke off`, error);
      }
      if ((await this.look()) !== false && !(await this.#pause(failures))) return;
    }
  }

  /** @returns `false`: nothing is waited for any more */
  #pause(failures: number): Promise<boolean> {
    const pause = sleep(this.clock, backoff(REWAIT, failures, this.clock), { signal: this.#life.signal });
    return pause.then(
      () => true,
      () => false,
    );
  }

  /** A target that throws at once fails like one that rejects. */
  async #wait(signal: AbortSignal): Promise<ExitResult> {
    return this.target.wait({ signal });
  }

  #ends(exit: ExitResult): void {
    this.#exit = exit;
    this.#markGone();
    this.#ended.resolve();
  }

  #markGone(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.onGone();
  }

  #unknownExit(): ExitResult {
    return { code: null, signal: null, oom: false, by: 'unknown', at: this.clock.wall() };
  }
}
