import type { Duration } from '../call.js';
import type { Clock } from '../clock.js';
import { parseDuration } from '../duration.js';

interface Pending {
  readonly due: number;
  readonly order: number;
  readonly fire: () => void;
}

/**
 * A clock that only the test moves. Between two timers all promise callbacks run, so that code which awaits in between
 * sees the time it asked for.
 */
export class FakeClock implements Clock {
  #now = 0;
  #wall: number;
  #order = 0;
  #seed = 1;
  readonly #timers = new Set<Pending>();

  /** @param wall - wall time at the start, ms. Default 2026-01-01T00:00:00Z */
  constructor(wall = 1_767_225_600_000) {
    this.#wall = wall;
  }

  /** Timers that are armed now; 0 = nothing was left behind. */
  get pending(): number {
    return this.#timers.size;
  }

  now(): number {
    return this.#now;
  }

  wall(): number {
    return this.#wall;
  }

  /** Repeatable: the same sequence for every clock. */
  random(): number {
    this.#seed = (this.#seed * 48_271) % 2_147_483_647;
    return this.#seed / 2_147_483_647;
  }

  timer(ms: number, fire: () => void): () => void {
    if (ms === Infinity) return () => undefined;
    const entry = { due: this.#now + Math.max(0, ms), order: this.#order++, fire };
    this.#timers.add(entry);
    return () => this.#timers.delete(entry);
  }

  /** Moves time on, firing what falls due in order and letting promises run in between. */
  async advance(by: Duration): Promise<void> {
    const end = this.#now + parseDuration(by, 'by');
    await settle();
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      this.#fire(next);
      await settle();
    }
    this.#move(end);
    await settle();
  }

  /** Moves wall time only, as an operator or NTP does; may be negative. */
  jump(wallMs: number): void {
    this.#wall += wallMs;
  }

  /**
   * Moves time from timer to timer until `promise` settles.
   *
   * @param max - gives up after so much fake time. Default 30 days
   * @returns what the promise resolves with
   * @throws what the promise rejects with; or an Error when nothing is armed any more and it still has not settled
   */
  async until<T>(promise: Promise<T>, max: Duration = '30d'): Promise<T> {
    const outcome = { settled: false };
    const done = (): void => {
      outcome.settled = true;
    };
    void promise.then(done, done);
    const end = this.#now + parseDuration(max, 'max');
    await settle();
    while (!outcome.settled) {
      const next = this.#next(end);
      if (next === undefined) {
        throw new Error(`FakeClock.until: nothing falls due before ${end} ms and the promise has not settled`);
      }
      this.#fire(next);
      await settle();
    }
    return promise;
  }

  #next(end: number): Pending | undefined {
    let first: Pending | undefined;
    for (const entry of this.#timers) {
      const earlier = first === undefined || entry.due < first.due;
      if (entry.due <= end && (earlier || (entry.due === first?.due && entry.order < first.order))) first = entry;
    }
    return first;
  }

  #fire(entry: Pending): void {
    this.#timers.delete(entry);
    this.#move(entry.due);
    entry.fire();
  }

  #move(to: number): void {
    this.#wall += to - this.#now;
    this.#now = to;
  }
}

/** One turn of the event loop: every promise callback that can run has run, however long the chain. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
