import type { Clock } from '../clock.js';
import { abortable, sleep } from './signals.js';

/** How long an undo is waited for before whoever called it off is told anyway; it goes on by itself. */
const UNDO_BOUND_MS = 60_000;

/**
 * One piece of work that several callers wait for. Each may leave by its own signal without harm to the others; the
 * last one to leave calls the work off, and is told only after its undo (G-4).
 */
export class SharedWork<T> {
  readonly #controller = new AbortController();
  readonly #result: Promise<T>;
  #callers = 0;

  /**
   * @param work - undoes what it did before it rejects, when its signal aborts
   */
  constructor(
    private readonly clock: Clock,
    work: (signal: AbortSignal) => Promise<T>,
  ) {
    this.#result = work(this.#controller.signal);
    this.#result.catch(() => undefined);
  }

  /** @throws what the work throws, or the signal's reason */
  async join(signal: AbortSignal | undefined): Promise<T> {
    signal?.throwIfAborted();
    this.#callers++;
    try {
      return await abortable(this.#result, signal);
    } catch (error) {
      if (this.#callers === 1 && signal?.aborted === true) await this.abort(signal.reason);
      throw error;
    } finally {
      this.#callers--;
    }
  }

  /** Calls the work off for everybody and waits for its undo, within bounds. */
  async abort(reason: unknown): Promise<void> {
    this.#controller.abort(reason);
    const settled = new AbortController();
    const end = (): void => settled.abort();
    this.#result.then(end, end);
    await sleep(this.clock, UNDO_BOUND_MS, { signal: settled.signal }).catch(() => undefined);
  }
}
