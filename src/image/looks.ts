import { KeyedLock } from '../internal/keyed-lock.js';
import { abortable } from '../internal/signals.js';
import type { Artifact } from './types.js';

/**
 * Looks and removals of content, kept apart (IC-16): what was found is acted on while no removal of it can run, and
 * is looked for again if one ran in between.
 */
export class Looks<A extends Artifact> {
  readonly #locks = new KeyedLock();
  /** Looks in progress, shared by all who ask for the same. */
  readonly #looks = new Map<string, Promise<A | undefined>>();
  /** Of each `settle` in progress: the ids that were removed since it looked. */
  readonly #watches = new Set<Set<string>>();

  /** Locks held or waited for, looks and watches in progress; 0 when nothing is going on. */
  get size(): number {
    return this.#locks.size + this.#looks.size + this.#watches.size;
  }

  /** Joins the look in progress under `key`, or starts one. */
  shared(key: string, look: () => Promise<A | undefined>): Promise<A | undefined> {
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

  /**
   * Looks, then acts on what was found, under the lock of its id.
   *
   * @param act - synchronous: nobody can come in between
   * @returns what `act` returned; `undefined` when nothing was found
   */
  async settle<T>(
    look: () => Promise<A | undefined>,
    act: (artifact: A) => T,
    signal?: AbortSignal,
  ): Promise<T | undefined> {
    const removed = new Set<string>();
    this.#watches.add(removed);
    try {
      for (;;) {
        const artifact = await abortable(look(), signal);
        if (artifact === undefined) return undefined;
        const work = async (): Promise<{ value: T } | undefined> =>
          removed.has(artifact.id) ? undefined : { value: act(artifact) };
        const acted = await this.#locks.run(artifact.id, work, signal);
        if (acted !== undefined) return acted.value;
        removed.clear();
      }
    } finally {
      this.#watches.delete(removed);
    }
  }

  /** Runs a removal of `id`; whoever found it before the end has to look again. */
  async removal(id: string, work: () => Promise<void>): Promise<void> {
    await this.#locks.run(id, async () => {
      try {
        await work();
      } finally {
        this.#looks.clear();
        for (const removed of this.#watches) removed.add(id);
      }
    });
  }
}
