import { type Clock, Deadline } from '../clock.js';
import { backoff, type BackoffOptions } from '../internal/backoff.js';
import { sleep } from '../internal/signals.js';
import type { Containers } from './driver-containers.js';
import { ownedBy, uniqueName } from './driver-labels.js';

/** How long a create that nobody answered for may still land: an engine that hangs works off what it was asked. */
const BOUND_MS = 15 * 60_000;
const LOOK_AGAIN: BackoffOptions = { first: 1_000, max: 30_000, jitter: 'none' };

interface Watch {
  readonly controller: AbortController;
  /** Whether the name was seen. */
  readonly seen: Promise<boolean>;
}

/** Creates that were given up without an answer: what still lands is removed (DP-1). By unique name. */
export class LateCreates {
  readonly #watched = new Map<string, Watch>();

  /** @param warn - is told of each create that is watched for */
  constructor(
    private readonly containers: Containers,
    private readonly clock: Clock,
    private readonly warn: (owner: string, name: string) => void,
  ) {}

  /** Looks now, and if nothing is there yet, from time to time in the background; never fails. */
  async settle(name: string, owner: string): Promise<void> {
    if (this.#watched.has(name) || (await this.#clear(name))) return;
    this.warn(owner, name);
    const controller = new AbortController();
    this.#watched.set(name, { controller, seen: this.#watch(name, controller.signal) });
  }

  /**
   * Ends the watch, for somebody who now prepares under this very name: whatever lands is that one's.
   *
   * @returns whether a create is still out
   */
  async take(name: string): Promise<boolean> {
    const watch = this.#watched.get(name);
    if (watch === undefined) return false;
    this.#watched.delete(name);
    watch.controller.abort();
    // A removal on its way must not meet the next container of the name.
    return !(await watch.seen);
  }

  async #watch(name: string, signal: AbortSignal): Promise<boolean> {
    const deadline = new Deadline(this.clock, BOUND_MS);
    let seen = false;
    for (let looks = 1; !seen && !deadline.expired; looks++) {
      await sleep(this.clock, backoff(LOOK_AGAIN, looks, this.clock), { signal, keepAlive: false }).catch(
        () => undefined,
      );
      if (signal.aborted) return false;
      seen = await this.#clear(name);
    }
    if (!signal.aborted) this.#watched.delete(name);
    return seen;
  }

  /** @returns whether somebody has the name, so that a create of it can land no more; `false` too when nobody can tell */
  async #clear(name: string): Promise<boolean> {
    try {
      const holder = await this.containers.inspect(name, {});
      if (holder === undefined) return false;
      const owned = ownedBy(holder.labels);
      const ours = owned !== undefined && uniqueName(owned) === name && !holder.running;
      if (ours) await this.containers.remove(holder.id, false, {});
      return true;
    } catch {
      return false;
    }
  }
}
