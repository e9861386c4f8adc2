import { deferred } from '../internal/deferred.js';
import { KeyedLock } from '../internal/keyed-lock.js';
import { abortable } from '../internal/signals.js';
import type { Artifact } from './types.js';

/** What a look found. */
export interface Sight<A extends Artifact> {
  readonly artifact: A;
  /** `false`: it is there, but not for the platform that was asked for. */
  readonly fits: boolean;
}

/**
 * Looks and removals of content, kept apart (IC-16): what was found is acted on while no removal of it can run, and
 * is looked for again if one ran in between.
 */
export class Looks<A extends Artifact> {
  readonly #locks = new KeyedLock();
  /** Looks in progress, shared by all who ask for the same. */
  readonly #looks = new Map<string, Promise<Sight<A> | undefined>>();
  /** Names that are being taken away → the end of it. */
  readonly #untagging = new Map<string, Promise<void>>();
  /** Of each `settle` in progress: the ids and names that were removed since it looked. */
  readonly #watches = new Set<Set<string>>();

  /** Joins the look in progress under `key`, or starts one. */
  shared(key: string, look: () => Promise<Sight<A> | undefined>): Promise<Sight<A> | undefined> {
    let running = this.#looks.get(key);
    if (running === undefined) {
      running = look();
      this.#looks.set(key, running);
      const end = (): void => {
        if (this.#looks.get(key) === running) this.#looks.delete(key);
      };
      running.then(end, end);
    }
    return running;
  }

  /** The removal of a name that is under way, if any. */
  untagging(name: string): Promise<void> | undefined {
    return this.#untagging.get(name);
  }

  /**
   * Looks, then acts on what was found, under the lock of its id.
   *
   * @param name - what is looked for
   * @param act - synchronous: nobody can come in between
   * @returns what `act` returned; `undefined` when nothing was found
   */
  async settle<T>(
    name: string,
    look: () => Promise<Sight<A> | undefined>,
    act: (seen: Sight<A>) => T,
    signal?: AbortSignal,
  ): Promise<T | undefined> {
    const removed = new Set<string>();
    this.#watches.add(removed);
    try {
      for (;;) {
        const seen = await abortable(look(), signal);
        if (seen === undefined) return undefined;
        const { id } = seen.artifact;
        const outdated = (): boolean => removed.has(id) || removed.has(name) || this.#untagging.has(name);
        const work = async (): Promise<{ value: T } | undefined> => (outdated() ? undefined : { value: act(seen) });
        const acted = await this.#locks.run(id, work, signal);
        if (acted !== undefined) return acted.value;
        await abortable(this.#untagging.get(name) ?? Promise.resolve(), signal);
        removed.clear();
      }
    } finally {
      this.#watches.delete(removed);
    }
  }

  /** Runs a removal of the content `id`; whoever found it before the end has to look again. */
  async removal<T>(id: string, work: () => Promise<T>): Promise<T> {
    return this.#locks.run(id, async () => {
      try {
        return await work();
      } finally {
        this.#outdate(id);
      }
    });
  }

  /**
   * Takes a name away. Somebody else may move it meanwhile: then this takes it from other content than was meant, so
   * whoever found anything by it before the end has to look again, too.
   */
  async untag<T>(name: string, work: () => Promise<T>): Promise<T> {
    const done = deferred();
    this.#untagging.set(name, done.promise);
    try {
      return await work();
    } finally {
      this.#untagging.delete(name);
      this.#outdate(name);
      done.resolve();
    }
  }

  #outdate(idOrName: string): void {
    this.#looks.clear();
    for (const removed of this.#watches) removed.add(idOrName);
  }
}
