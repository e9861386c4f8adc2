import { HandoverError } from '../errors.js';
import type { PullError, PullReason } from '../image/types.js';

interface Row {
  readonly reason: PullReason;
  readonly text: RegExp;
}

/**
 * What engines and registries write, first match wins (IC-10). Text comes before status, because an engine wraps what
 * a registry said in an HTTP 500 or in an object of the stream, and drops the registry's own status.
 */
const TEXTS: readonly Row[] = [
  { reason: 'no-space', text: /no space left on device|disk quota exceeded/i },
  {
    reason: 'not-found-or-denied',
    text: /manifest unknown|manifest for \S+ not found|name unknown|pull access denied|repository does not exist|repository name not known/i,
  },
  { reason: 'rate-limited', text: /toomanyrequests|too many requests|rate limit|HTTP 429/i },
  {
    reason: 'no-platform',
    text: /no matching manifest for|no match for platform|does not (?:match|provide) the specified platform|cannot be used on this platform/i,
  },
  {
    reason: 'registry-unavailable',
    text: /dial (?:tcp|udp)|connection (?:refused|reset)|broken pipe|no such host|no route to host|network is unreachable|timeout|timed out|deadline exceeded|request canceled|\bEOF\b|server misbehaving|name resolution|HTTP response to HTTPS|x509:|tls:|HTTP (?:status: )?5\d\d|bad gateway|service unavailable|internal server error/i,
  },
  {
    reason: 'unauthorized',
    text: /no basic auth credentials|unauthorized|authentication required|authorization token has expired|incorrect username or password|HTTP 401/i,
  },
  { reason: 'not-found-or-denied', text: /\bdenied\b|\bforbidden\b|HTTP 40[34]/i },
  { reason: 'invalid-reference', text: /invalid reference format|invalid tag format|invalid repository name/i },
];

/**
 * Names are not the engine's words: a tag may be 401, an image may be called unauthorized, a host after a failure. They
 * are known by a scheme, a slash or what is before them; there is no slash in a word that matters here.
 */
const NAMES =
  /"?https?:\/\/[^\s"]*"?|(?<![\w.-])[\w.-]+(?::\d+)?(?:\/[\w.-]+)+(?::[\w.-]+)?(?:@\w+:\w+)?|\blookup \S+/g;

/** For an engine, or something before it, whose words say nothing known. */
const STATUSES: Readonly<Record<number, PullReason>> = {
  400: 'invalid-reference',
  401: 'unauthorized',
  403: 'not-found-or-denied',
  404: 'not-found-or-denied',
  429: 'rate-limited',
  502: 'engine-unavailable',
  503: 'engine-unavailable',
  504: 'engine-unavailable',
};

/** What to tell a person, and whether the same pull may succeed later with nothing changed. */
const CLASSES: Readonly<Record<PullReason, { readonly retryable: boolean; readonly advice: string }>> = {
  'invalid-reference': { retryable: false, advice: 'correct the reference' },
  'not-found-or-denied': {
    retryable: false,
    advice: 'check the name and the tag, and that the registry lets this engine read them',
  },
  unauthorized: { retryable: false, advice: 'the registry wants valid credentials' },
  'rate-limited': { retryable: true, advice: 'the registry limits pulls; wait, or authenticate for a higher limit' },
  'no-space': { retryable: false, advice: 'free space where the engine keeps its images' },
  'no-platform': { retryable: false, advice: 'ask for a platform that the image is built for' },
  'registry-unavailable': { retryable: true, advice: 'check that the engine can reach the registry' },
  stalled: { retryable: true, advice: 'check the network between engine and registry' },
  'timed-out': { retryable: true, advice: 'check the network, or allow more time' },
  aborted: { retryable: false, advice: 'it was called off' },
  'engine-unavailable': { retryable: true, advice: 'check that the Docker engine runs' },
  'corrupt-stream': { retryable: true, advice: 'check what is between this client and the engine' },
  unknown: { retryable: true, advice: 'see the text of the engine' },
};

/**
 * The class of a failed pull, by text *and* status (IC-10).
 *
 * @param text - the words of the engine, from its HTTP answer or from the stream
 * @param status - HTTP status, if the failure came as one
 */
export function classifyPull(text: string, status?: number): PullReason {
  const words = text.replaceAll(NAMES, '""');
  const row = TEXTS.find(({ text: pattern }) => pattern.test(words));
  return row?.reason ?? STATUSES[status ?? 0] ?? 'unknown';
}

/** The error of one failed attempt to pull; the coordinator counts attempts. */
export function pullError(reference: string, reason: PullReason, text: string, cause?: unknown): PullError {
  const { retryable, advice } = CLASSES[reason];
  return new HandoverError('ERR_PULL_FAILED', `Pull of ${reference} failed (${reason}): ${text}; ${advice}`, {
    details: { reference, reason, attempts: 1 },
    retryable,
    cause,
  });
}
