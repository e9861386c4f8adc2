import type { Clock } from '../clock.js';
import type { HandoverError } from '../errors.js';
import { backoff } from '../internal/backoff.js';
import { deferred } from '../internal/deferred.js';
import { abortable } from '../internal/signals.js';
import type { Answer } from './auth.js';
import { retryDelay } from './retry-delay.js';

/** How long a key stays closed after each failed pull in a row (IC-9). */
const GATE = { first: 10_000, max: 5 * 60_000, jitter: 'none' } as const;
/** How often a gate was closed is forgotten when nobody came to it for so long since it opened. */
const FORGET_AFTER = 2 * GATE.max;
/** Of more than these, the one that failed longest ago goes: each holds an error with all its causes. */
const MOST = 1_000;

/** The last failure of a key, and until when it is not fetched. */
export interface Gate {
  /** Pulls in a row that failed for what may pass; 0: the last one failed for good, and may be tried at any time. */
  readonly failures: number;
  /** When it opens, in the clock's `now()`. */
  readonly opensAt: number;
  /** When it opens, wall time, ms. */
  readonly retryAt: number;
  /** When it was closed, wall time, ms. */
  readonly since: number;
  /** The failure that closed it. */
  readonly error: HandoverError;
  /** What the failed pull's provider had said last, `anonymous` if it has none; `undefined`: nothing was fetched. */
  readonly answer: Answer | undefined;
}

/** Keeps pulls that failed apart in time, however often they are asked for (IC-9), and what they failed of (IC-20). */
export class Gates {
  readonly #clock: Clock;
  /** Those that failed last come last. */
  readonly #gates = new Map<string, Gate>();
  /** Key → those who wait to try it again. */
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The gate of a key, closed or open again; `undefined` when its last pull was not one of a row that failed. */
  get(key: string): Gate | undefined {
    const gate = this.#gates.get(key);
    const counts = gate !== undefined && gate.failures > 0 && gate.opensAt + FORGET_AFTER > this.#clock.now();
    return counts ? gate : undefined;
  }

  /** The gate, if it is closed now. */
  closed(key: string): Gate | undefined {
    const gate = this.#gates.get(key);
    return gate !== undefined && gate.opensAt > this.#clock.now() ? gate : undefined;
  }

  /** A pull failed: the key is closed for a while, if the reason may pass. */
  failed(key: string, error: HandoverError, answer: Answer | undefined): void {
    const failures = error.retryable ? (this.get(key)?.failures ?? 0) + 1 : 0;
    const delay = failures === 0 ? 0 : this.#delay(error, failures);
    this.clear(key);
    this.#gates.set(key, {
      failures,
      opensAt: this.#clock.now() + delay,
      retryAt: this.#clock.wall() + delay,
      since: this.#clock.wall(),
      error,
      answer,
    });
    for (const [oldest] of this.#gates) {
      if (this.#gates.size <= MOST) break;
      this.clear(oldest);
    }
  }

  /** The last failures of a reference by platform and credential scope, the latest last. */
  of(reference: string): readonly (readonly [key: string, gate: Gate])[] {
    return [...this.#gates].filter(([key]) => key.startsWith(`${reference} `));
  }

  /** A pull succeeded, or has to be tried anew. */
  clear(key: string): void {
    this.#gates.delete(key);
    for (const wake of this.#waiting.get(key) ?? []) wake();
  }

  /** Somebody wants a reference tried now, whatever came in its way. */
  retryNow(reference: string): void {
    for (const key of [...this.#gates.keys(), ...this.#waiting.keys()]) {
      if (key.startsWith(`${reference} `)) this.clear(key);
    }
  }

  /** Forgets everything. */
  clearAll(): void {
    for (const key of [...this.#gates.keys()]) this.clear(key);
  }

  /**
   * Waits until the key may be tried again: its gate opens, or somebody wants it tried now.
   *
   * @param patience - how long if no gate is closed: it failed before it came to a pull, ms
   */
  async opened(key: string, signal: AbortSignal, patience: number): Promise<void> {
    const gate = this.closed(key);
    const open = deferred();
    const waiting = this.#waiting.get(key) ?? new Set();
    this.#waiting.set(key, waiting.add(open.resolve));
    const ms = gate === undefined ? patience : gate.opensAt - this.#clock.now();
    const cancel = this.#clock.timer(ms, () => open.resolve());
    try {
      await abortable(open.promise, signal);
    } finally {
      cancel();
      waiting.delete(open.resolve);
      if (waiting.size === 0) this.#waiting.delete(key);
    }
  }

  /** Never sooner than the registry wants (IC-10). */
  #delay(error: HandoverError, failures: number): number {
    return Math.max(backoff(GATE, failures, this.#clock), retryDelay(error, failures, this.#clock, GATE));
  }
}
