import type { Clock } from '../clock.js';
import { HandoverError, invalidOption, isHandoverError } from '../errors.js';
import { backoff } from '../internal/backoff.js';
import { type Deferred, deferred } from '../internal/deferred.js';
import { messageOf } from '../internal/message-of.js';
import type { StateStore, StoreOp } from '../store/store.js';
import { closedError } from './pull-failure.js';
import { type Stored, StoreKeys } from './stored.js';
import type { ArtifactSource } from './types.js';

/** Between the tries of a write that failed and that nobody waits for. */
const RETRY = { first: 1_000, max: 60_000, jitter: 'full' } as const;

/** Which sources of a store have a coordinator, by their prefix: two would delete each other's content (IC-22). */
const claimed = new WeakMap<StateStore, Set<string>>();

/** What the ledger needs of the coordinator. */
export interface LedgerDeck {
  readonly clock: Clock;
  readonly store: StateStore;
  readonly source: Pick<ArtifactSource, 'id'>;
  warn(subject: string, code: string, message: string): void;
}

/** What is to be stored when the batch is made; `undefined`: nothing any more. */
type Value = () => object | undefined;

/**
 * What the coordinator keeps in the store (IC-21): whatever has changed is written in one batch, one batch at a time,
 * and what changes meanwhile goes with the next.
 */
export class Ledger {
  readonly keys: StoreKeys;
  readonly #deck: LedgerDeck;
  /** Of what has changed since the last batch was made. */
  #dirty = new Map<string, Value>();
  /** Settles with the batch in flight. */
  #writing: Deferred<void> | undefined;
  /** Settles with the batch after that, for those who wait for it. */
  #next: Deferred<void> | undefined;
  #busy = false;
  #failures = 0;
  #cancelRetry: (() => void) | undefined;
  #closed = false;

  /** @throws HandoverError `ERR_STORE_LOCKED` while another coordinator keeps the same source in the same store */
  constructor(deck: LedgerDeck) {
    const { id } = deck.source;
    if (typeof id !== 'string' || id === '') throw invalidOption('source.id', 'must be text when there is a store');
    this.#deck = deck;
    this.keys = new StoreKeys(deck.source);
    const taken = claimed.get(deck.store) ?? new Set();
    if (taken.has(this.keys.prefix)) {
      const message = `Another image coordinator keeps the source ${id} in this store; close that one first, or give the source another id`;
      throw new HandoverError('ERR_STORE_LOCKED', message, { details: { path: `image/${id}` }, retryable: true });
    }
    claimed.set(deck.store, taken.add(this.keys.prefix));
  }

  /** @throws HandoverError `ERR_STORE_CORRUPT`, `ERR_DRIVER` */
  async load(): Promise<Stored> {
    const entries = await this.#ask('list', () => this.#deck.store.list(this.keys.prefix));
    return this.keys.read(entries);
  }

  /** Something has changed, and will be stored as it is when its batch is made. */
  note(key: string, value: Value): void {
    if (this.#closed) return;
    this.#dirty.set(key, value);
    // While writes fail, time starts the next one, or somebody who waits for it.
    if (this.#cancelRetry === undefined) this.#start();
  }

  /**
   * Everything noted so far is stored. Once it is closed nothing is, and nothing is waited for.
   *
   * @throws HandoverError `ERR_DRIVER` when it is unknown whether it is: it is tried again all the same
   */
  settled(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    if (this.#dirty.size === 0) return this.#writing?.promise ?? Promise.resolve();
    this.#next ??= silent();
    this.#start();
    return this.#next.promise;
  }

  /**
   * Writes what is left, and lets go of the store.
   *
   * @param grace - after this long, ms, it is waited for no longer
   */
  async close(grace: number): Promise<void> {
    const late = deferred();
    const cancel = this.#deck.clock.timer(grace, () => late.resolve());
    await Promise.race([this.settled().catch(() => undefined), late.promise]);
    cancel();
    this.#closed = true;
    this.#cancelRetry?.();
    for (const waiting of [this.#writing, this.#next]) waiting?.reject(closedError());
    claimed.get(this.#deck.store)?.delete(this.keys.prefix);
  }

  get #awaited(): boolean {
    return this.#next !== undefined;
  }

  #start(): void {
    if (this.#busy || this.#closed) return;
    this.#cancelRetry?.();
    this.#cancelRetry = undefined;
    this.#busy = true;
    // What is noted in the same step goes in the same batch.
    queueMicrotask(() => void this.#write());
  }

  async #write(): Promise<void> {
    const done = (this.#writing = this.#next ?? silent());
    this.#next = undefined;
    const batch = this.#dirty;
    this.#dirty = new Map();
    try {
      await this.#ask('batch', () => this.#deck.store.batch([...batch].map(toOp)));
      this.#failures = 0;
      done.resolve();
    } catch (error) {
      // Whether it was written is unknown (G-8); what has changed since comes after.
      this.#dirty = new Map([...batch, ...this.#dirty]);
      this.#failed(error);
      done.reject(error);
    }
    this.#busy = false;
    this.#writing = undefined;
    if (this.#dirty.size === 0) return;
    if (this.#failures === 0 || this.#awaited) this.#start();
    else this.#retryLater();
  }

  #failed(error: unknown): void {
    this.#failures += 1;
    if (this.#failures === 1 && !this.#closed) this.#deck.warn(this.keys.prefix, 'store-failed', messageOf(error));
  }

  #retryLater(): void {
    if (this.#closed) return;
    const { clock } = this.#deck;
    const again = (): void => this.#start();
    this.#cancelRetry = clock.timer(backoff(RETRY, this.#failures, clock), again, { keepAlive: false });
  }

  async #ask<T>(operation: 'list' | 'batch', question: () => Promise<T>): Promise<T> {
    try {
      return await question();
    } catch (cause) {
      if (isHandoverError(cause, 'ERR_STORE_CORRUPT')) throw cause;
      const message = `The state store failed (${operation}): ${messageOf(cause)}. See to the store and try again; nothing was deleted`;
      throw new HandoverError('ERR_DRIVER', message, {
        details: { driver: 'store', operation },
        cause,
        retryable: true,
      });
    }
  }
}

function toOp([key, value]: readonly [string, Value]): StoreOp {
  const now = value();
  return now === undefined ? { del: key } : { put: key, value: now };
}

/** Its rejection is nobody's fault when nobody waits. */
function silent(): Deferred<void> {
  const one = deferred();
  one.promise.catch(() => undefined);
  return one;
}
