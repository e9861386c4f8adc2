import type { Duration } from '../call.js';
import type { Clock } from '../clock.js';
import type { HeapTimer } from '../internal/heap-timer.js';
import { type Hold, Lease, type LeaseKeeper, type LeaseTerms } from './lease.js';
import { parseTtl } from './options.js';
import { absentError } from './pull-failure.js';
import type { Artifact, PrefetchLease } from './types.js';

/** What leases that end by themselves need of the coordinator. */
export interface TermDeck {
  readonly clock: Clock;
  readonly timers: HeapTimer;
  /** Aborts when the coordinator closes. */
  readonly closing: AbortSignal;
  /** A claim ends at another time now. */
  renewed(hold: Hold): void;
}

/** A lease that ends by itself, and with its owner's claim in earnest (IC-19). */
export class TimedLease<A extends Artifact> extends Lease<A> implements PrefetchLease<A> {
  #until: number;
  readonly #deck: TermDeck;
  readonly #end: () => void;
  #cancel: (() => void) | undefined;

  /** @param ttl - how long it holds, ms from now */
  constructor(keeper: LeaseKeeper<A>, deck: TermDeck, artifact: A, terms: LeaseTerms, ttl: number) {
    super(keeper, artifact, { ...terms, provisional: true });
    this.#deck = deck;
    this.#end = () => void keeper.release(this);
    this.#until = deck.clock.wall() + ttl;
    this.#cancel = deck.timers.add(ttl, this.#end);
  }

  get expiresAt(): number {
    return this.#until;
  }

  override get until(): number {
    return this.#until;
  }

  renew(ttl: Duration): void {
    const { clock, timers, closing } = this.#deck;
    const ms = parseTtl(ttl);
    closing.throwIfAborted();
    if (this.#cancel === undefined) {
      throw absentError(
        this.reference,
        'this lease has ended (its time was up, it was released, or its owner has acquired the same content since); prefetch or acquire it again',
      );
    }
    this.#cancel();
    this.#until = clock.wall() + ms;
    this.#cancel = timers.add(ms, this.#end);
    this.#deck.renewed(this);
  }

  override ended(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}
