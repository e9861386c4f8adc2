import type { Call } from '../call.js';
import { deferred } from '../internal/deferred.js';
import { abortable } from '../internal/signals.js';
import type { Registrar, ServiceInstance } from '../shutdown/types.js';

/** A service registry in memory that records its calls, and fails or hangs when told to. */
export class FakeRegistrar implements Required<Registrar> {
  readonly #registered = new Map<string, ServiceInstance>();
  readonly #calls: string[] = [];
  /** What happens to the next registrations and deregistrations, instead of going well. */
  readonly #next: ('hang' | Error)[] = [];

  /** What is registered now, by instance id. */
  get registered(): ReadonlyMap<string, ServiceInstance> {
    return new Map(this.#registered);
  }

  /** Every registration and deregistration that was asked for, in order: `register web-1`, `deregister web-1`. */
  get calls(): readonly string[] {
    return [...this.#calls];
  }

  /**
   * The next `n` registrations and deregistrations are rejected and change nothing; after those that were ordered
   * before.
   *
   * @param error - default: an Error that says that the registry does not answer
   */
  failNext(n: number, error: Error = new Error('the registry does not answer')): void {
    this.#next.push(...Array.from({ length: n }, () => error));
  }

  /** The next `n` registrations and deregistrations settle only when they are aborted, and change nothing. */
  hangNext(n: number): void {
    this.#next.push(...Array.from({ length: n }, () => 'hang' as const));
  }

  async register(instance: ServiceInstance, call: Call): Promise<void> {
    await this.#answer(`register ${instance.id}`, call);
    this.#registered.set(instance.id, instance);
  }

  async deregister(instance: ServiceInstance, call: Call): Promise<void> {
    await this.#answer(`deregister ${instance.id}`, call);
    this.#registered.delete(instance.id);
  }

  /** Whether the instance is registered. */
  async confirms(instance: ServiceInstance, call: Call): Promise<boolean> {
    call.signal?.throwIfAborted();
    return this.#registered.has(instance.id);
  }

  async #answer(asked: string, { signal }: Call): Promise<void> {
    signal?.throwIfAborted();
    this.#calls.push(asked);
    const next = this.#next.shift();
    if (next === 'hang') await abortable(deferred().promise, signal);
    else if (next !== undefined) throw next;
  }
}
