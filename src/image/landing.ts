import type { HandoverError } from '../errors.js';
import type { Flight } from './flight.js';
import type { FlightBoard } from './flight-board.js';
import type { Landing } from './flight-deck.js';
import type { Gates } from './gates.js';
import type { Lease } from './lease.js';
import type { Intents } from './intents.js';
import type { Local } from './local.js';
import type { Looks, Sight } from './looks.js';
import { pullFailed } from './pull-failure.js';
import { requestKey } from './request.js';
import type { Found, Shelf } from './shelf.js';
import type { Artifact } from './types.js';

/** What landings need of the coordinator. */
export interface LandingDeck<A extends Artifact> {
  readonly local: Local<A>;
  readonly looks: Looks<A>;
  readonly shelf: Shelf<A>;
  readonly board: FlightBoard<A>;
  readonly gates: Gates;
  readonly intents: Intents<A> | undefined;
  /** Aborts when the coordinator closes: from then on nobody is bound (IC-23). */
  readonly closing: AbortSignal;
}

/**
 * Finds what a flight has brought and, under the lock of its id, binds all who waited for it (IC-11). What came but does
 * not fit is put on record all the same: it is here because of us.
 *
 * @returns whether anything was found that fits
 * @throws HandoverError `ERR_CLOSED`; what the look threw; the signal's reason
 */
export async function land<A extends Artifact>(
  deck: LandingDeck<A>,
  flight: Flight<A>,
  { fetched, bind, late }: Landing<A>,
  signal?: AbortSignal,
): Promise<boolean> {
  const end = (): void => {
    if (fetched !== undefined && late !== true) deck.intents?.end(flight);
  };
  const act = ({ artifact, fits }: Sight<A>): boolean => {
    deck.closing.throwIfAborted();
    // Somebody who wants the registry asked has joined meanwhile: a local copy is no answer to him (IC-6).
    if (fetched === undefined && flight.forced) return false;
    end();
    const brought = fetched !== undefined && fetched.before?.id !== artifact.id;
    if (bind && fits) bindWaiters(deck, flight, artifact, brought);
    // Nobody holds it: it goes like everything that nobody holds.
    else if (brought) broughtUnder(deck.shelf, flight, { artifact, fits });
    if (bind && !fits && fetched !== undefined) throw wrongPlatform(flight, artifact);
    return fits;
  };
  const { name, platform } = flight;
  const landed = await deck.looks.settle(name.key, () => deck.local.look(name.key, platform), act, signal);
  if (landed === undefined) end();
  return landed ?? false;
}

/** A pull has brought content that nobody is to be bound to. */
export function broughtUnder<A extends Artifact>(
  shelf: Shelf<A>,
  { name, platform }: Pick<Found, 'name' | 'platform'>,
  { artifact, fits }: Sight<A>,
): void {
  // What does not fit was not found by the platform that was asked for.
  const asked = fits ? platform : undefined;
  const found = { name, platform: asked, key: requestKey(name, asked) };
  shelf.land(artifact, found, { brought: true, waiters: [] });
}

function bindWaiters<A extends Artifact>(
  { gates, board, shelf }: LandingDeck<A>,
  flight: Flight<A>,
  artifact: A,
  brought: boolean,
): void {
  gates.clear(flight.flightKey);
  board.delete(flight);
  const waiters = flight.complete();
  const leases = shelf.land(artifact, flight, { brought, waiters: waiters.map(({ request }) => request) });
  waiters.forEach((waiter, i) => waiter.lease.resolve(leases[i] as Lease<A>));
}

function wrongPlatform<A extends Artifact>(flight: Flight<A>, artifact: A): HandoverError {
  return pullFailed(flight.name.key, 'no-platform', flight.attempt, {
    problem: `${String(flight.platform)} was asked for, but ${String(artifact.platform)} came`,
    retryable: false,
  });
}
