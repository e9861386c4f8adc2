/**
 * Where all time and chance come from (G-5). Deadlines use `now()`, a monotonic time that wall-clock jumps do not
 * move; `wall()` is only for what is stored or shown.
 */
export interface Clock {
  /** Monotonic milliseconds from an arbitrary start. */
  now(): number;
  /** Wall time: milliseconds since the epoch. */
  wall(): number;
  /**
   * Calls `fire` once, after at least `ms` milliseconds of any size (longer than 2^31-1 too); `Infinity` never fires.
   *
   * @param o.keepAlive - whether the pending timer keeps the process alive. Default `true`; `false` is for
   *   house-keeping that nobody awaits
   * @returns cancels the timer; harmless after it fired
   */
  timer(ms: number, fire: () => void, o?: { readonly keepAlive?: boolean }): () => void;
  /** A random number in [0, 1), for jitter. */
  random(): number;
}

/** The largest delay that the platform's timers take; they fire at once beyond it. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The real clock; the default everywhere. */
export const systemClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  random: () => Math.random(),
  timer(ms, fire, { keepAlive = true } = {}) {
    if (ms === Infinity) return () => undefined;
    const due = performance.now() + ms;
    let handle: NodeJS.Timeout;
    const arm = (): void => {
      const left = Math.min(Math.max(0, Math.ceil(due - performance.now())), MAX_TIMER_MS);
      handle = setTimeout(() => (performance.now() >= due ? fire() : arm()), left);
      if (!keepAlive) handle.unref();
    };
    arm();
    return () => clearTimeout(handle);
  },
};

/** A moment on a clock's monotonic time. */
export class Deadline {
  /** The moment, in the clock's `now()`; `Infinity` = never. */
  readonly at: number;

  /**
   * @param clock - the clock to measure by
   * @param ms - milliseconds from now; `Infinity` never expires
   */
  constructor(
    private readonly clock: Clock,
    ms: number,
  ) {
    this.at = clock.now() + ms;
  }

  /**
   * A deadline that was stored by its wall time and goes on now. A wall clock that jumped can neither lengthen it
   * beyond the whole phase nor make it negative (G-5).
   *
   * @param storedAt - wall time of the deadline, in ms
   * @param length - the whole length of the phase, in ms
   */
  static resumed(clock: Clock, storedAt: number, length: number): Deadline {
    return new Deadline(clock, Math.min(Math.max(0, storedAt - clock.wall()), length));
  }

  /** Milliseconds left, never negative. */
  remaining(): number {
    return Math.max(0, this.at - this.clock.now());
  }

  /** Whether the moment has come. */
  get expired(): boolean {
    return this.clock.now() >= this.at;
  }

  /** Wall time of the deadline, for showing and storing; `null` = never. */
  get wall(): number | null {
    return this.at === Infinity ? null : this.clock.wall() + (this.at - this.clock.now());
  }
}
