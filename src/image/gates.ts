import type { Clock } from '../clock.js';
import type { HandoverError } from '../errors.js';
import { backoff } from '../internal/backoff.js';
import { deferred } from '../internal/deferred.js';
import { abortable } from '../internal/signals.js';
import type { Answer } from './auth.js';

/** How long a key stays closed after each failed pull in a row (IC-9). */
const GATE = { first: 10_000, max: 5 * 60_000, jitter: 'none' } as const;
/** A gate that nobody came to for so long is forgotten, and with it how often it was closed. */
const FORGET_AFTER = 2 * GATE.max;

/** A key that is not fetched for a while. */
export interface Gate {
  /** Failed pulls in a row. */
  readonly failures: number;
  /** When it opens, in the clock's `now()`. */
  readonly opensAt: number;
  /** When it opens, wall time, ms. */
  readonly retryAt: number;
  /** When it was closed, wall time, ms. */
  readonly since: number;
  /** The failure that closed it. */
  readonly error: HandoverError;
  /** What the failed pull's provider had said last; `undefined`: it was not asked. */
  readonly answer: Answer | undefined;
  readonly wakers: Set<() => void>;
}

/** Keeps pulls that failed apart in time, however often they are asked for (IC-9). */
export class Gates {
  readonly #clock: Clock;
  readonly #gates = new Map<string, Gate>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#gates.size;
  }

  /** The gate of a key, closed or open again; `undefined` when its last pull did not fail. */
  get(key: string): Gate | undefined {
    return this.#gates.get(key);
  }

  /** The gate, if it is closed now. */
  closed(key: string): Gate | undefined {
    const gate = this.#gates.get(key);
    return gate !== undefined && gate.opensAt > this.#clock.now() ? gate : undefined;
  }

  /** A pull failed for a reason that may pass. */
  close(key: string, error: HandoverError, answer: Answer | undefined): void {
    this.#sweep();
    const failures = (this.#gates.get(key)?.failures ?? 0) + 1;
    const delay = backoff(GATE, failures, this.#clock);
    this.#gates.set(key, {
      failures,
      opensAt: this.#clock.now() + delay,
      retryAt: this.#clock.wall() + delay,
      since: this.#clock.wall(),
      error,
      answer,
      wakers: new Set(),
    });
  }

  /** The gates of every platform and credential scope of a reference. */
  of(reference: string): readonly (readonly [key: string, gate: Gate])[] {
    return [...this.#gates].filter(([key]) => key.startsWith(`${reference} `));
  }

  /** A pull succeeded, or somebody wants it tried now. */
  clear(key: string): void {
    const gate = this.#gates.get(key);
    this.#gates.delete(key);
    for (const wake of gate?.wakers ?? []) wake();
  }

  /** Forgets everything. */
  clearAll(): void {
    for (const key of [...this.#gates.keys()]) this.clear(key);
  }

  /** Waits until the key's gate opens. */
  async opened(key: string, signal: AbortSignal): Promise<void> {
    const gate = this.closed(key);
    if (gate === undefined) return;
    const open = deferred();
    gate.wakers.add(open.resolve);
    const cancel = this.#clock.timer(gate.opensAt - this.#clock.now(), () => open.resolve());
    try {
      await abortable(open.promise, signal);
    } finally {
      cancel();
      gate.wakers.delete(open.resolve);
    }
  }

  #sweep(): void {
    for (const [key, gate] of this.#gates) {
      if (gate.opensAt + FORGET_AFTER < this.#clock.now()) this.#gates.delete(key);
    }
  }
}
