import { formatDuration } from '../duration.js';
import { type HandoverError, isHandoverError } from '../errors.js';
import { errorCode } from '../internal/system-error.js';
import { type Answer, sameAnswer } from './auth.js';
import { fetchOnce } from './fetch-once.js';
import type { Flight } from './flight.js';
import type { FlightDeck } from './flight-deck.js';
import { pullFailed } from './pull-failure.js';
import type { Artifact, AuthProvider, Credentials, Progress } from './types.js';

/** What a flight fetches with. */
export type FetchDeck<A extends Artifact> = Pick<FlightDeck<A>, 'clock' | 'source' | 'pull' | 'warn' | 'logins'>;

/** Who is told of a fetch. */
interface Told {
  readonly report: (progress: Omit<Progress, 'attempt'>) => void;
  readonly ignored: (end: Promise<void>) => void;
}

/**
 * One attempt of a flight, with the credentials that its provider gives now. If the registry refuses them the provider
 * is asked once more, and something new that it gives is tried as one more attempt (IC-10).
 *
 * @param o.report - told of the progress
 * @param o.ignored - told of a fetch that is waited for no longer; its end
 * @throws what {@link fetchOnce} throws; `ERR_PULL_FAILED` with the reason `unauthorized` when the provider fails
 */
export async function authorisedFetch<A extends Artifact>(
  deck: FetchDeck<A>,
  flight: Flight<A>,
  o: Told & { readonly signal: AbortSignal },
): Promise<void> {
  const { signal } = o;
  const fetch = (answer: Answer): Promise<void> => fetchWith(deck, flight, answer, o);
  const { auth } = flight;
  const first = auth === undefined ? (flight.answer = 'anonymous') : await ask(deck, flight, auth, false, signal);
  try {
    await fetch(first);
  } catch (refusal) {
    if (signal.aborted || !isUnauthorized(refusal) || flight.auth === undefined) throw refusal;
    const second = await ask(deck, flight, flight.auth, true, signal);
    if (second === 'anonymous' || sameAnswer(second, first)) throw refusal;
    flight.attempt += 1;
    await fetch(second);
  }
}

async function ask<A extends Artifact>(
  { logins }: FetchDeck<A>,
  flight: Flight<A>,
  auth: AuthProvider,
  refused: boolean,
  signal: AbortSignal,
): Promise<Answer> {
  const { host } = flight.name;
  try {
    return (flight.answer = await logins.ask({ auth, host, scope: flight.authScope }, { refused, signal }));
  } catch (error) {
    signal.throwIfAborted();
    flight.answer = 'failed';
    throw providerFailed(flight, error);
  }
}

/**
 * The words of a provider's own error may hold a secret, such as a URL with a token in it: only those of a
 * {@link HandoverError} are passed on, which promises that they do not (G-6).
 */
function providerFailed({ name, attempt }: Pick<Flight<Artifact>, 'name' | 'attempt'>, error: unknown): HandoverError {
  const own = isHandoverError(error) ? error : undefined;
  const kind = errorCode(error) ?? (error instanceof Error ? error.name : typeof error);
  const why = own?.message ?? `it threw ${kind}; a HandoverError would be shown in full`;
  return pullFailed(name.key, 'unauthorized', attempt, {
    problem: `the credential provider failed for ${name.host}: ${why}`,
    retryable: own?.retryable ?? true,
    cause: own,
  });
}

function fetchWith<A extends Artifact>(
  { clock, source, pull, warn }: FetchDeck<A>,
  { name, platform, attempt }: Flight<A>,
  answer: Answer,
  { report, ignored, signal }: Told & { readonly signal: AbortSignal },
): Promise<void> {
  const grace = formatDuration(pull.abortGrace);
  const words = `The aborted pull did not end within ${grace}; its place is given away`;
  report({ phase: 'resolving', bytes: { done: 0 } });
  return fetchOnce(
    {
      ...{ clock, source, limits: pull, reference: name.key, platform, attempt },
      credentials: credentialsOf(answer),
      onProgress: report,
      ignored: (end) => {
        warn(name.key, 'abort-ignored', words);
        ignored(end);
      },
    },
    signal,
  ).catch((error: unknown) => {
    // What the source cannot use is no better than what has no known form.
    throw isUnusable(error) ? providerFailed({ name, attempt }, error) : error;
  });
}

function isUnusable(error: unknown): boolean {
  return isHandoverError(error, 'ERR_INVALID_OPTION') && error.details.path.split('.')[0] === 'credentials';
}

function credentialsOf(answer: Answer): Credentials | undefined {
  return typeof answer === 'object' ? answer : undefined;
}

function isUnauthorized(error: unknown): boolean {
  return isHandoverError(error, 'ERR_PULL_FAILED') && error.details.reason === 'unauthorized';
}
