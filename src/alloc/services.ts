import type { Ground } from '../env.js';
import type { Registrar, ServiceInstance } from '../shutdown/types.js';
import { type Registrations, registrationsOf } from '../shutdown/registrations.js';
import type { Endpoint } from './checks.js';
import type { ServiceOptions } from './options.js';

/**
 * The registrations of one alloc. Everything the alloc registers or takes off goes through `registrar`, so that what
 * the registry has acknowledged can be read at any time.
 */
export class AllocServices {
  /** The embedder's registrar, observed; give it to whatever registers or takes off for this alloc. */
  readonly registrar: Registrar | undefined;
  readonly #acknowledged = new Map<string, ServiceInstance>();
  /** What may stand in the registry, and its removal not acknowledged. */
  readonly #standing = new Map<string, ServiceInstance>();
  /** Those of them that this process has asked for. */
  readonly #asked = new Set<string>();
  /** What the registry said to the latest registration that it did not take. */
  #refusal: unknown;
  #instances: readonly (ServiceInstance & { readonly registerWhen: 'started' | 'healthy' })[] = [];

  /**
   * @param changed - told after each acknowledgement
   * @param refused - told after each registration that the registry did not take
   */
  constructor(
    private readonly allocId: string,
    private readonly options: readonly ServiceOptions[],
    private readonly ground: Ground,
    private readonly changed: () => void,
    private readonly refused: () => void,
  ) {
    this.registrar = ground.registrar && this.#observe(ground.registrar);
  }

  /** What the registry has acknowledged as registered. */
  get registered(): readonly ServiceInstance[] {
    return [...this.#acknowledged.values()];
  }

  /** Whatever may stand in the registry, acknowledged or not: what a stop has to take off. */
  get standing(): readonly ServiceInstance[] {
    return [...this.#standing.values()];
  }

  /** Whether all that has to be registered is. */
  get complete(): boolean {
    return this.registrar === undefined || this.#acknowledged.size === this.options.length;
  }

  /** What the registry was asked to register and has not acknowledged, and what it said; `undefined`: nothing. */
  get missing(): { readonly ids: readonly string[]; readonly error: unknown } | undefined {
    const ids = [...this.#asked].filter((id) => !this.#acknowledged.has(id));
    return ids.length === 0 ? undefined : { ids, error: this.#refusal };
  }

  /** Whether the registry has acknowledged all that it was asked to register. */
  get agreed(): boolean {
    return this.missing === undefined;
  }

  /** How many instances there will be: what a stop's budget is reckoned by before the addresses are known. */
  get expected(): readonly ServiceInstance[] {
    return this.registrar === undefined ? [] : this.options.map((one) => this.#instance(one, { address: '', port: 0 }));
  }

  /**
   * The task runs: its addresses are known now.
   *
   * @returns the services whose port the task does not have
   */
  locate(endpoint: (port: string) => Endpoint | undefined): readonly ServiceOptions[] {
    if (this.registrar === undefined) return [];
    this.#instances = this.options.flatMap((one) => {
      const at = endpoint(one.port);
      return at === undefined ? [] : [{ ...this.#instance(one, at), registerWhen: one.registerWhen }];
    });
    return this.options.filter(({ port }) => endpoint(port) === undefined);
  }

  /** An earlier process may have registered everything. */
  assumeStanding(): void {
    for (const { registerWhen: _, ...instance } of this.#instances) this.#standing.set(instance.id, instance);
  }

  /**
   * Registers what is due and was not asked for yet. What the registry does not acknowledge is tried on in the
   * background.
   *
   * @param moment - `healthy` registers everything
   */
  async register(moment: 'started' | 'healthy', signal: AbortSignal): Promise<void> {
    const due = this.#instances.filter(
      ({ id, registerWhen }) => !this.#asked.has(id) && (moment === 'healthy' || registerWhen === 'started'),
    );
    const instances = due.map(({ registerWhen: _, ...instance }) => instance);
    for (const instance of instances) this.#ask(instance);
    const registrations = this.#registrations;
    await Promise.all(instances.map(async (one) => registrations?.register(one, { signal })));
  }

  /**
   * Takes off whatever may stand in the registry: the task has ended.
   *
   * @param timeout - how long to wait for the acknowledgement, ms; it is tried on after that
   */
  async deregister(timeout: number, signal: AbortSignal): Promise<void> {
    const registrations = this.#registrations;
    await Promise.all(this.standing.map(async (one) => registrations?.deregister(one, { signal, timeout })));
  }

  get #registrations(): Registrations | undefined {
    return this.registrar && registrationsOf(this.registrar, this.ground);
  }

  /** The instance's id contains the alloc's, so that a late deregistration never hits the successor (SS-3). */
  #instance({ service, task, port, meta }: ServiceOptions, { address, port: number }: Endpoint): ServiceInstance {
    const id = `${service}-${this.allocId}-${task}-${port}`;
    return { id, service, address, port: number, ...(meta === undefined ? {} : { meta }) };
  }

  #ask(instance: ServiceInstance): void {
    this.#asked.add(instance.id);
    this.#standing.set(instance.id, instance);
  }

  #observe(inner: Registrar): Registrar {
    return {
      register: async (instance, call) => {
        this.#ask(instance);
        try {
          await inner.register(instance, call);
        } catch (error) {
          this.#refusal = error;
          this.refused();
          throw error;
        }
        this.#refusal = undefined;
        this.#acknowledged.set(instance.id, instance);
        this.changed();
      },
      deregister: async (instance, call) => {
        await inner.deregister(instance, call);
        this.#asked.delete(instance.id);
        this.#standing.delete(instance.id);
        if (this.#acknowledged.delete(instance.id)) this.changed();
      },
      ...(inner.confirms && { confirms: inner.confirms.bind(inner) }),
    };
  }
}
