import {
  type AllocEnv,
  AllocLifecycle,
  type AllocSettings,
  type HandoverEvent,
  HandoverError,
  type ServiceInstance,
  type Call,
} from 'handover';
import { type FakeSpec, FakeClock, FakeHost, FakeRegistrar, eventLog } from 'handover/testing';

/** One service on the fake's port, entered when healthy. */
export const SERVED: AllocSettings = { services: [{ service: 'web', task: 'web', port: 'http' }] };

/** A registrar that remembers where among the host's calls each of its own came. */
class WitnessRegistrar extends FakeRegistrar {
  readonly sequence: { readonly after: number; readonly call: string }[] = [];

  constructor(private readonly host: FakeHost) {
    super();
  }

  override async register(instance: ServiceInstance, call: Call): Promise<void> {
    await super.register(instance, call);
    this.sequence.push({ after: this.host.calls.length, call: `registered ${instance.id}` });
  }

  override async deregister(instance: ServiceInstance, call: Call): Promise<void> {
    await super.deregister(instance, call);
    this.sequence.push({ after: this.host.calls.length, call: `deregistered ${instance.id}` });
  }
}

/** Everything that allocs touch, in memory and on a clock that only the test moves. */
export function world(more: AllocEnv = {}) {
  const clock = new FakeClock();
  const host = new FakeHost({ clock });
  const registrar = new WitnessRegistrar(host);
  const log = eventLog();
  const env: AllocEnv = { clock, registrar, onEvent: log.onEvent, ...more };
  const driver = host.driver();
  const allocs: AllocLifecycle[] = [];

  const alloc = (id: string, settings: AllocSettings = {}, spec: Partial<FakeSpec> = {}, own: AllocEnv = {}) => {
    const made = new AllocLifecycle(
      { id, tasks: [{ name: 'web', driver, spec: { version: id, ...spec } }], ...settings },
      { ...env, ...own },
    );
    allocs.push(made);
    return made;
  };
  const running = async (id: string, settings: AllocSettings = {}, spec: Partial<FakeSpec> = {}) => {
    const made = alloc(id, settings, spec);
    await clock.until(made.start());
    await clock.until(made.until('healthy'));
    return made;
  };
  return {
    ...{ clock, host, registrar, log, env, driver, alloc, running },
    /** From now on the driver does not say which ports its tasks will have, as some cannot. */
    hidePorts: () => void Object.assign(driver, { ports: undefined }),
    /** What was done to the host and what the registry acknowledged, in one order. */
    sequence: (): readonly string[] => {
      const { calls } = host;
      const merged: string[] = [];
      calls.forEach((call, i) => {
        merged.push(...registrar.sequence.filter(({ after }) => after === i).map((entry) => entry.call), call);
      });
      merged.push(...registrar.sequence.filter(({ after }) => after === calls.length).map((entry) => entry.call));
      return merged;
    },
    /** Each state that an alloc has gone through, as its events tell. */
    states: (id: string): readonly string[] =>
      log.events.flatMap((event) => (isChange(event) && event.alloc.id === id ? [event.alloc.state] : [])),
    registered: (): readonly string[] => [...registrar.registered.keys()],
    /** Lets go of everything that was made; what then is still armed was left behind. */
    async leftovers(): Promise<number> {
      for (const made of allocs) await made.detach();
      return clock.pending;
    },
  };
}

export type World = ReturnType<typeof world>;

function isChange(event: HandoverEvent): event is HandoverEvent<'alloc:changed'> {
  return event.type === 'alloc:changed';
}

/** The error of a pull that cannot succeed. */
export function noSuchTag(): HandoverError {
  return new HandoverError('ERR_PULL_FAILED', 'there is no such tag', {
    details: { reference: 'app:v9', reason: 'not-found-or-denied', attempts: 1 },
  });
}

/** The error of a start that the engine refuses. */
export function refusedStart(): HandoverError {
  return new HandoverError('ERR_DRIVER', 'the runtime said no', {
    details: { driver: 'fake', operation: 'start' },
  });
}

/** Settles to the value, or to what was thrown. */
export async function outcomeOf<T>(promise: Promise<T>): Promise<{ readonly value?: T; readonly error?: unknown }> {
  return promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
}
