import { abortable } from '../internal/signals.js';
import type { Flight } from './flight.js';
import type { Ledger } from './ledger.js';
import type { Sight } from './looks.js';
import type { StoredIntent } from './stored.js';
import type { Artifact } from './types.js';

/** That a reference is about to be pulled, and what it meant before. */
export interface Intent<A extends Artifact> {
  readonly reference: string;
  readonly platform: string | undefined;
  /** The id that it meant; `null` = nothing. */
  readonly before: string | null;
  /** Wall time, ms. */
  readonly at: number;
  /** Whose pull it is; nobody's: it is not known yet what came of it. */
  readonly flights: Set<Flight<A>>;
}

/** What intents need of the coordinator. */
export interface IntentDeck<A extends Artifact> {
  readonly ledger: Ledger;
  wall(): number;
  /** Our pull has brought content under a reference: from now on it is ours. */
  brought(intent: Intent<A>, sight: Sight<A>): void;
}

/** Pulls are written down before they begin, so that it is known what is here because of them (IC-21). */
export class Intents<A extends Artifact> {
  readonly #deck: IntentDeck<A>;
  readonly #open = new Map<string, Intent<A>>();

  constructor(deck: IntentDeck<A>) {
    this.#deck = deck;
  }

  /** Those of which it is not known what came of them. */
  get unsettled(): readonly Intent<A>[] {
    return [...this.#open.values()].filter(({ flights }) => flights.size === 0);
  }

  /** Those that an earlier process has left behind. */
  restore(stored: readonly StoredIntent[]): void {
    for (const { reference, platform, before, at } of stored) {
      const intent = { reference, platform: platform ?? undefined, before, at, flights: new Set<Flight<A>>() };
      this.#open.set(this.#key(intent), intent);
    }
  }

  /**
   * A flight is about to fetch; resolves when that is stored.
   *
   * @param before - what the reference means now
   * @throws HandoverError `ERR_DRIVER` when the store fails: nothing may be fetched then; the signal's reason
   */
  async begin(flight: Flight<A>, before: Sight<A> | undefined, signal: AbortSignal): Promise<void> {
    this.leave(flight);
    const { platform, name } = flight;
    const at = this.#deck.wall();
    const fresh = {
      reference: name.key,
      platform,
      before: before?.artifact.id ?? null,
      at,
      flights: new Set([flight]),
    };
    const known = this.#open.get(this.#key(fresh));
    // Pulls of other credential scopes share it: what was there before the first of them still decides.
    if (known !== undefined && known.flights.size > 0) known.flights.add(flight);
    else {
      if (known !== undefined) this.settle(known, before);
      this.#open.set(this.#key(fresh), fresh);
      this.#note(fresh);
    }
    try {
      await abortable(this.#deck.ledger.settled(), signal);
    } catch (error) {
      this.end(flight);
      throw error;
    }
  }

  /** It is known what came of a flight's pull. */
  end(flight: Flight<A>): void {
    const intent = this.#of(flight);
    if (intent?.flights.delete(flight) === true && intent.flights.size === 0) this.#drop(intent);
  }

  /** A flight is over, and it is not known what came of its pull. */
  leave(flight: Flight<A>): void {
    this.#of(flight)?.flights.delete(flight);
  }

  /**
   * It was looked what came of an unsettled one; one that was settled meanwhile is left alone.
   *
   * @param sight - what its reference means now
   */
  settle(intent: Intent<A>, sight: Sight<A> | undefined): void {
    if (this.#open.get(this.#key(intent)) !== intent || intent.flights.size > 0) return;
    if (sight !== undefined && sight.artifact.id !== intent.before) this.#deck.brought(intent, sight);
    this.#drop(intent);
  }

  #of({ name, platform }: Flight<A>): Intent<A> | undefined {
    return this.#open.get(this.#key({ reference: name.key, platform }));
  }

  #drop(intent: Intent<A>): void {
    this.#open.delete(this.#key(intent));
    this.#note(intent);
  }

  #note(intent: Intent<A>): void {
    const key = this.#key(intent);
    this.#deck.ledger.note(key, () => {
      const open = this.#open.get(key);
      if (open === undefined) return undefined;
      const { reference, platform, before, at } = open;
      return { v: 1, reference, platform: platform ?? null, before, at } satisfies StoredIntent;
    });
  }

  #key({ reference, platform }: Pick<Intent<A>, 'reference' | 'platform'>): string {
    return this.#deck.ledger.keys.intent(reference, platform);
  }
}
