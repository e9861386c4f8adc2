import { HandoverError, isHandoverError } from '../errors.js';
import type { Clock } from '../clock.js';
import { formatDuration } from '../duration.js';
import type { Reason } from '../env.js';
import { messageOf } from '../internal/message-of.js';
import type { PullLimit, PullReason } from './types.js';

/**
 * After these there may be content all the same: the outcome is unknown, or it is not the content that was wanted. Look
 * again (G-8), so that what is here because of us is known.
 */
const MAY_HAVE_LANDED: readonly PullReason[] = [
  'aborted',
  'no-platform',
  'timed-out',
  'stalled',
  'engine-unavailable',
  'corrupt-stream',
  'unknown',
];

/** An `ERR_PULL_FAILED`. */
export function pullFailed(
  reference: string,
  reason: PullReason,
  attempts: number,
  o: { problem: string; retryable: boolean; limit?: PullLimit; retryAt?: number; cause?: unknown },
): HandoverError<'ERR_PULL_FAILED'> {
  const tries = attempts > 1 ? ` after ${attempts} attempts` : '';
  return new HandoverError('ERR_PULL_FAILED', `Pull of ${reference} failed${tries}: ${o.problem}`, {
    details: {
      reference,
      reason,
      attempts,
      ...(o.limit === undefined ? {} : { limit: o.limit }),
      ...(o.retryAt === undefined ? {} : { retryAt: o.retryAt }),
    },
    cause: o.cause,
    retryable: o.retryable,
  });
}

/** The whole pull, with all its attempts, took longer than it may (IC-8). */
export function pullTimeout(reference: string, attempts: number, ms: number, last: unknown): HandoverError {
  const problem = `not done within ${formatDuration(ms)} (pull.timeout)`;
  return pullFailed(reference, 'timed-out', attempts, { problem, limit: 'timeout', retryable: true, cause: last });
}

/** The source says that it is done, and nothing is there (IC-11). */
export function endedEmpty(reference: string, attempts: number): HandoverError {
  const problem = 'it ended without an error, and the content is not there';
  return pullFailed(reference, 'corrupt-stream', attempts, { problem, retryable: true });
}

/**
 * What a source threw, as the coordinator's own error: its class is kept, the attempts are ours to count.
 *
 * @param unclassified - the class of something that is not a {@link HandoverError}; it may be tried again (G-8)
 */
export function asPullError(
  error: unknown,
  reference: string,
  attempts: number,
  unclassified: PullReason = 'unknown',
): HandoverError {
  if (isHandoverError(error, 'ERR_PULL_FAILED')) {
    const { reason, limit, retryAt } = error.details;
    if (error.details.reference === reference && error.details.attempts === attempts) return error;
    return pullFailed(reference, reason, attempts, {
      problem: withoutHead(error.message, `Pull of ${reference} failed (${reason}): `),
      retryable: error.retryable,
      cause: error,
      ...(limit === undefined ? {} : { limit }),
      ...(retryAt === undefined ? {} : { retryAt }),
    });
  }
  if (isHandoverError(error)) return error;
  const problem = messageOf(error);
  return pullFailed(reference, unclassified, attempts, { problem, retryable: true, cause: error });
}

/** Which pull failed is said once, by the outermost error. */
function withoutHead(message: string, head: string): string {
  return message.startsWith(head) ? message.slice(head.length) : message;
}

/**
 * The same where only the source can have failed: that it could not act has a class of its own (IC-10), whatever kind of
 * failure it was to the source.
 */
export function asSourceError(
  error: unknown,
  reference: string,
  attempts: number,
  unclassified?: PullReason,
): HandoverError {
  if (!isHandoverError(error, 'ERR_DRIVER')) return asPullError(error, reference, attempts, unclassified);
  const { message: problem, retryable } = error;
  return pullFailed(reference, 'engine-unavailable', attempts, { problem, retryable, cause: error });
}

/** Whether the same call may succeed later without anything being changed. */
export function isRetryable(error: unknown): boolean {
  return isHandoverError(error) && error.retryable;
}

/** Whether the content may be there in spite of the failure. */
export function mayHaveLanded(error: unknown): boolean {
  return !isHandoverError(error, 'ERR_PULL_FAILED') || MAY_HAVE_LANDED.includes(error.details.reason);
}

/** An error as a statement of why. */
export function reasonOf(error: unknown, clock: Clock): Reason {
  const at = clock.wall();
  if (isHandoverError(error)) return { code: error.code, message: error.message, at, error };
  return { code: 'unknown', message: messageOf(error), at };
}

/** The error of everything that is asked of a closed coordinator, or was pending when it closed. */
export function closedError(): HandoverError<'ERR_CLOSED'> {
  return new HandoverError('ERR_CLOSED', 'The image coordinator was closed; make a new one to acquire images', {
    details: {},
  });
}

/** Absent, and nothing may fetch it. */
export function absentError(reference: string, why: string): HandoverError<'ERR_IMAGE_ABSENT'> {
  return new HandoverError('ERR_IMAGE_ABSENT', `${reference} is not present, and ${why}`, { details: { reference } });
}

/** How often it was tried before it failed. */
export function attemptsOf(error: unknown): number {
  return isHandoverError(error, 'ERR_PULL_FAILED') ? error.details.attempts : 0;
}

/** The class of a failure. */
export function pullReason(error: HandoverError): PullReason {
  return isHandoverError(error, 'ERR_PULL_FAILED') ? error.details.reason : 'unknown';
}
