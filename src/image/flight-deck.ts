import type { Effective } from '../call.js';
import type { Clock } from '../clock.js';
import type { HandoverError } from '../errors.js';
import type { Logins } from './auth.js';
import type { Flight } from './flight.js';
import type { Intents } from './intents.js';
import type { Sight } from './looks.js';
import type { PullQueue } from './queue.js';
import type { Artifact, ArtifactSource, Progress, PullOptions } from './types.js';

/** What a flight comes back with. */
export interface Landing<A extends Artifact> {
  /** A fetch was made; `before` is what the reference meant until then. */
  readonly fetched?: { readonly before: A | undefined };
  /** `false`: the fetch failed; what it may have brought all the same is only put on record. */
  readonly bind: boolean;
  /** The flight has gone on without that fetch: what is written down of it by now is of another one. */
  readonly late?: true;
}

/** What a flight needs of the coordinator. */
export interface FlightDeck<A extends Artifact> {
  readonly clock: Clock;
  readonly source: ArtifactSource<A>;
  readonly pull: Effective<PullOptions>;
  readonly queue: PullQueue;
  readonly logins: Logins;
  /** Nothing, if there is no store. */
  readonly intents: Intents<A> | undefined;
  /** Aborts when the coordinator closes. */
  readonly closing: AbortSignal;
  /** The removal of a reference that is under way, if any (IC-16). */
  removalOf(reference: string): Promise<void> | undefined;
  /** Looks locally. */
  look(reference: string, platform: string | undefined): Promise<Sight<A> | undefined>;
  /**
   * Finds what the fetch brought and, under the lock of its id, binds every waiter to it.
   *
   * @returns whether anything was found that fits
   * @throws HandoverError `ERR_CLOSED`; what the look threw; the signal's reason
   */
  readonly land: (flight: Flight<A>, landing: Landing<A>, signal?: AbortSignal) => Promise<boolean>;
  /** The flight failed: off the board with it. */
  failed(flight: Flight<A>, error: HandoverError, abandoned: boolean): void;
  changed(flight: Flight<A>): void;
  progressed(flight: Flight<A>, progress: Progress): void;
  warn(subject: string, code: string, message: string): void;
  /** The disk is full: removes what nobody holds, as far as it may go (IC-10). A failure of this is not the pull's. */
  makeRoom(): Promise<unknown>;
}
