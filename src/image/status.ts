import type { Clock } from '../clock.js';
import type { Flight } from './flight.js';
import type { Gates } from './gates.js';
import { reasonOf } from './pull-failure.js';
import { requestKey } from './request.js';
import type { Shelf } from './shelf.js';
import type { FlightBoard } from './flight-board.js';
import type { Artifact, ImageStatus, NormalisedReference } from './types.js';

/** What {@link explain} looks at. */
export interface StatusDeck<A extends Artifact> {
  readonly clock: Clock;
  readonly shelf: Shelf<A>;
  readonly board: FlightBoard<A>;
  readonly gates: Gates;
}

/** A pull in the air (IC-20). */
export function flightStatus<A extends Artifact>(flight: Flight<A>, clock: Clock): ImageStatus {
  return {
    reference: flight.name.key,
    state: 'pulling',
    since: flight.since,
    holders: [],
    waiters: flight.owners,
    progress: flight.progress,
    ...(flight.lastError === undefined ? {} : { lastError: reasonOf(flight.lastError, clock) }),
  };
}

/**
 * Everything that is known of one name, in one answer (IC-20). Of several records that went by it, the one that was
 * bound by it last.
 */
export function explain<A extends Artifact>(deck: StatusDeck<A>, name: NormalisedReference): ImageStatus {
  const flight = deck.board.of(name.key)[0];
  const pulling = flight === undefined ? undefined : flightStatus(flight, deck.clock);
  const bound = deck.shelf.lastBound(requestKey(name, undefined))?.record;
  const record = bound ?? deck.shelf.records.findLast(({ references }) => references.includes(name.key));
  if (record === undefined) return pulling ?? absent(deck, name.key);
  const { waiters, progress, lastError } = pulling ?? absent(deck, name.key);
  return {
    ...record.status(),
    waiters,
    ...(progress === undefined ? {} : { progress }),
    ...(lastError === undefined ? {} : { lastError }),
  };
}

/** Everything that is known (IC-20). */
export function snapshot<A extends Artifact>(deck: StatusDeck<A>): readonly ImageStatus[] {
  return [
    ...deck.shelf.records.map((record) => record.status()),
    ...deck.board.all.map((flight) => flightStatus(flight, deck.clock)),
  ];
}

function absent<A extends Artifact>({ clock, gates }: StatusDeck<A>, reference: string): ImageStatus {
  const gate = gates.of(reference).at(-1)?.[1];
  return {
    reference,
    state: 'absent',
    since: gate?.since ?? clock.wall(),
    holders: [],
    waiters: [],
    ...(gate === undefined ? {} : { lastError: { ...reasonOf(gate.error, clock), at: gate.since } }),
  };
}
