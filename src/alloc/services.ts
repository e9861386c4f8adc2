import type { Ground } from '../env.js';
import type { Registrar, ServiceInstance } from '../shutdown/types.js';
import { registrationsOf } from '../shutdown/registrations.js';
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
  #instances: readonly (ServiceInstance & { readonly registerWhen: 'started' | 'healthy' })[] = [];
  /** What the registry was ever asked to register. */
  readonly #asked = new Map<string, ServiceInstance>();

  /**
   * @param changed - told after each acknowledgement
   */
  constructor(
    private readonly allocId: string,
    private readonly options: readonly ServiceOptions[],
    private readonly ground: Ground,
    private readonly changed: () => void,
  ) {
    this.registrar = ground.registrar && this.#observe(ground.registrar);
  }

  /** What the registry has acknowledged as registered. */
  get registered(): readonly ServiceInstance[] {
    return [...this.#acknowledged.values()];
  }

  /** Whatever may stand in the registry, acknowledged or not: what a stop has to take off. */
  get asked(): readonly ServiceInstance[] {
    return [...this.#asked.values()];
  }

  /** Whether all that has to be registered is. */
  get complete(): boolean {
    return this.registrar === undefined || this.#acknowledged.size === this.options.length;
  }

  /** How many instances there will be: what a stop's budget is reckoned by before the addresses are known. */
  get expected(): readonly ServiceInstance[] {
    return this.registrar === undefined ? [] : this.options.map((one) => this.#instance(one, { address: '', port: 0 }));
  }

  /** The task runs: its addresses are known now. A service whose port the task does not have is left out, and told. */
  locate(endpoint: (port: string) => Endpoint | undefined, missing: (service: ServiceOptions) => void): void {
    if (this.registrar === undefined) return;
    this.#instances = this.options.flatMap((one) => {
      const at = endpoint(one.port);
      if (at === undefined) missing(one);
      return at === undefined ? [] : [{ ...this.#instance(one, at), registerWhen: one.registerWhen }];
    });
  }

  /**
   * Registers what is due. What the registry does not acknowledge is tried on in the background.
   *
   * @param moment - `healthy` registers everything
   */
  async register(moment: 'started' | 'healthy', signal: AbortSignal): Promise<void> {
    const { registrar } = this;
    if (registrar === undefined) return;
    const due = this.#instances
      .filter(({ registerWhen }) => moment === 'healthy' || registerWhen === 'started')
      .map(({ registerWhen: _, ...instance }) => instance);
    for (const instance of due) this.#asked.set(instance.id, instance);
    const registrations = registrationsOf(registrar, this.ground);
    await Promise.all(due.map((instance) => registrations.register(instance, { signal })));
  }

  /** Takes everything off: the task ended by itself. */
  async deregister(signal: AbortSignal): Promise<void> {
    const { registrar } = this;
    if (registrar === undefined) return;
    const registrations = registrationsOf(registrar, this.ground);
    await Promise.all(this.asked.map((instance) => registrations.deregister(instance, { signal })));
  }

  /** The instance's id contains the alloc's, so that a late deregistration never hits the successor (SS-3). */
  #instance({ service, task, port, meta }: ServiceOptions, { address, port: number }: Endpoint): ServiceInstance {
    const id = `${service}-${this.allocId}-${task}-${port}`;
    return { id, service, address, port: number, ...(meta === undefined ? {} : { meta }) };
  }

  #observe(inner: Registrar): Registrar {
    return {
      register: async (instance, call) => {
        await inner.register(instance, call);
        this.#acknowledged.set(instance.id, instance);
        this.changed();
      },
      deregister: async (instance, call) => {
        await inner.deregister(instance, call);
        if (this.#acknowledged.delete(instance.id)) this.changed();
      },
      ...(inner.confirms && { confirms: inner.confirms.bind(inner) }),
      ...(inner.drained && { drained: inner.drained.bind(inner) }),
    };
  }
}
