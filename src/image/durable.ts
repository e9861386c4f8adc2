import type { Clock } from '../clock.js';
import { formatDuration } from '../duration.js';
import { HandoverError } from '../errors.js';
import { HeapTimer } from '../internal/heap-timer.js';
import { abortable, linkSignals, withDeadline } from '../internal/signals.js';
import type { StateStore } from '../store/store.js';
import type { Ghost } from './ghost.js';
import { Intents } from './intents.js';
import { broughtUnder } from './landing.js';
import { Ledger } from './ledger.js';
import type { Local } from './local.js';
import type { ImageRecord } from './record.js';
import { reconcile } from './recovery.js';
import type { Shelf } from './shelf.js';
import { storedContent } from './stored.js';
import type { Artifact, ArtifactSource, ImageLease } from './types.js';

/** How long a release waits for a store that does not answer, ms. */
const PATIENCE = 30_000;

/** What durable state needs of the coordinator. */
export interface DurableDeck<A extends Artifact> {
  readonly clock: Clock;
  readonly store: StateStore;
  readonly source: ArtifactSource<A>;
  readonly local: Local<A>;
  /** Made after this. */
  readonly shelf: () => Shelf<A>;
  /** Aborts when the coordinator closes. */
  readonly closing: AbortSignal;
  /** Removals may run from now on: whatever is idle is planned. */
  recovered(): void;
  warn(subject: string, code: string, message: string): void;
}

/** What is known outlives the process (IC-21). Without a store there is none of this. */
export class Durable<A extends Artifact> {
  readonly intents: Intents<A>;
  /** Leases that nobody has been told of yet: they are being stored. The shelf adds to it. */
  readonly untold = new WeakSet<object>();
  readonly #deck: DurableDeck<A>;
  readonly #ledger: Ledger;
  readonly #timers: HeapTimer;
  #loading: Promise<void> | undefined;
  #loaded = false;
  #recovered = false;

  /** @throws HandoverError `ERR_STORE_LOCKED` */
  constructor(deck: DurableDeck<A>) {
    this.#deck = deck;
    this.#ledger = new Ledger(deck);
    this.#timers = new HeapTimer(deck.clock);
    this.intents = new Intents<A>({
      ledger: this.#ledger,
      wall: () => deck.clock.wall(),
      brought: ({ reference, platform }, sight) =>
        broughtUnder(deck.shelf(), { name: deck.source.normalise(reference), platform }, sight),
    });
  }

  /** Whether it is known who still holds what: nothing is removed before (IC-21). */
  get recovered(): boolean {
    return this.#recovered;
  }

  /** What is stored of a record has changed. */
  readonly note = (record: ImageRecord<A>): void => {
    this.#ledger.note(this.#ledger.keys.content(record.id), () => storedContent(record));
  };

  /**
   * Everything so far is stored.
   *
   * @throws HandoverError `ERR_DRIVER`
   */
  stored(): Promise<void> {
    return this.#ledger.settled();
  }

  /**
   * The same for those whom a failure does not stop: it is told by a warning, and written later (AL-13). A store that
   * does not answer is waited for 30 s.
   */
  async written(): Promise<void> {
    await this.#inTime(() => this.stored()).catch(() => undefined);
  }

  /**
   * Lets go of all leases of an owner, of those too that it held in an earlier process.
   *
   * @throws HandoverError `ERR_STORE_CORRUPT`, `ERR_DRIVER` when it is not known what those are
   */
  async release(owner: string): Promise<void> {
    this.#deck.shelf().releaseOwner(owner);
    if (this.#deck.closing.aborted) return;
    if (!this.#loaded) {
      await this.#inTime(() => this.load());
      this.#deck.shelf().releaseOwner(owner);
    }
    await this.written();
  }

  /**
   * What earlier processes knew is on the shelf; once, by whoever comes first.
   *
   * @throws HandoverError `ERR_STORE_CORRUPT`, `ERR_DRIVER`: whoever comes next tries again; `ERR_CLOSED`; the signal's
   *   reason
   */
  async load(signal?: AbortSignal): Promise<void> {
    this.#loading ??= this.#load();
    await this.#whileOpen(this.#loading, signal);
  }

  /**
   * A lease counts once it is stored: until then nobody is told of it (IC-21).
   *
   * @param take - takes it
   */
  async lease<L extends ImageLease<A> | undefined>(
    take: () => L | Promise<L>,
    signal: AbortSignal | undefined,
  ): Promise<L> {
    await this.load(signal);
    const lease = await take();
    if (lease === undefined) return lease;
    try {
      await this.#whileOpen(this.stored(), signal);
    } catch (error) {
      void lease.release();
      throw error;
    } finally {
      this.untold.delete(lease);
    }
    return lease;
  }

  /** @returns owners whose claims were let go */
  async recover(isLive: (owner: string) => boolean, signal: AbortSignal | undefined): Promise<readonly string[]> {
    await this.load(signal);
    const { intents, note } = this;
    const deck = { local: this.#deck.local, shelf: this.#deck.shelf(), intents, note };
    const released = await reconcile<A>(deck, isLive, signal);
    this.#recovered = true;
    this.#deck.recovered();
    return released;
  }

  /** @param grace - a store that does not answer is waited for no longer, ms */
  async close(grace: number): Promise<void> {
    this.#timers.clear();
    await this.#ledger.close(grace);
  }

  async #load(): Promise<void> {
    try {
      const { contents, intents } = await this.#ledger.load();
      this.#deck.closing.throwIfAborted();
      this.intents.restore(intents);
      for (const [id, content] of contents) {
        for (const ghost of this.#deck.shelf().restore(id, content)) this.#endInTime(ghost);
      }
      this.#loaded = true;
    } catch (error) {
      this.#loading = undefined;
      throw error;
    }
  }

  /** A claim that ends by itself goes on for what is left of it, be it that wall time jumped (G-5, IC-19). */
  #endInTime(ghost: Ghost): void {
    const { until, since } = ghost;
    if (until === undefined) return;
    const left = Math.min(Math.max(0, until - this.#deck.clock.wall()), Math.max(0, until - since));
    this.#timers.add(left, () => this.#deck.shelf().release(ghost));
  }

  async #inTime(work: () => Promise<void>): Promise<void> {
    const late = (): Error => {
      const message = `The state store did not answer within ${formatDuration(PATIENCE)}; see to the store and try again`;
      return new HandoverError('ERR_DRIVER', message, {
        details: { driver: 'store', operation: 'list' },
        retryable: true,
      });
    };
    await withDeadline(this.#deck.clock, PATIENCE, undefined, late, work);
  }

  async #whileOpen(work: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
    const link = linkSignals(signal, this.#deck.closing);
    try {
      await abortable(work, link.signal);
    } finally {
      link.dispose();
    }
  }
}
