import type { Effective } from '../call.js';
import type { Emitter } from '../events.js';
import type { FlightDeck } from './flight-deck.js';
import { land, type LandingDeck } from './landing.js';
import { PullQueue } from './queue.js';
import { explain, flightStatus } from './status.js';
import type { Artifact, PullOptions } from './types.js';

/** The parts of the coordinator that flights work with. */
export type FlightParts<A extends Artifact> = LandingDeck<A> &
  Pick<FlightDeck<A>, 'clock' | 'source' | 'logins' | 'makeRoom'> & {
    readonly pull: Effective<PullOptions>;
    readonly emitter: Emitter<'image'>;
  };

/** What flights need, made from the parts of the coordinator. */
export function flightDeck<A extends Artifact>(parts: FlightParts<A>): FlightDeck<A> {
  const { clock, source, pull, logins, intents, closing, makeRoom, looks, local, board, gates, emitter } = parts;
  return {
    ...{ clock, source, pull, logins, intents, closing, makeRoom },
    queue: new PullQueue(pull.concurrency),
    removalOf: (reference) => looks.untagging(reference),
    look: (reference, platform) => local.look(reference, platform),
    land: (flight, landing, signal) => land(parts, flight, landing, signal),
    failed: (flight, error, abandoned) => {
      board.delete(flight);
      intents?.leave(flight);
      if (!abandoned) gates.failed(flight.flightKey, error, flight.answer);
    },
    changed: (flight) => {
      const flying = board.get(flight.flightKey) === flight;
      const image = flying ? flightStatus(flight, clock) : explain(parts, flight.name);
      emitter.emit('image:changed', { image });
    },
    progressed: ({ name, owners }, progress) =>
      emitter.emit('image:progress', { reference: name.key, owners, progress }),
    warn: (subject, code, message) => emitter.warn(subject, { code, message }),
  };
}
