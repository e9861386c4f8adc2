import type { Clock } from '../clock.js';
import { type HandoverError, isHandoverError } from '../errors.js';
import { backoff, type BackoffOptions } from '../internal/backoff.js';

/** Between the attempts of one flight (IC-9). */
const RETRY = { first: 1_000, max: 30_000, jitter: 'full' } as const;
/** The same when the registry counts our requests: engines do not pass on how long it wants us to wait (IC-10). */
const RATE_LIMITED = { first: 60_000, max: 15 * 60_000, jitter: 'none' } as const;

/**
 * How long to wait after a failure, ms: as long as the source says, else longer each time.
 *
 * @param steps - of failures whose class has none of its own. Default: those between attempts
 */
export function retryDelay(
  failure: HandoverError,
  attempt: number,
  clock: Clock,
  steps: BackoffOptions = RETRY,
): number {
  if (!isHandoverError(failure, 'ERR_PULL_FAILED')) return backoff(steps, attempt, clock);
  const { reason, retryAt } = failure.details;
  if (retryAt !== undefined) return Math.max(0, retryAt - clock.wall());
  return backoff(reason === 'rate-limited' ? RATE_LIMITED : steps, attempt, clock);
}
