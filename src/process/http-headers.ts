import type { IncomingHttpHeaders } from 'node:http';

/** How much older than the answer a modification must be before its second can hold no second one, ms (RFC 9110, 8.8.2.2). */
const SURELY_PAST = 60_000;

/** RFC 9110, 5.6.7: three forms, all of them in GMT; the oldest, of `asctime()`, does not say so. */
const HTTP_DATE = /^[A-Z][a-z]+,? .*\d/;

function httpDate(header: string | undefined): number | undefined {
  if (header === undefined || !HTTP_DATE.test(header)) return undefined;
  const date = Date.parse(header.endsWith('GMT') ? header : `${header} GMT`);
  return Number.isNaN(date) ? undefined : date;
}

/**
 * `Retry-After` as wall time, ms (RFC 9110, 10.2.3): seconds, or a date. Not now or in the past, which would make us ask
 * again without a pause; and more than nine digits, three decades, is no time that anybody means.
 */
export function retryAt({ 'retry-after': header }: IncomingHttpHeaders, now: number): number | undefined {
  const at = /^\d{1,9}$/.test(header ?? '') ? now + Number(header) * 1_000 : httpDate(header);
  return at !== undefined && at > now ? at : undefined;
}

/**
 * By what the origin tells this very content from any other, to be sent as `If-Range`: a strong ETag, or a date of
 * modification that is as good as one (RFC 9110, 13.1.5). `undefined`: there is none, and no part of it may be joined
 * with another.
 */
export function validatorOf(headers: IncomingHttpHeaders): string | undefined {
  const { etag, 'last-modified': modified, date } = headers;
  if (etag?.startsWith('"') === true) return etag;
  const [changed, now] = [httpDate(modified), httpDate(date)];
  return changed !== undefined && now !== undefined && now - changed >= SURELY_PAST ? modified : undefined;
}

/**
 * The length of the whole, if a 206 has exactly the rest that was asked for, of the content that was asked for.
 * `undefined`: it has something else, and nothing of it can be used.
 *
 * @param validator - what was sent as `If-Range`; an origin that does not know that header answers with a part of
 *   whatever there is by now
 */
export function restFrom(from: number, validator: string, headers: IncomingHttpHeaders): number | undefined {
  const { 'content-range': range, etag, 'last-modified': modified } = headers;
  const other = validator.startsWith('"') ? etag : modified;
  if (other !== undefined && other !== validator) return undefined;
  const [, first, last, total] = /^bytes (\d+)-(\d+)\/(\d+)$/i.exec(range ?? '')?.map(Number) ?? [];
  return total !== undefined && first === from && last === total - 1 ? total : undefined;
}
