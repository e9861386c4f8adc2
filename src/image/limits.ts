import type { Clock } from '../clock.js';
import type { Progress, PullLimit } from './types.js';

/** Phases in which silence means trouble; extracting and verifying may be silent for long (IC-8). */
const MUST_MOVE: readonly Progress['phase'][] = ['resolving', 'downloading'];

/** Watches the signs of life of one attempt (IC-8). */
export class FetchLimits {
  readonly #clock: Clock;
  readonly #stallTimeout: number;
  readonly #expired: (limit: PullLimit, ms: number) => void;
  #cancelBegin: () => void;
  #cancelStall: (() => void) | undefined;
  #lastSign = 0;
  #over = false;

  /** @param expired - told once which limit has passed and how long it was, ms */
  constructor(
    clock: Clock,
    o: { readonly beginTimeout: number; readonly stallTimeout: number },
    expired: (limit: PullLimit, ms: number) => void,
  ) {
    this.#clock = clock;
    this.#stallTimeout = o.stallTimeout;
    this.#expired = expired;
    this.#cancelBegin = clock.timer(o.beginTimeout, () => this.#expire('beginTimeout', o.beginTimeout));
  }

  /** A sign of life in `phase`. */
  alive(phase: Progress['phase']): void {
    if (this.#over) return;
    this.#cancelBegin();
    this.#lastSign = this.#clock.now();
    if (!MUST_MOVE.includes(phase)) this.#stopStall();
    // One timer for thousands of lines: it looks at the last sign when it rings, instead of being armed for each.
    else this.#cancelStall ??= this.#armStall(this.#stallTimeout);
  }

  /** The attempt is over: nothing rings any more. */
  end(): void {
    this.#over = true;
    this.#cancelBegin();
    this.#stopStall();
  }

  #armStall(ms: number): () => void {
    return this.#clock.timer(ms, () => {
      const left = this.#lastSign + this.#stallTimeout - this.#clock.now();
      if (left > 0) this.#cancelStall = this.#armStall(left);
      else this.#expire('stallTimeout', this.#stallTimeout);
    });
  }

  #stopStall(): void {
    this.#cancelStall?.();
    this.#cancelStall = undefined;
  }

  #expire(limit: PullLimit, ms: number): void {
    this.end();
    this.#expired(limit, ms);
  }
}
