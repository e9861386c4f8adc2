import type { Call } from '../call.js';
import type { Clock } from '../clock.js';
import type { Reason } from '../env.js';
import { backoff } from '../internal/backoff.js';
import { messageOf } from '../internal/message-of.js';
import { sleep, withDeadline } from '../internal/signals.js';
import type { AllocOptions, CheckOptions } from './options.js';

/** Until its first pass a check is tried more often than its interval: a task that is up should be seen at once. */
const FIRST_TRIES = { first: 25, jitter: 'none' } as const;

/** Where health stands. */
export interface HealthReading {
  /** All checks pass right now. */
  readonly passing: boolean;
  /** `healthy`: passing for `minHealthyTime`; lost again with the first failure. `unhealthy`: the deadline has passed. */
  readonly verdict: 'pending' | 'healthy' | 'unhealthy';
  /** The latest word of each check that has been tried. */
  readonly checks: Readonly<Record<string, Reason>>;
}

/** What a monitor needs from around it. */
export interface HealthPorts {
  readonly clock: Clock;
  /** Resolves when the check passes, rejects with the reason. */
  try(check: CheckOptions, call: Required<Call>): Promise<void>;
  /** Told whenever the reading has changed. */
  changed(reading: HealthReading): void;
}

/** Judges the health of one started task (AL-9), and goes on observing it. Without checks, being alive is passing. */
export class HealthMonitor {
  readonly #options: AllocOptions['health'];
  readonly #ports: HealthPorts;
  readonly #end = new AbortController();
  readonly #passed = new Map<string, boolean>();
  #checks: Readonly<Record<string, Reason>> = {};
  #verdict: HealthReading['verdict'] = 'pending';
  #wasHealthy = false;
  /** Monotonic time since which all checks pass. */
  #passingSince: number | undefined;
  #stopWindow: (() => void) | undefined;
  #stopDeadline: () => void = () => undefined;
  #told: HealthReading | undefined;

  constructor(options: AllocOptions['health'], ports: HealthPorts) {
    this.#options = options;
    this.#ports = ports;
  }

  get reading(): HealthReading {
    return { passing: this.#passing, verdict: this.#verdict, checks: this.#checks };
  }

  /**
   * From here on the window counts, unless it was stopped before.
   *
   * @param deadline - what is left of it, ms
   */
  start(deadline: number): void {
    if (this.#end.signal.aborted) return;
    this.#stopDeadline = this.#ports.clock.timer(deadline, () => void this.#lastLook());
    for (const check of this.#options.checks) void this.#observe(check);
    this.#judge();
  }

  /** Ends all observation; nothing is reported any more. */
  stop(): void {
    this.#end.abort();
    this.#stopWindow?.();
    this.#stopDeadline();
  }

  get #passing(): boolean {
    return this.#options.checks.every(({ name }) => this.#passed.get(name) === true);
  }

  async #observe(check: CheckOptions): Promise<void> {
    const { clock } = this.#ports;
    for (let tries = 1; !this.#end.signal.aborted; tries++) {
      await this.#tryOnce(check);
      const seenUp = this.#passed.get(check.name) === true || this.#wasHealthy;
      const pause = seenUp ? check.interval : backoff({ ...FIRST_TRIES, max: check.interval }, tries, clock);
      await sleep(clock, pause, { signal: this.#end.signal }).catch(() => undefined);
    }
  }

  async #tryOnce(check: CheckOptions): Promise<void> {
    const { clock } = this.#ports;
    const late = (): Error => new Error(`it did not answer within ${check.timeout} ms`);
    let problem: string | undefined;
    try {
      await withDeadline(clock, check.timeout, this.#end.signal, late, (signal) => this.#ports.try(check, { signal }));
    } catch (error) {
      problem = messageOf(error);
    }
    if (this.#end.signal.aborted) return;
    this.#passed.set(check.name, problem === undefined);
    this.#note(check, problem);
    this.#judge();
  }

  #note(check: CheckOptions, problem: string | undefined): void {
    const code = problem === undefined ? 'check-passing' : 'check-failing';
    const message = problem === undefined ? `Check ${check.name} passes` : `Check ${check.name} fails: ${problem}`;
    if (this.#checks[check.name]?.message === message) return;
    this.#checks = { ...this.#checks, [check.name]: { code, message, at: this.#ports.clock.wall() } };
  }

  /** Brings window and verdict in line with the latest results: any failure restarts the window. */
  #judge(): void {
    const { clock } = this.#ports;
    if (this.#passing) {
      this.#passingSince ??= clock.now();
      this.#stopWindow ??= clock.timer(this.#options.minHealthyTime, () => this.#rule('healthy'));
    } else {
      this.#passingSince = undefined;
      this.#stopWindow?.();
      this.#stopWindow = undefined;
      if (this.#verdict === 'healthy') this.#verdict = 'pending';
    }
    this.#tell();
  }

  #rule(verdict: HealthReading['verdict']): void {
    if (this.#end.signal.aborted) return;
    if (verdict === 'healthy') {
      this.#wasHealthy = true;
      this.#stopDeadline();
    }
    this.#verdict = verdict;
    this.#tell();
  }

  /** At the deadline a stale result must not decide: each check is tried once more (AL-9). */
  async #lastLook(): Promise<void> {
    await Promise.all(this.#options.checks.map((check) => this.#tryOnce(check)));
    if (this.#verdict === 'healthy') return;
    const { clock } = this.#ports;
    const longEnough = clock.now() - (this.#passingSince ?? Infinity) >= this.#options.minHealthyTime;
    this.#rule(longEnough ? 'healthy' : 'unhealthy');
  }

  /** Only what has changed is told: a check that goes on passing is no news. */
  #tell(): void {
    const { passing, verdict, checks } = this.reading;
    const told = this.#told;
    if (passing === told?.passing && verdict === told.verdict && checks === told.checks) return;
    this.#told = this.reading;
    this.#ports.changed(this.#told);
  }
}
