import { deferred } from './deferred.js';
import { abortable } from './signals.js';

/**
 * One holder at a time for each key, first come first served. A key that nobody holds or waits for takes no memory.
 */
export class KeyedLock {
  /** Key → end of its line: settles when the last in line is done. */
  readonly #tails = new Map<string, Promise<void>>();

  /** How many keys are held or waited for. */
  get size(): number {
    return this.#tails.size;
  }

  /**
   * Runs `work` while holding `key`.
   *
   * @param signal - leaves the line without running `work`; once `work` runs it is not interrupted
   * @throws what `work` throws, or the signal's reason
   */
  async run<T>(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    const before = this.#tails.get(key) ?? Promise.resolve();
    const done = deferred();
    // Whoever comes next waits for those before us too: leaving the line early must not let them in.
    const tail = before.then(() => done.promise);
    this.#tails.set(key, tail);
    void tail.then(() => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    });
    try {
      await abortable(before, signal);
      return await work();
    } finally {
      done.resolve();
    }
  }
}
