import { HandoverError, isHandoverError } from '../errors.js';
import type { PullReason } from '../image/types.js';
import { messageOf } from '../internal/message-of.js';
import { errorCode } from '../internal/system-error.js';

/** What went wrong, before it is said of which reference. */
export interface Failure {
  readonly reason: PullReason;
  /** Whether a later try may succeed. */
  readonly retryable: boolean;
  readonly problem: string;
  /** Wall time at which the origin wants to be asked again, ms. */
  readonly retryAt?: number | undefined;
}

/** An answer other than the content, or content other than what was asked for. */
export class Refused extends Error {
  constructor(readonly failure: Failure) {
    super(failure.problem);
  }
}

const UNAVAILABLE = { reason: 'registry-unavailable', retryable: true } as const;
const NO_SPACE = { reason: 'no-space', retryable: false } as const;
/** The classes of system errors (IC-10); what is not named is `unknown` and permanent. */
const SYSTEM: Readonly<Record<string, Omit<Failure, 'problem'>>> = {
  EAI_AGAIN: UNAVAILABLE,
  ECONNABORTED: UNAVAILABLE,
  ECONNREFUSED: UNAVAILABLE,
  ECONNRESET: UNAVAILABLE,
  EDQUOT: NO_SPACE,
  EHOSTUNREACH: UNAVAILABLE,
  ENETUNREACH: UNAVAILABLE,
  ENOSPC: NO_SPACE,
  ENOTFOUND: UNAVAILABLE,
  EPIPE: UNAVAILABLE,
  ETIMEDOUT: UNAVAILABLE,
};

/** What Node and OpenSSL say of certificates that do not hold and of connections that do not come to be encrypted. */
const TLS = /^(CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERR_TLS_|ERR_SSL_|EPROTO$)/;

/** Says what a caught error means for the pull. */
export function classify(error: unknown): Failure {
  if (error instanceof Refused) return error.failure;
  const code = errorCode(error) ?? '';
  const problem = messageOf(error);
  // What node's HTTP parser refuses is an answer that was garbled on its way.
  if (code.startsWith('HPE_')) return { reason: 'corrupt-stream', retryable: true, problem };
  if (TLS.test(code)) return { ...UNAVAILABLE, problem };
  // Node's words for any connection that ends within an answer, closed or reset; nobody called anything off.
  if (code === 'ECONNRESET' && problem === 'aborted') {
    return { ...UNAVAILABLE, problem: 'the connection ended before the content was complete' };
  }
  return { ...(SYSTEM[code] ?? { reason: 'unknown', retryable: false }), problem };
}

/** An `ERR_PULL_FAILED` of one attempt. */
function pullFailed(reference: string, failure: Failure, cause: unknown): HandoverError<'ERR_PULL_FAILED'> {
  const { reason, retryable, problem, retryAt } = failure;
  return new HandoverError('ERR_PULL_FAILED', `Fetching ${reference} failed (${reason}): ${problem}`, {
    details: { reference, reason, attempts: 1, ...(retryAt === undefined ? {} : { retryAt }) },
    retryable,
    // What was refused says all there is in its failure.
    cause: cause instanceof Refused ? undefined : cause,
  });
}

/** Whatever was caught during a fetch, as the error of the fetch. */
export function toPullError(reference: string, error: unknown): HandoverError {
  return isHandoverError(error) ? error : pullFailed(reference, classify(error), error);
}
