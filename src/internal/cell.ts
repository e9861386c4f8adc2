import { deferred } from './deferred.js';
import { onAbort } from './signals.js';

/**
 * A value that can be watched: always the current one first, then changes. Nobody who reads it can miss a wake-up,
 * since looking and subscribing are one synchronous step (AL-12).
 */
export class Cell<T> {
  #value: T;
  readonly #listeners = new Set<(value: T) => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  /** How many watch it now, or wait for a value. */
  get watchers(): number {
    return this.#listeners.size;
  }

  set(value: T): void {
    this.#value = value;
    for (const listener of [...this.#listeners]) listener(value);
  }

  /** Tells every later value, synchronously. Returns the end of the subscription. */
  #subscribe(listener: (value: T) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * The first value, from the current one on, that `pick` answers with something. Short-lived values count too.
   *
   * @throws what `pick` throws, or the signal's reason when it aborts first
   */
  async until<R>(pick: (value: T) => R | undefined, signal?: AbortSignal): Promise<R> {
    signal?.throwIfAborted();
    const now = pick(this.#value);
    if (now !== undefined) return now;
    const found = deferred<R>();
    const end = this.#subscribe((value) => {
      try {
        const answer = pick(value);
        if (answer !== undefined) found.resolve(answer);
      } catch (error) {
        found.reject(error);
      }
    });
    const dispose = onAbort(signal, found.reject);
    try {
      return await found.promise;
    } finally {
      end();
      dispose();
    }
  }

  /** The current value, then the latest one whenever it has changed; values in between may be skipped. */
  async *watch(signal?: AbortSignal): AsyncGenerator<T, void, undefined> {
    let changed = deferred();
    const end = this.#subscribe(() => changed.resolve());
    const dispose = onAbort(signal, (reason) => changed.reject(reason));
    changed.promise.catch(() => undefined);
    try {
      for (;;) {
        signal?.throwIfAborted();
        yield this.#value;
        await changed.promise;
        changed = deferred();
        changed.promise.catch(() => undefined);
      }
    } finally {
      end();
      dispose();
    }
  }
}
