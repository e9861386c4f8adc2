import { formatDuration } from '../duration.js';
import { type HandoverError, isHandoverError } from '../errors.js';
import { backoff } from '../internal/backoff.js';
import { abortable, linkSignals } from '../internal/signals.js';
import { type Answer, sameAnswer } from './auth.js';
import { Flight } from './flight.js';
import type { FlightDeck } from './flight-deck.js';
import type { FlightBoard } from './flight-board.js';
import type { Gate, Gates } from './gates.js';
import type { Lease } from './lease.js';
import type { Looks, Sight } from './looks.js';
import { absentError, attemptsOf, isRetryable, pullFailed, pullReason } from './pull-failure.js';
import { asksRegistry, type Request } from './request.js';
import type { Shelf } from './shelf.js';
import type { Artifact, ImageLease } from './types.js';

/** Between the tries of a caller with a deadline, when no gate says how long (IC-9). */
const PATIENCE = { first: 1_000, max: 30_000, jitter: 'full' } as const;

const FRESH = { stale: false };
/** The registry could not be asked for a newer one. */
const STALE = { stale: true };

/** How much of its caller's time a pull has when there is a local copy to fall back on (IC-6). */
const SHARE_OF_PULL = 0.9;

/** How long a caller waits, and for what. */
export interface Deadline {
  /** ms */
  readonly timeout: number;
  /** Why it is not there yet. */
  last: unknown;
}

/** What the acquirer needs of the coordinator. */
export interface AcquireDeck<A extends Artifact> {
  readonly flights: FlightDeck<A>;
  readonly board: FlightBoard<A>;
  readonly gates: Gates;
  readonly looks: Looks<A>;
  readonly shelf: Shelf<A>;
}

/** Leads one request to its lease: by what is held or present, or by a flight (IC-1 to IC-9). */
export class Acquirer<A extends Artifact> {
  readonly #deck: AcquireDeck<A>;

  constructor(deck: AcquireDeck<A>) {
    this.#deck = deck;
  }

  /**
   * Runs `work` under the deadline of a caller who has one: whatever it waits for, it ends then, as `timed-out`.
   *
   * @param work - heeds its signal: a lease that came all the same would be lost if it were not waited for
   */
  async inTime<T>(
    request: Request,
    o: { readonly signal?: AbortSignal | undefined; readonly timeout: number },
    work: (signal: AbortSignal, deadline: Deadline) => Promise<T>,
  ): Promise<T> {
    const { clock, closing } = this.#deck.flights;
    const deadline: Deadline = { timeout: o.timeout, last: undefined };
    const link = linkSignals(o.signal, closing);
    const cancel = clock.timer(o.timeout, () => link.abort(this.#outOfTime(request, deadline)));
    try {
      return await work(link.signal, deadline);
    } finally {
      cancel();
      link.dispose();
    }
  }

  /** @param deadline - the caller's, if there is one; `signal` aborts with it */
  acquire(request: Request, signal: AbortSignal | undefined, deadline: Deadline | undefined): Promise<ImageLease<A>> {
    if (request.policy === 'if-stale') return this.#orLocalCopy(request, signal, deadline);
    return deadline === undefined || signal === undefined
      ? this.#once(request, signal)
      : this.#untilDeadline(request, signal, deadline);
  }

  async #orLocalCopy(
    request: Request,
    signal: AbortSignal | undefined,
    deadline: Deadline | undefined,
  ): Promise<ImageLease<A>> {
    const { flights } = this.#deck;
    try {
      return await this.#beforeTheLook(request, signal, deadline);
    } catch (error) {
      signal?.throwIfAborted();
      if (!isRetryable(error)) throw error;
      if (deadline !== undefined) deadline.last = error;
      const lease = await this.#localCopy(request, signal).catch(() => {
        // That the copy could not be looked for is not why there is nothing.
        signal?.throwIfAborted();
        flights.closing.throwIfAborted();
        throw error;
      });
      if (lease === undefined || lease === 'misfit') throw error;
      const message = `The registry could not be reached; ${request.owner} got the local copy`;
      flights.warn(request.name.key, 'image-stale', message);
      return lease;
    }
  }

  /** A registry that is silent until the deadline would leave no time to take the copy. */
  async #beforeTheLook(
    request: Request,
    signal: AbortSignal | undefined,
    deadline: Deadline | undefined,
  ): Promise<ImageLease<A>> {
    if (deadline === undefined) return this.#once(request, signal);
    const { board, flights } = this.#deck;
    const link = linkSignals(signal);
    const cancel = flights.clock.timer(deadline.timeout * SHARE_OF_PULL, () => {
      // Without a copy all the time is the pull's.
      if (board.get(request.flightKey)?.absent !== true) link.abort(this.#outOfTime(request, deadline));
    });
    try {
      return await this.#once(request, link.signal);
    } finally {
      cancel();
      link.dispose();
    }
  }

  async #localCopy(request: Request, signal: AbortSignal | undefined): Promise<Lease<A> | 'misfit' | undefined> {
    const lease = await this.#present(request, signal, STALE);
    if (lease === undefined) await this.#missed(request, signal);
    return lease;
  }

  /** Whoever holds a deadline keeps trying what may pass until then (IC-9). */
  async #untilDeadline(request: Request, signal: AbortSignal, deadline: Deadline): Promise<ImageLease<A>> {
    const { gates, flights } = this.#deck;
    const { clock } = flights;
    for (let failures = 1; ; failures += 1) {
      try {
        return await this.#once(request, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (!isRetryable(error)) throw error;
        deadline.last = gates.closed(request.flightKey)?.error ?? error;
      }
      await gates.opened(request.flightKey, signal, backoff(PATIENCE, failures, clock));
    }
  }

  async #once(request: Request, signal: AbortSignal | undefined): Promise<ImageLease<A>> {
    const { board, flights } = this.#deck;
    for (;;) {
      flights.closing.throwIfAborted();
      signal?.throwIfAborted();
      const flight = board.get(request.flightKey);
      if (flight?.open === false) {
        // It never inherits the abort of what is winding down (IC-4).
        await abortable(flight.ended, signal);
        continue;
      }
      if (flight !== undefined && joins(request, flight)) return await flight.join(request, signal);
      if (asksRegistry(request)) {
        const flown = await this.#fly(request, signal, false);
        if (flown === undefined) continue;
        return flown;
      }
      const present = await this.#present(request, signal, FRESH);
      if (present === undefined) await this.#missed(request, signal);
      if (present !== undefined && present !== 'misfit') return present;
      if (request.policy === 'never') throw absentError(request.reference, "the policy 'never' forbids to fetch it");
      if (!request.name.pullable) throw absentError(request.reference, 'it cannot be fetched by such a reference');
      const other = board.get(request.flightKey);
      if (other?.open === true) return await other.join(request, signal);
      const flown = other === undefined ? await this.#fly(request, signal, present === undefined) : undefined;
      if (flown !== undefined) return flown;
    }
  }

  /**
   * What is present bypasses the queue: one look, and bound under the lock of what was found (IC-7).
   *
   * @returns `misfit`: something is there, for another platform
   */
  #present(
    request: Request,
    signal: AbortSignal | undefined,
    o: { readonly stale: boolean },
  ): Promise<Lease<A> | 'misfit' | undefined> {
    const { looks, shelf, flights } = this.#deck;
    const look = (): Promise<Sight<A> | undefined> => flights.look(request.name.key, request.platform);
    const take = ({ artifact, fits }: Sight<A>): Lease<A> | 'misfit' =>
      fits ? shelf.grant(artifact, request, o) : 'misfit';
    return looks.together(request.key, request.name.key, look, take, signal);
  }

  /** It is not there; if it is held, somebody else has deleted it (S41), or only its name. */
  async #missed({ key }: Request, signal: AbortSignal | undefined): Promise<void> {
    const { shelf, flights } = this.#deck;
    const record = shelf.lastBound(key)?.record;
    if (record?.state !== 'held') return;
    const still = await abortable(flights.look(record.id, undefined), signal);
    if (still === undefined) shelf.lose(record);
  }

  /** @returns `undefined`: a gate was in the way, and is open now; look again */
  async #fly(request: Request, signal: AbortSignal | undefined, absent: boolean): Promise<ImageLease<A> | undefined> {
    const { board, gates, flights } = this.#deck;
    const closed = gates.closed(request.flightKey);
    if (closed !== undefined) return this.#passGate(closed, request, signal);
    // A gate lets one attempt through each time it opens.
    const maxAttempts = gates.get(request.flightKey) === undefined ? flights.pull.attempts : 1;
    const flight = new Flight<A>(flights, request, { absent, maxAttempts });
    board.add(flight);
    const lease = flight.join(request, signal);
    flight.start();
    flights.changed(flight);
    return lease;
  }

  /** Who comes with other credentials than those that were no use opens a closed gate (IC-9). */
  async #passGate(gate: Gate, request: Request, signal: AbortSignal | undefined): Promise<undefined> {
    const { gates } = this.#deck;
    // What failed before it was fetched did not fail for want of credentials.
    const news = gate.answer !== undefined && (await this.#answer(request, signal));
    if (news === false || sameAnswer(news, gate.answer)) throw gateError(request.name.key, gate);
    if (gates.closed(request.flightKey) === gate) gates.clear(request.flightKey);
  }

  /** @returns `false`: there is no provider, or it fails */
  async #answer({ auth, authScope, name }: Request, signal: AbortSignal | undefined): Promise<Answer | false> {
    if (auth === undefined) return false;
    const { logins, closing } = this.#deck.flights;
    const link = linkSignals(signal, closing);
    try {
      const claim = { auth, host: name.host, scope: authScope };
      return await logins.ask(claim, { refused: false, signal: link.signal });
    } catch {
      link.signal.throwIfAborted();
      return false;
    } finally {
      link.dispose();
    }
  }

  #outOfTime(request: Request, { timeout, last }: Deadline): Error {
    const { board, gates } = this.#deck;
    // Between two flights there is none.
    const flight = board.get(request.flightKey);
    const cause = flight?.lastError ?? last ?? gates.get(request.flightKey)?.error;
    const why = isHandoverError(cause) ? `; the last failure: ${cause.message}` : '';
    return pullFailed(request.name.key, 'timed-out', flight?.attempt ?? attemptsOf(cause), {
      problem: `not there within the ${formatDuration(timeout)} that ${request.owner} waits (timeout)${why}`,
      retryable: true,
      cause,
    });
  }
}

/** Whether a request has to wait for a flight in the air: `never` does not, nor who may take what is present. */
function joins<A extends Artifact>(request: Request, flight: Flight<A>): boolean {
  return asksRegistry(request) || (flight.absent && request.policy !== 'never');
}

function gateError(reference: string, { error, retryAt }: Gate): HandoverError {
  const until = new Date(retryAt).toISOString();
  return pullFailed(reference, pullReason(error), 0, {
    problem: `not tried again before ${until}; the last failure: ${error.message}`,
    retryAt,
    retryable: true,
    cause: error,
  });
}
