import { describe, expect, it } from 'vitest';
import { type AllocSettings, memoryRegistrar } from 'handover';
import { turn } from './scripted-peer.js';
import { SERVED, outcomeOf, world } from './world.js';

const when = (registerWhen: 'started' | 'healthy'): AllocSettings => ({
  services: [{ service: 'web', task: 'web', port: 'http', registerWhen, meta: { version: '1' } }],
});

/** A custom check whose answer the test sets. */
function checked(settings: AllocSettings) {
  const w = world();
  const state = { up: false };
  const health = { checks: [{ name: 'up', type: 'custom' as const }] };
  const a = w.alloc('a', { ...settings, health }, { port: 8080 }, { checks: { up: async () => state.up } });
  return { ...w, a, state };
}

describe('registering', () => {
  it('AL-9: started: as soon as the task runs', async () => {
    const w = checked(when('started'));
    await w.clock.until(w.a.start());
    await turn();
    expect([...w.registrar.registered.values()]).toEqual([
      { id: 'web-a-web-http', service: 'web', address: '127.0.0.1', port: 8080, meta: { version: '1' } },
    ]);
    expect(w.a.status()).toMatchObject({ health: 'failing', registered: [{ id: 'web-a-web-http' }] });
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-9: healthy: at the first passing check, not after minHealthyTime', async () => {
    const w = checked(when('healthy'));
    await w.clock.until(w.a.start());
    await w.clock.advance('5s');
    expect(w.registered()).toEqual([]);
    w.state.up = true;
    await w.clock.advance('1s');
    expect([w.registered(), w.a.status().reached]).toEqual([['web-a-web-http'], 'prepared']);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-9: once; flapping neither takes it off nor registers it again', async () => {
    const w = checked(when('healthy'));
    await w.clock.until(w.a.start());
    for (const up of [true, false, true, false, true]) {
      w.state.up = up;
      await w.clock.advance('3s');
    }
    expect(w.registrar.calls).toEqual(['register web-a-web-http']);
    expect(await w.leftovers()).toBe(0);
  });

  it('SS-3: what the registrar does not acknowledge is tried on, and it is not healthy before', async () => {
    const w = world();
    w.registrar.failNext(3);
    const a = w.alloc('a', { ...SERVED, health: { minHealthyTime: 0 } });
    await w.clock.until(a.start());
    await turn();
    expect(a.status()).toMatchObject({ health: 'passing', reached: 'prepared', registered: [] });
    const { registered } = await w.clock.until(a.until('healthy'));
    expect(registered.map(({ id }) => id)).toEqual(['web-a-web-http']);
    expect(w.registrar.calls).toHaveLength(4);
    expect(w.log.types()).toContain('warning');
    expect(w.clock.pending).toBe(0);
  });

  it('AL-9: each port that the task does not have is told, whatever checks and services are named', async () => {
    const w = world();
    w.hidePorts();
    const services = ['x', 'y'].map((port) => ({ service: 'admin', task: 'web', port }));
    const checks = [{ type: 'tcp', name: 'service admin', port: 'z' }] as const;
    const a = w.alloc('a', { services, health: { checks } });
    await w.clock.until(a.start());
    const words = Object.values(a.status().checks).map(({ message }) => message);
    expect(['x', 'y', 'z'].filter((port) => words.some((one) => one.endsWith(`no port ${port}`)))).toHaveLength(3);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-9: a service whose port the task does not have is never healthy, and says so at once', async () => {
    const w = world();
    w.hidePorts();
    const services = [{ service: 'admin', task: 'web', port: 'admin' }, ...(SERVED.services ?? [])];
    const a = w.alloc('a', { services });
    await w.clock.until(a.start());
    const { error } = await outcomeOf(a.until('healthy'));
    expect(error).toMatchObject({ code: 'ERR_UNHEALTHY', details: { checks: ['service admin'] } });
    expect((error as Error).message).toContain('no port admin');
    expect((error as Error).message).not.toContain('within');
    expect(a.status().checks['service admin']).toMatchObject({ code: 'no-such-port' });
    await w.clock.advance('1m');
    expect([a.status().reached, w.registered()]).toEqual(['prepared', ['web-a-web-http']]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-9: without a registrar nothing is registered, and that is no obstacle', async () => {
    const w = world({ registrar: undefined });
    const a = await w.running('a', SERVED);
    expect(a.status()).toMatchObject({ reached: 'healthy', registered: [] });
    await w.clock.until(a.stop({ reason: 'operator' }).result);
    expect(w.clock.pending).toBe(0);
  });

  it('AL-9: works with the registrar that comes with the library', async () => {
    const registrar = memoryRegistrar();
    const w = world({ registrar });
    const a = await w.running('a', SERVED);
    expect(registrar.instances().map(({ id }) => id)).toEqual(['web-a-web-http']);
    await w.clock.until(a.stop({ reason: 'operator' }).result);
    expect(registrar.instances()).toEqual([]);
  });
});

describe('taking off', () => {
  it('AL-9 N-K8: an alloc that ends by itself is taken off, once', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    w.host.die('a/web', { code: 3 });
    await turn();
    expect([a.state, w.registered(), a.status().registered]).toEqual(['failed', [], []]);
    expect(a.status().tasks['web']).toMatchObject({ phase: 'dead', exit: { code: 3 } });
    expect(w.registrar.calls).toEqual(['register web-a-web-http', 'deregister web-a-web-http']);
    expect(w.clock.pending).toBe(0);
  });

  it('SS-3: also when the registrar fails at first, in the background', async () => {
    const w = world();
    await w.running('a', SERVED);
    w.registrar.failNext(4);
    w.host.die('a/web');
    await w.clock.advance('1m');
    expect([w.registered(), w.clock.pending]).toEqual([[], 0]);
  });

  it('SS-3: also when it was being registered', async () => {
    const w = world();
    w.registrar.failNext(1);
    const a = w.alloc('a', SERVED);
    await w.clock.until(a.start());
    await turn();
    w.host.die('a/web');
    await w.clock.advance('1m');
    expect([a.state, w.registered(), w.clock.pending]).toEqual(['failed', [], 0]);
  });

  it('AL-9: nothing is taken off that was never asked for', async () => {
    const w = checked(when('healthy'));
    await w.clock.until(w.a.start());
    await w.clock.advance('5s');
    w.host.die('a/web');
    await turn();
    expect(w.registrar.calls).toEqual([]);
  });

  it('G-7: no event of the alloc comes after its end', async () => {
    const w = world();
    await w.running('a', SERVED);
    w.registrar.failNext(2);
    w.host.die('a/web');
    await w.clock.advance('1m');
    const types = w.log.types().filter((type) => type.startsWith('alloc:'));
    expect(types.at(-1)).toBe('alloc:changed');
    expect(w.states('a').at(-1)).toBe('failed');
  });

  it('SS-9: at whatever moment it ends while its drain is called off, it does not stay registered', async () => {
    for (let turns = 0; turns < 60; turns++) {
      const w = world();
      const a = await w.running('a', { ...SERVED, shutdown: { shutdownDelay: '1m' } });
      const stop = a.stop({ reason: 'drain' });
      await w.clock.advance('10s');
      void stop.cancel();
      for (let i = 0; i < turns; i++) await Promise.resolve();
      w.host.die('a/web');
      const { outcome } = await w.clock.until(stop.result);
      await w.clock.advance('1m');
      expect([a.status().terminal, w.registered(), w.clock.pending], `${turns} turns`).toEqual([true, [], 0]);
      if (a.state === 'stopped') expect(outcome).toBe('stopped');
    }
  });

  it('AL-9: also after a drain that was called off had registered it again', async () => {
    const w = world();
    const a = await w.running('a', { ...SERVED, shutdown: { shutdownDelay: '1m' } });
    const stop = a.stop({ reason: 'drain' });
    await w.clock.advance('10s');
    await stop.cancel();
    expect(w.registered()).toEqual(['web-a-web-http']);
    w.host.die('a/web');
    await turn();
    expect([a.state, w.registered()]).toEqual(['failed', []]);
  });

  it('SS-3: ids contain the alloc id, so that two allocs of one service never mix', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    await w.running('b', SERVED);
    await w.clock.until(a.stop({ reason: 'operator' }).result);
    expect(w.registered()).toEqual(['web-b-web-http']);
    expect(await w.leftovers()).toBe(0);
  });
});
