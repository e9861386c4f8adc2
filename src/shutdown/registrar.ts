import { requireMethods } from '../env.js';
import { invalidOption } from '../errors.js';
import type { Registrar, ServiceInstance } from './types.js';

/**
 * A service registry in this process: for embedders that route by themselves, for examples and tests. It confirms
 * what it holds, so that stops need no delay.
 *
 * @returns the registrar; `instances()` tells what is registered now, in the order of registration
 */
export function memoryRegistrar(): Registrar & { instances(): readonly ServiceInstance[] } {
  const held = new Map<string, ServiceInstance>();
  return {
    register: async (instance) => void held.set(instance.id, instance),
    deregister: async (instance) => void held.delete(instance.id),
    confirms: async (instance) => held.has(instance.id),
    instances: () => [...held.values()],
  };
}

/**
 * Several registries as one, such as a service catalogue and the balancer that reads it. Registers from left to
 * right, deregisters from right to left, one after the other; acknowledged when all of them have acknowledged.
 *
 * A deregistration asks every registry, also after one has failed: whatever stops traffic is worth it. It can confirm
 * only if each of them can; an instance is shown as long as one of them shows it.
 *
 * @param inOrder - the registries, the one that has to know first at the left
 * @throws HandoverError `ERR_INVALID_OPTION` for what is no registrar
 * @throws (from its methods) what the registry threw; an `AggregateError` when several deregistrations failed
 */
export function registrars(...inOrder: readonly Registrar[]): Registrar {
  inOrder.forEach((one, i) => requireRegistrar(`inOrder.${i}`, one));
  const all: Registrar = {
    async register(instance, call) {
      for (const one of inOrder) await one.register(instance, call);
    },
    async deregister(instance, call) {
      const failures: unknown[] = [];
      for (const one of inOrder.toReversed()) {
        try {
          await one.deregister(instance, call);
        } catch (error) {
          failures.push(error);
        }
      }
      if (failures.length === 1) throw failures[0];
      if (failures.length > 1) throw new AggregateError(failures, `${failures.length} registries did not acknowledge`);
    },
  };
  if (inOrder.some((one) => one.confirms === undefined)) return all;
  return {
    ...all,
    async confirms(instance, call) {
      const shown = await Promise.all(inOrder.map(async (one) => one.confirms?.(instance, call)));
      return shown.includes(true);
    },
  };
}

function requireRegistrar(path: string, one: Registrar): void {
  if ((one as Registrar | undefined) === undefined) throw invalidOption(path, 'is required');
  requireMethods(path, one, ['register', 'deregister'], ['confirms']);
}
