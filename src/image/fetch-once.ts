import type { Clock } from '../clock.js';
import { formatDuration } from '../duration.js';
import type { HandoverError } from '../errors.js';
import { deferred } from '../internal/deferred.js';
import { linkSignals, onAbort } from '../internal/signals.js';
import { FetchLimits } from './limits.js';
import { pullFailed } from './pull-failure.js';
import type { ArtifactSource, Credentials, Progress, PullLimit } from './types.js';

/** One call of a source's `fetch`. */
export interface FetchOrder {
  readonly clock: Clock;
  readonly source: Pick<ArtifactSource, 'fetch'>;
  readonly limits: { readonly beginTimeout: number; readonly stallTimeout: number; readonly abortGrace: number };
  readonly reference: string;
  readonly platform: string | undefined;
  readonly credentials: Credentials | undefined;
  readonly attempt: number;
  onProgress(progress: Omit<Progress, 'attempt'>): void;
  /**
   * The call did not end within `abortGrace` of its abort, and is waited for no longer.
   *
   * @param end - settles with it
   */
  ignored(end: Promise<void>): void;
}

/**
 * Fetches once, within the limits of an attempt (IC-8), and ends when the work has really ended: after an abort it
 * waits for that at most `abortGrace` (IC-7).
 *
 * @throws what the source threw; after an abort the signal's reason; the error of the limit that fired
 */
export async function fetchOnce(order: FetchOrder, signal: AbortSignal): Promise<void> {
  const link = linkSignals(signal);
  let latest: Pick<Progress, 'phase' | 'note'> = { phase: 'resolving' };
  let over = false;
  const limits = new FetchLimits(order.clock, order.limits, (limit, ms) =>
    link.abort(limitError(order, limit, ms, latest)),
  );
  const onProgress = (progress: Omit<Progress, 'attempt'>): void => {
    if (over) return;
    latest = progress;
    limits.alive(progress.phase);
    order.onProgress(progress);
  };
  // Async, so that a source that throws at once rejects like any other (S12).
  const { platform, credentials } = order;
  const work = async (): Promise<void> =>
    order.source.fetch(order.reference, { platform, credentials, signal: link.signal, onProgress });
  try {
    await untilEnded(work(), order, link.signal);
  } catch (error) {
    throw link.signal.aborted ? link.signal.reason : error;
  } finally {
    over = true;
    limits.end();
    link.dispose();
  }
}

async function untilEnded(work: Promise<void>, order: FetchOrder, signal: AbortSignal): Promise<void> {
  const tooLate = deferred<never>();
  let cancel = (): void => undefined;
  const dispose = onAbort(signal, (reason) => {
    cancel = order.clock.timer(order.limits.abortGrace, () => {
      order.ignored(work);
      tooLate.reject(reason);
    });
  });
  try {
    await Promise.race([work, tooLate.promise]);
  } finally {
    dispose();
    cancel();
  }
}

function limitError(
  { reference, attempt }: FetchOrder,
  limit: PullLimit,
  ms: number,
  { phase, note }: Pick<Progress, 'phase' | 'note'>,
): HandoverError<'ERR_PULL_FAILED'> {
  const stalled = limit === 'stallTimeout';
  const after = note === undefined || note === '' ? '' : `, after "${note}"`;
  const problem = stalled
    ? `no progress for ${formatDuration(ms)} while ${phase}`
    : `no sign of life within ${formatDuration(ms)}`;
  return pullFailed(reference, stalled ? 'stalled' : 'timed-out', attempt, {
    problem: `${problem} (pull.${limit})${after}`,
    limit,
    retryable: true,
  });
}
