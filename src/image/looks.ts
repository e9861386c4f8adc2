import { deferred } from '../internal/deferred.js';
import { KeyedLock } from '../internal/keyed-lock.js';
import { abortable, onAbort } from '../internal/signals.js';
import type { Artifact } from './types.js';

/** What a look found. */
export interface Sight<A extends Artifact> {
  readonly artifact: A;
  /** `false`: it is there, but not for the platform that was asked for. */
  readonly fits: boolean;
}

/** One of those who share a look. */
interface Member<A extends Artifact> {
  /** @param seen - `undefined`: it is not there */
  readonly saw: (seen: Sight<A> | undefined) => void;
  readonly failed: (error: unknown) => void;
}

/**
 * Looks and removals of content, kept apart (IC-16): what was found is acted on while no removal of it can run, and
 * is looked for again if one ran in between.
 */
export class Looks<A extends Artifact> {
  readonly #locks = new KeyedLock();
  /** Looks in progress → all who ask for the same. */
  readonly #crowds = new Map<string, Set<Member<A>>>();
  /** Names that are being taken away → the end of it. */
  readonly #untagging = new Map<string, Promise<void>>();
  /** Of each `settle` in progress: the ids and names that were removed since it looked. */
  readonly #watches = new Set<Set<string>>();

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

  /**
   * As {@link Looks.settle}, for many: whoever asks under the same `key` while a look is in progress shares it, and what
   * was found is acted on for all of them at once.
   */
  together<T>(
    key: string,
    name: string,
    look: () => Promise<Sight<A> | undefined>,
    act: (seen: Sight<A>) => T,
    signal?: AbortSignal,
  ): Promise<T | undefined> {
    const crowd = this.#crowds.get(key) ?? this.#gather(key, name, look);
    const { promise, resolve, reject } = deferred<T | undefined>();
    const member: Member<A> = { saw: (seen) => resolve(seen && act(seen)), failed: reject };
    crowd.add(member);
    if (signal === undefined) return promise;
    const leave = (reason: unknown): void => {
      // Nothing is taken for who has left.
      crowd.delete(member);
      reject(reason);
    };
    return promise.finally(onAbort(signal, leave));
  }

  #gather(key: string, name: string, look: () => Promise<Sight<A> | undefined>): Set<Member<A>> {
    const crowd = new Set<Member<A>>();
    this.#crowds.set(key, crowd);
    // What a look has found is older than whoever comes after it.
    const close = (): void => {
      if (this.#crowds.get(key) === crowd) this.#crowds.delete(key);
    };
    const tell = (seen: Sight<A> | undefined): void => {
      for (const member of crowd) {
        try {
          member.saw(seen);
        } catch (error) {
          member.failed(error);
        }
      }
      crowd.clear();
    };
    this.settle(name, () => look().finally(close), tell).then(
      () => tell(undefined),
      (error: unknown) => {
        for (const { failed } of crowd) failed(error);
      },
    );
    return crowd;
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
    this.#crowds.clear();
    for (const removed of this.#watches) removed.add(idOrName);
  }
}
