import { type Deferred, deferred } from '../internal/deferred.js';
import type { Request } from './request.js';
import type { Artifact, ImageLease, Progress } from './types.js';

/** A request that waits in a flight. */
export interface Waiter<A extends Artifact> {
  readonly request: Request;
  readonly lease: Deferred<ImageLease<A>>;
}

/** Those who wait for one flight. */
export class Waiters<A extends Artifact> {
  readonly #all = new Set<Waiter<A>>();
  readonly #listenerThrew: (owner: string, error: unknown) => void;
  /** Made when it is asked for: there may be thousands, told of many events. */
  #owners: readonly string[] | undefined;

  /** @param listenerThrew - told when an `onProgress` throws, which is nobody else's trouble */
  constructor(listenerThrew: (owner: string, error: unknown) => void) {
    this.#listenerThrew = listenerThrew;
  }

  get size(): number {
    return this.#all.size;
  }

  /** Each owner once. */
  get owners(): readonly string[] {
    this.#owners ??= [...new Set(Array.from(this.#all, ({ request }) => request.owner))];
    return this.#owners;
  }

  add(request: Request): Waiter<A> {
    const waiter = { request, lease: deferred<ImageLease<A>>() };
    this.#all.add(waiter);
    this.#owners = undefined;
    return waiter;
  }

  /** @returns `false`: it did not wait here any more */
  reject(waiter: Waiter<A>, reason: unknown): boolean {
    const waited = this.#all.delete(waiter);
    this.#owners = undefined;
    if (waited) waiter.lease.reject(reason);
    return waited;
  }

  every(condition: (request: Request) => boolean): boolean {
    for (const { request } of this.#all) if (!condition(request)) return false;
    return true;
  }

  /** Nobody waits any more; whoever did is the caller's to answer. */
  takeAll(): readonly Waiter<A>[] {
    const waiters = [...this.#all];
    this.#all.clear();
    this.#owners = undefined;
    return waiters;
  }

  tellAll(progress: Progress): void {
    for (const waiter of this.#all) this.tell(waiter, progress);
  }

  tell({ request }: Waiter<A>, progress: Progress): void {
    try {
      request.onProgress?.(progress);
    } catch (error) {
      this.#listenerThrew(request.owner, error);
    }
  }
}
