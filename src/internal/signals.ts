import type { Clock } from '../clock.js';
import { deferred } from './deferred.js';

/**
 * All that wait on one signal, behind one listener of it: Node warns of a leak when a signal has more than ten, and a
 * caller may well give one signal to hundreds of calls.
 */
class Watched {
  static readonly #all = new WeakMap<AbortSignal, Watched>();
  readonly #listeners = new Set<(reason: unknown) => void>();

  static of(signal: AbortSignal): Watched {
    return Watched.#all.get(signal) ?? new Watched(signal);
  }

  private constructor(private readonly signal: AbortSignal) {
    Watched.#all.set(signal, this);
    signal.addEventListener('abort', this.#fire, { once: true });
  }

  add(listener: (reason: unknown) => void): () => void {
    const own = (reason: unknown): void => listener(reason);
    this.#listeners.add(own);
    return () => {
      if (this.#listeners.delete(own) && this.#listeners.size === 0) this.#end();
    };
  }

  readonly #fire = (): void => {
    this.#end();
    for (const listener of this.#listeners) listener(this.signal.reason);
  };

  #end(): void {
    Watched.#all.delete(this.signal);
    this.signal.removeEventListener('abort', this.#fire);
  }
}

/**
 * Runs `listener` once when the signal aborts, at once if it already has.
 *
 * @returns takes the listener off again; call it when whatever waited has settled (G-4)
 */
export function onAbort(signal: AbortSignal | undefined, listener: (reason: unknown) => void): () => void {
  if (signal === undefined) return () => undefined;
  if (signal.aborted) {
    listener(signal.reason);
    return () => undefined;
  }
  return Watched.of(signal).add(listener);
}

/** A signal of our own that also follows others. */
export interface LinkedSignal {
  readonly signal: AbortSignal;
  abort(reason: unknown): void;
  /** Lets go of the signals it follows; in `finally`, always. */
  dispose(): void;
}

/**
 * A signal that aborts with whichever of `parents` aborts first, or by its own `abort()`.
 * `AbortSignal.any` would do the same but keeps memory on a long-lived parent in Node 20.
 */
export function linkSignals(...parents: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const controller = new AbortController();
  const disposers = parents.map((parent) => onAbort(parent, (reason) => controller.abort(reason)));
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    dispose: () => disposers.forEach((dispose) => dispose()),
  };
}

/**
 * Settles like `promise`, or rejects with the signal's reason if it aborts first. The promise's own later rejection
 * is not left unhandled.
 */
export async function abortable<T>(promise: PromiseLike<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  const aborted = deferred<never>();
  const dispose = onAbort(signal, aborted.reject);
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    dispose();
  }
}

/**
 * Runs `work` under a deadline of its own (G-8).
 *
 * @param ms - milliseconds; `Infinity` = no deadline
 * @param late - makes the error with which the work is aborted, and the call rejects, when time is up
 * @param work - gets a signal that follows `parent` and the deadline; one that ignores it cannot hold up the call
 */
export async function withDeadline<T>(
  clock: Clock,
  ms: number,
  parent: AbortSignal | undefined,
  late: () => Error,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const link = linkSignals(parent);
  const cancel = clock.timer(ms, () => link.abort(late()));
  try {
    link.signal.throwIfAborted();
    return await abortable(work(link.signal), link.signal);
  } finally {
    cancel();
    link.dispose();
  }
}

/**
 * Waits `ms` milliseconds.
 *
 * @throws the signal's reason, as soon as it aborts
 */
export async function sleep(
  clock: Clock,
  ms: number,
  o: { readonly signal?: AbortSignal | undefined; readonly keepAlive?: boolean } = {},
): Promise<void> {
  o.signal?.throwIfAborted();
  const done = deferred();
  const cancel = clock.timer(ms, () => done.resolve(), { keepAlive: o.keepAlive ?? true });
  try {
    await abortable(done.promise, o.signal);
  } finally {
    cancel();
  }
}
