import { type Deferred, deferred } from './deferred.js';
import { abortable } from './signals.js';

/**
 * One piece of work that several callers wait for. It begins with the first of them. Each may leave by its own signal
 * without harm to the others; the last one to leave calls the work off, and is told only after its undo (G-4).
 */
export class SharedWork<T> {
  readonly #controller = new AbortController();
  readonly #done: Deferred<T> = deferred();
  #begun = false;
  /** The signals of those who wait. */
  readonly #callers = new Set<{ readonly signal: AbortSignal | undefined }>();

  /**
   * @param work - when its signal aborts: undoes what it did, within a bound of its own, and then rejects
   */
  constructor(private readonly work: (signal: AbortSignal) => Promise<T>) {
    this.#done.promise.catch(() => undefined);
  }

  /** @throws what the work throws, or the signal's reason */
  async join(signal: AbortSignal | undefined): Promise<T> {
    signal?.throwIfAborted();
    const caller = { signal };
    this.#callers.add(caller);
    this.#begin();
    try {
      return await abortable(this.#done.promise, signal);
    } catch (error) {
      // Several may leave by one signal: none of them is told before the undo.
      const alone = [...this.#callers].every((one) => one.signal?.aborted === true);
      if (alone && signal?.aborted === true) await this.abort(signal.reason);
      throw error;
    } finally {
      this.#callers.delete(caller);
    }
  }

  /** Calls the work off for everybody, and waits until it has ended. */
  async abort(reason: unknown): Promise<void> {
    this.#controller.abort(reason);
    await this.settled();
  }

  /** Waits until the work has ended, however that was. */
  async settled(): Promise<void> {
    if (this.#begun) await this.#done.promise.catch(() => undefined);
  }

  /** `#begun` comes first: what the work tells while it begins may bring in the next caller. */
  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.work(this.#controller.signal).then(this.#done.resolve, this.#done.reject);
  }
}
