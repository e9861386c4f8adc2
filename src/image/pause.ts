import type { Clock } from '../clock.js';
import { deferred } from '../internal/deferred.js';
import { abortable, linkSignals, sleep } from '../internal/signals.js';

/** The wait of a flight before its next attempt. */
export class Pause {
  readonly #over = deferred();

  /** It has lasted long enough. */
  end(): void {
    this.#over.resolve();
  }

  /** Waits so many milliseconds, or until its end. */
  async last(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
    const link = linkSignals(signal);
    try {
      await Promise.race([sleep(clock, ms, { signal: link.signal }), this.#over.promise]);
      signal.throwIfAborted();
    } finally {
      link.abort(undefined);
      link.dispose();
    }
  }

  /** Waits for work, however it ends, or until its end. */
  async until(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
    const settled = work.catch(() => undefined);
    await abortable(Promise.race([settled, this.#over.promise]), signal);
  }
}
