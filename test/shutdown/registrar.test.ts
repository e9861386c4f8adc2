import { memoryRegistrar, type Registrar, registrars } from 'handover';
import { describe, expect, it } from 'vitest';
import { SERVICE } from './scripted-target.js';

function named(name: string, log: string[], fails = false): Registrar {
  const act = (what: string) => async (): Promise<void> => {
    log.push(`${what} ${name}`);
    if (fails) throw new Error(`${name} is down`);
  };
  return { register: act('register'), deregister: act('deregister') };
}

describe('memoryRegistrar', () => {
  it('SS-3 holds what is registered, confirms it; not found is done', async () => {
    const registrar = memoryRegistrar();
    await registrar.deregister(SERVICE, {});
    await registrar.register(SERVICE, {});
    await registrar.register({ ...SERVICE, port: 9090 }, {});
    expect(registrar.instances()).toEqual([{ ...SERVICE, port: 9090 }]);
    expect(await registrar.confirms!(SERVICE, {})).toBe(true);
    await registrar.deregister(SERVICE, {});
    expect(registrar.instances()).toEqual([]);
    expect(await registrar.confirms!(SERVICE, {})).toBe(false);
  });
});

describe('registrars', () => {
  it('registers from left to right, deregisters from right to left', async () => {
    const log: string[] = [];
    const all = registrars(named('catalogue', log), named('balancer', log));
    await all.register(SERVICE, {});
    await all.deregister(SERVICE, {});
    expect(log).toEqual(['register catalogue', 'register balancer', 'deregister balancer', 'deregister catalogue']);
  });

  it('a registration stops at the first that fails; a deregistration asks all', async () => {
    const log: string[] = [];
    const all = registrars(named('a', log, true), named('b', log, true), named('c', log));
    await expect(all.register(SERVICE, {})).rejects.toThrow('a is down');
    await expect(all.deregister(SERVICE, {})).rejects.toThrow('2 registries');
    expect(log).toEqual(['register a', 'deregister c', 'deregister b', 'deregister a']);
    const one = registrars(named('a', [], true), named('b', []));
    await expect(one.deregister(SERVICE, {})).rejects.toThrow('a is down');
  });

  it('SS-3 confirms only if all can; shown as long as one shows it', async () => {
    expect(registrars(memoryRegistrar(), named('b', [])).confirms).toBeUndefined();
    const [a, b] = [memoryRegistrar(), memoryRegistrar()];
    const all = registrars(a, b);
    await all.register(SERVICE, {});
    await b.deregister(SERVICE, {});
    expect(await all.confirms!(SERVICE, {})).toBe(true);
    await all.deregister(SERVICE, {});
    expect(await all.confirms!(SERVICE, {})).toBe(false);
  });

  it('SS-3: one that throws at once does not keep the others from being asked', async () => {
    const log: string[] = [];
    const broken: Registrar = {
      ...named('broken', log),
      deregister: () => {
        throw new Error('broken');
      },
    };
    const web = { id: 'web-1', service: 'web', address: '127.0.0.1', port: 80 };
    await expect(registrars(named('left', log), broken).deregister(web, {})).rejects.toThrow('broken');
    expect(log.join()).toContain('left');
  });

  it.each([5, undefined, null, {}])('G-2 %s is no registrar', (one) => {
    expect(() => registrars(memoryRegistrar(), one as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path: 'inOrder.1' } }),
    );
  });
});
