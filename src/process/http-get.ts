import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { deferred } from '../internal/deferred.js';
import { onAbort } from '../internal/signals.js';
import { errorCode } from './file-system.js';
import type { Failure } from './pull-failure.js';

/** Redirects that are followed; browsers and curl stop later, but no honest origin of files needs more. */
const MAX_REDIRECTS = 5;

/** Status → what it means for the pull (IC-10); see also the ranges in {@link refusal}. */
const STATUS: Readonly<Record<number, Pick<Failure, 'reason' | 'retryable'>>> = {
  401: { reason: 'unauthorized', retryable: false },
  403: { reason: 'not-found-or-denied', retryable: false },
  404: { reason: 'not-found-or-denied', retryable: false },
  407: { reason: 'unauthorized', retryable: false },
  408: { reason: 'registry-unavailable', retryable: true },
  410: { reason: 'not-found-or-denied', retryable: false },
  429: { reason: 'rate-limited', retryable: true },
};

/** An answer other than the content. */
export class Refused extends Error {
  constructor(readonly failure: Failure) {
    super(failure.problem);
  }
}

/**
 * Gets a URL, following redirects, and hands the answer with status 200 to `use`. Node's own client is used without an
 * agent: it has no time-outs that could cut a slow body (IC-8), and no connection outlives the call.
 *
 * @param wall - wall time now, ms: what a `Retry-After` in seconds counts from
 * @param signal - abort ends the connection
 * @throws Refused for any other answer; the signal's reason; system errors as they come
 */
export async function httpGet<T>(
  url: URL,
  o: { readonly wall: () => number; readonly signal: AbortSignal | undefined },
  use: (response: IncomingMessage) => Promise<T>,
): Promise<T> {
  let at = url;
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const answer = await once(at, o.signal, async (response) => {
      if (response.statusCode === 200) return { value: await use(response) };
      const target = redirectTarget(response, at);
      if (target === undefined) throw new Refused(refusal(response, at, o.wall()));
      return { target };
    });
    if ('value' in answer) return answer.value;
    at = answer.target;
  }
  throw new Refused({ reason: 'unknown', retryable: false, problem: `more than ${MAX_REDIRECTS} redirects` });
}

async function once<T>(
  url: URL,
  signal: AbortSignal | undefined,
  use: (response: IncomingMessage) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const { get } = url.protocol === 'https:' ? https : http;
  const answer = deferred<IncomingMessage>();
  const request = get(url, { agent: false, headers: { 'accept-encoding': 'identity', 'user-agent': 'handover' } });
  request.on('response', answer.resolve).on('error', answer.reject);
  const dispose = onAbort(signal, () => request.destroy());
  try {
    return await use(await answer.promise);
  } catch (error) {
    signal?.throwIfAborted();
    throw wasCut(error) ? new Refused(CUT) : error;
  } finally {
    dispose();
    request.destroy();
  }
}

const CUT: Failure = {
  reason: 'corrupt-stream',
  retryable: true,
  problem: 'the connection ended before the content was complete',
};

/** Node says this of every connection that ends in the middle of an answer, whether it was closed or reset. */
function wasCut(error: unknown): boolean {
  return errorCode(error) === 'ECONNRESET' && (error as Error).message === 'aborted';
}

function redirectTarget(response: IncomingMessage, from: URL): URL | undefined {
  const { statusCode = 0, headers } = response;
  if (![301, 302, 303, 307, 308].includes(statusCode)) return undefined;
  const { location = '' } = headers;
  const to = URL.canParse(location, from.href) ? new URL(location, from.href) : undefined;
  const secure = to?.protocol === 'https:' || (to?.protocol === 'http:' && from.protocol === 'http:');
  if (location !== '' && secure) return to;
  const problem = `${from.host} redirects to where this cannot follow: only http and https, and never from https to http`;
  throw new Refused({ reason: 'unknown', retryable: false, problem });
}

function refusal(
  { statusCode = 0, statusMessage = '', headers }: IncomingMessage,
  { host }: URL,
  now: number,
): Failure {
  const fallback: Pick<Failure, 'reason' | 'retryable'> =
    statusCode >= 500 ? { reason: 'registry-unavailable', retryable: true } : { reason: 'unknown', retryable: false };
  return {
    ...(STATUS[statusCode] ?? fallback),
    problem: `${host} answered ${statusCode} ${statusMessage}`.trimEnd(),
    retryAt: retryAt(headers['retry-after'], now),
  };
}

/** RFC 9110, 10.2.3: seconds, or a date. */
function retryAt(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  if (/^\d+$/.test(header)) return now + Number(header) * 1_000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : date;
}
