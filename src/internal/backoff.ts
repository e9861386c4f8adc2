import type { Clock } from '../clock.js';

/** How waiting grows from one failure to the next. */
export interface BackoffOptions {
  /** The first delay, ms. */
  readonly first: number;
  /** No delay is longer, ms. */
  readonly max: number;
  /**
   * `full`: anywhere from 0 to the delay, so that many clients do not come back together (as in the AWS Architecture
   * Blog's "Exponential Backoff and Jitter"); `none`: exactly the delay.
   */
  readonly jitter: 'full' | 'none';
}

/**
 * The delay before the next try, doubling from `first` to `max`.
 *
 * @param failures - how many tries have failed in a row, from 1
 * @returns milliseconds
 */
export function backoff(o: BackoffOptions, failures: number, clock: Pick<Clock, 'random'>): number {
  const delay = Math.min(o.max, o.first * 2 ** (failures - 1));
  return o.jitter === 'full' ? delay * clock.random() : delay;
}
