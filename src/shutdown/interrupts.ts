import type { Clock } from '../clock.js';
import { deferred } from '../internal/deferred.js';

/** What can end a wait of a stop before its time. All but `escalate` stay true until taken back. */
export type Cut = 'exit' | 'cancel' | 'detach' | 'kill' | 'skipDelay' | 'escalate';

/** How a wait ended: its work was done or failed, time was up, or it was cut short. */
export type Ending<T = unknown> =
  | { readonly by: 'done'; readonly value: T }
  | { readonly by: 'failed'; readonly error: unknown }
  | { readonly by: 'late' | Cut };

/** Asynchronous work that can be called off. */
export type Work<T> = (signal: AbortSignal) => Promise<T>;

/**
 * The waits of a stop: one at a time, each with its bound and with what may cut it short. Cuts are levels, not
 * pulses, so one that comes between two waits is not lost.
 */
export class Interrupts {
  readonly #raised = new Set<Cut>();
  #onCut: (cut: Cut) => void = () => undefined;

  constructor(private readonly clock: Clock) {}

  has(cut: Cut): boolean {
    return this.#raised.has(cut);
  }

  raise(cut: Cut): void {
    this.#raised.add(cut);
    this.#onCut(cut);
  }

  takeBack(cut: Cut): void {
    this.#raised.delete(cut);
  }

  /**
   * Waits until `work` is done, at most `ms`, and no longer than until one of `ends`. Never rejects.
   *
   * @param ends - strongest first; one that is already raised ends it before `work` begins
   * @param work - without it, only time and cuts end the wait. Its signal aborts when the wait ends before it
   */
  async span<T>(ends: readonly Cut[], ms: number, work?: Work<T>): Promise<Ending<T>> {
    const already = ends.find((cut) => this.#raised.has(cut));
    if (already !== undefined) return { by: already };
    const end = deferred<Ending<T>>();
    const controller = new AbortController();
    const cancelTimer = this.clock.timer(ms, () => end.resolve({ by: 'late' }));
    this.#onCut = (cut) => {
      if (ends.includes(cut)) end.resolve({ by: cut });
    };
    if (work !== undefined) {
      settle(work, controller.signal).then(
        (value) => end.resolve({ by: 'done', value }),
        (error: unknown) => end.resolve({ by: 'failed', error }),
      );
    }
    const ending = await end.promise;
    cancelTimer();
    this.#onCut = () => undefined;
    if (ending.by !== 'done' && ending.by !== 'failed') controller.abort();
    return ending;
  }
}

/** A port that throws at once fails like one that rejects. */
async function settle<T>(work: Work<T>, signal: AbortSignal): Promise<T> {
  return work(signal);
}
