import type { Clock } from '../clock.js';
import type { Progress } from './types.js';

/** Between two tellings of the same phase, ms (IC-12). */
const THROTTLE = 250;
/** Weight of the newest measurement in the rate: smooth enough to read, quick enough to follow. */
const RATE_WEIGHT = 0.3;

/** Of the same rank are those that go on side by side: one layer is unpacked before the next has come in. */
const ORDER: Readonly<Record<Progress['phase'], number>> = {
  queued: 0,
  resolving: 1,
  downloading: 2,
  extracting: 2,
  retrying: 3,
  done: 3,
};

/** The one aggregate of a flight's progress: monotonic within an attempt, throttled (IC-12). */
export class ProgressFeed {
  readonly #clock: Clock;
  readonly #tell: (progress: Progress) => void;
  #latest: Progress = { phase: 'queued', attempt: 1, bytes: { done: 0 } };
  #toldAt = -Infinity;
  #cancel: (() => void) | undefined;
  #sample: { readonly at: number; readonly done: number } | undefined;
  #rate: number | undefined;

  constructor(clock: Clock, tell: (progress: Progress) => void) {
    this.#clock = clock;
    this.#tell = tell;
  }

  get latest(): Progress {
    return this.#latest;
  }

  /** The next state; what would go backwards within the attempt stays where it was. */
  set(next: Progress): void {
    const before = this.#latest;
    const sameAttempt = before.attempt === next.attempt;
    if (!sameAttempt || next.phase !== 'downloading') this.#sample = this.#rate = undefined;
    this.#latest = this.#withRate(sameAttempt ? noLess(before, next) : next);
    if (this.#latest.phase !== before.phase || !sameAttempt || this.#clock.now() - this.#toldAt >= THROTTLE) {
      this.#publish();
    } else {
      this.#cancel ??= this.#clock.timer(this.#toldAt + THROTTLE - this.#clock.now(), () => this.#publish());
    }
  }

  /** Nothing is told any more. */
  end(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #publish(): void {
    this.end();
    this.#toldAt = this.#clock.now();
    this.#tell(this.#latest);
  }

  #withRate(progress: Progress): Progress {
    if (progress.phase !== 'downloading' || progress.rate !== undefined) return progress;
    const { done, total } = progress.bytes;
    const now = this.#clock.now();
    this.#sample ??= { at: now, done };
    const elapsed = now - this.#sample.at;
    if (elapsed >= THROTTLE) {
      const measured = ((done - this.#sample.done) / elapsed) * 1_000;
      this.#rate = this.#rate === undefined ? measured : this.#rate + RATE_WEIGHT * (measured - this.#rate);
      this.#sample = { at: now, done };
    }
    if (this.#rate === undefined) return progress;
    const eta = total === undefined || this.#rate === 0 ? undefined : ((total - done) / this.#rate) * 1_000;
    return { ...progress, rate: this.#rate, ...(eta === undefined ? {} : { eta }) };
  }
}

function noLess(before: Progress, next: Progress): Progress {
  const layers = next.layers === undefined ? before.layers : atLeast(before.layers, next.layers);
  return {
    ...next,
    phase: ORDER[next.phase] < ORDER[before.phase] ? before.phase : next.phase,
    bytes: atLeast(before.bytes, next.bytes),
    ...(layers === undefined ? {} : { layers }),
  };
}

function atLeast(before: Progress['bytes'] | undefined, next: Progress['bytes']): Progress['bytes'] {
  const done = Math.max(before?.done ?? 0, next.done);
  const totals = [before?.total, next.total].filter((total) => total !== undefined);
  return totals.length === 0 ? { done } : { done, total: Math.max(done, ...totals) };
}
