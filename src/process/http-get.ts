import type { OutgoingHttpHeaders } from 'node:http';
import { type Answer, exchange } from './http-exchange.js';
import { retryAt } from './http-headers.js';
import { type Failure, Refused } from './pull-failure.js';

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

/** How to ask, and what for. */
export interface GetOptions {
  readonly headers: OutgoingHttpHeaders;
  /** Value of the `Authorization` header; sent to the origin of the URL only. */
  readonly authorization: string | undefined;
  /** The statuses whose answers are wanted. */
  readonly accept: readonly number[];
  /** Wall time now, ms: what a `Retry-After` in seconds counts from. */
  readonly wall: () => number;
  /** Abort ends the connection. */
  readonly signal: AbortSignal | undefined;
}

/**
 * Gets a URL, following redirects, and hands the wanted answer to `use`.
 *
 * @throws Refused for any other answer; system errors as they come, also after an abort
 */
export async function httpGet<T>(url: URL, o: GetOptions, use: (answer: Answer) => Promise<T>): Promise<T> {
  let at = url;
  let { authorization } = o;
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const headers = authorization === undefined ? o.headers : { ...o.headers, authorization };
    const outcome = await exchange(at, headers, o.signal, async (answer) => {
      if (o.accept.includes(answer.status)) return { value: await use(answer) };
      const target = redirectTarget(answer, at);
      if (target === undefined) throw new Refused(refusal(answer, at, o.wall()));
      return { target };
    });
    if ('value' in outcome) return outcome.value;
    // Another origin gets no credentials, nor does whoever it sends us back to.
    if (outcome.target.origin !== at.origin) authorization = undefined;
    at = outcome.target;
  }
  throw new Refused({ reason: 'unknown', retryable: false, problem: `more than ${MAX_REDIRECTS} redirects` });
}

function redirectTarget({ status, headers }: Answer, from: URL): URL | undefined {
  if (![301, 302, 303, 307, 308].includes(status)) return undefined;
  const { location = '' } = headers;
  const to = URL.canParse(location, from.href) ? new URL(location, from.href) : undefined;
  const secure = to?.protocol === 'https:' || (to?.protocol === 'http:' && from.protocol === 'http:');
  if (location !== '' && secure) return to;
  const problem = `${from.host} redirects to where this cannot follow: only http and https, and never from https to http`;
  throw new Refused({ reason: 'unknown', retryable: false, problem });
}

function refusal({ status, phrase, headers }: Answer, { host }: URL, now: number): Failure {
  const fallback: Pick<Failure, 'reason' | 'retryable'> =
    status >= 500 ? { reason: 'registry-unavailable', retryable: true } : { reason: 'unknown', retryable: false };
  return {
    ...(STATUS[status] ?? fallback),
    problem: `${host} answered ${status} ${phrase}`.trimEnd(),
    retryAt: retryAt(headers, now),
  };
}
