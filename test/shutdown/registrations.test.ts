import { getEventListeners } from 'node:events';
import { memoryRegistrar, type Registrar, type ServiceInstance } from 'handover';
import { FakeClock } from 'handover/testing';
import { describe, expect, it } from 'vitest';
import { resolveEnv } from '../../src/env.js';
import type { HandoverEvent } from '../../src/events.js';
import { Registrations, registrationsOf } from '../../src/shutdown/registrations.js';
import { type RegistrarScript, ScriptedRegistrar, SERVICE } from './scripted-target.js';

function fixture(script: RegistrarScript = {}) {
  const clock = new FakeClock();
  const log: string[] = [];
  const events: HandoverEvent[] = [];
  const registrar = new ScriptedRegistrar(clock, log, script);
  const ground = resolveEnv({ clock, onEvent: (event) => events.push(event) });
  return { clock, log, events, registrar, registrations: new Registrations(registrar, ground) };
}

const other = (id: string): ServiceInstance => ({ ...SERVICE, id });

describe('Registrations', () => {
  it('SS-3 resolves at the acknowledgement, and keeps nothing then', async () => {
    const { clock, registrations, registrar } = fixture({ register: [100], deregister: [200] });
    await clock.until(registrations.register(SERVICE, {}));
    expect(clock.now()).toBe(100);
    await clock.until(registrations.deregister(SERVICE, { timeout: 5_000 }));
    expect(clock.now()).toBe(300);
    expect(registrar.held.size).toBe(0);
    expect(clock.pending).toBe(0);
  });

  it('G-4 no listener stays on the signal once the registry agrees, or something else is wanted', async () => {
    const { clock, registrations } = fixture({ register: [100], deregister: [100] });
    const { signal } = new AbortController();
    const on = registrations.register(SERVICE, { signal });
    const off = registrations.deregister(SERVICE, { signal });
    expect(getEventListeners(signal, 'abort').length).toBeGreaterThan(0);
    await clock.until(Promise.all([on, off]));
    await clock.advance(0);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('SS-3 what is wanted anew is tried as soon as anything new, and told when it fails, however long the last was', async () => {
    const { clock, registrations, registrar, events } = fixture({
      deregister: Array.from({ length: 20 }, () => 'reject' as const),
      register: ['reject', 'ok'],
    });
    const off = registrations.deregister(SERVICE, { timeout: 100 });
    await expect(clock.until(off)).rejects.toThrow();
    await clock.advance('2m');
    const from = clock.now();
    await clock.until(registrations.register(SERVICE, {}));
    expect(clock.now() - from).toBeLessThanOrEqual(250);
    expect(registrar.held.has(SERVICE.id)).toBe(true);
    const told = events.flatMap((event) => (event.type === 'warning' ? [event.reason.message] : []));
    expect(told.map((message) => /did not (\w+)/.exec(message)?.[1])).toEqual(['deregister', 'register']);
  });

  it('SS-3 at its bound the deregistration is told as failed, and lives on until the registry agrees', async () => {
    const { clock, registrations, registrar, events } = fixture({ deregister: ['reject', 'reject', 9_000, 'ok'] });
    registrar.held.add(SERVICE.id);
    const call = registrations.deregister(SERVICE, { timeout: 1_000 });
    await expect(clock.until(call)).rejects.toMatchObject({
      code: 'ERR_DEREGISTER_FAILED',
      details: { instance: SERVICE.id },
      retryable: true,
    });
    expect(clock.now()).toBe(1_000);
    expect(registrar.held.size).toBe(1);
    await clock.advance('1m');
    expect(registrar.held.size).toBe(0);
    expect(events.map((event) => event.type)).toEqual(['warning']);
    expect(clock.pending).toBe(0);
  });

  it('SS-3 the latest intent wins: a late retry never takes off what was registered again', async () => {
    const { clock, registrations, registrar, log } = fixture({ deregister: ['reject'] });
    await clock.until(registrations.register(SERVICE, {}));
    const off = registrations.deregister(SERVICE, { timeout: 5_000 });
    await clock.advance(3_000);
    const on = registrations.register(SERVICE, {});
    await expect(off).rejects.toMatchObject({ code: 'ERR_DEREGISTER_FAILED' });
    await clock.until(on);
    const asked = log.length;
    await clock.advance('1h');
    expect(log).toHaveLength(asked);
    expect([...registrar.held]).toEqual([SERVICE.id]);
    expect(clock.pending).toBe(0);
  });

  it('SS-3 calls are serialised per instance: the next one waits for the one in flight', async () => {
    const { clock, registrations, log, registrar } = fixture({ deregister: [2_000] });
    const off = registrations.deregister(SERVICE, {});
    await clock.advance(500);
    const on = registrations.register(SERVICE, {});
    await expect(off).rejects.toMatchObject({ code: 'ERR_DEREGISTER_FAILED' });
    await clock.until(on);
    expect(log).toEqual(['0 deregister', '2000 deregistered', '2000 register', '2000 registered']);
    expect([...registrar.held]).toEqual([SERVICE.id]);
  });

  it('SS-3 on, off, on while a call is in flight: what nobody wants any more is not asked for', async () => {
    const { clock, registrations, log } = fixture({ register: [1_000, 'ok'] });
    const first = registrations.register(SERVICE, {});
    await clock.advance(10);
    const off = registrations.deregister(SERVICE, {}).catch((error: unknown) => error);
    const last = registrations.register(SERVICE, {});
    await first;
    expect(await off).toMatchObject({ code: 'ERR_DEREGISTER_FAILED' });
    await clock.until(last);
    expect(log.filter((line) => line.endsWith('register'))).toEqual(['0 register', '1000 register']);
  });

  it('SS-3 instances do not wait for each other', async () => {
    const { clock, registrations, log } = fixture({ deregister: ['deaf', 'ok'] });
    void registrations.deregister(other('a'), { timeout: 100 }).catch(() => undefined);
    await clock.until(registrations.deregister(other('b'), {}));
    expect(log).toEqual(['0 deregister', '0 deregister', '0 deregistered']);
  });

  it('SS-3 the same intent joins: one call, each caller with its own bound', async () => {
    const { clock, registrations, log } = fixture({ deregister: [3_000] });
    const short = registrations.deregister(SERVICE, { timeout: 1_000 }).catch((error: unknown) => error);
    const long = registrations.deregister(SERVICE, { timeout: 5_000 });
    await clock.until(long);
    expect(await short).toMatchObject({ code: 'ERR_DEREGISTER_FAILED' });
    expect(log).toEqual(['0 deregister', '3000 deregistered']);
  });

  it('G-8 a call that is never answered is given up after ten seconds and made again', async () => {
    const { clock, registrations, registrar } = fixture({ register: ['deaf', 'ok'] });
    await clock.until(registrations.register(SERVICE, {}));
    expect(registrar.held.size).toBe(1);
    expect(clock.now()).toBeGreaterThanOrEqual(10_000);
    expect(clock.now()).toBeLessThan(10_300);
  });

  it('G-4 its signal withdraws the intent, also when nobody waits any more; nothing is left', async () => {
    const { clock, registrations, log } = fixture({ deregister: ['reject'] });
    const life = new AbortController();
    const call = registrations.deregister(SERVICE, { signal: life.signal, timeout: 1_000 });
    await expect(clock.until(call)).rejects.toMatchObject({ code: 'ERR_DEREGISTER_FAILED' });
    life.abort(new Error('let go'));
    await registrations.withdrawn();
    expect(clock.pending).toBe(0);
    const asked = log.length;
    await clock.advance('1h');
    expect(log).toHaveLength(asked);
    await expect(registrations.register(SERVICE, { signal: life.signal })).rejects.toThrow('let go');
  });

  it('G-4 a withdrawal also ends the call that was in flight for what was wanted before', async () => {
    const { clock, registrations, events } = fixture({ deregister: ['deaf'] });
    const life = new AbortController();
    const off = registrations.deregister(SERVICE, {}).catch((error: unknown) => error);
    await clock.advance(10);
    const on = registrations.register(SERVICE, { signal: life.signal });
    life.abort(new Error('let go'));
    await expect(on).rejects.toThrow('let go');
    expect(await off).toMatchObject({ code: 'ERR_DEREGISTER_FAILED' });
    await registrations.withdrawn();
    expect(clock.pending).toBe(0);
    // It is not asked again, so nothing says that it is.
    expect(events).toEqual([]);
  });

  it('G-4 one of two holders withdrawing leaves the intent to the other', async () => {
    const { clock, registrations, registrar } = fixture({ register: [1_000] });
    const life = new AbortController();
    const one = registrations.register(SERVICE, { signal: life.signal });
    const two = registrations.register(SERVICE, {});
    await clock.advance(10);
    life.abort(new Error('let go'));
    await expect(one).rejects.toThrow('let go');
    await clock.until(two);
    expect(registrar.held.size).toBe(1);
  });

  it('SS-3 after a withdrawal the instance can be wanted again', async () => {
    const { clock, registrations, registrar } = fixture({ register: ['hang', 'ok'] });
    const life = new AbortController();
    const one = registrations.register(SERVICE, { signal: life.signal });
    await clock.advance(10);
    life.abort(new Error('let go'));
    const two = registrations.register(SERVICE, {});
    await expect(one).rejects.toThrow('let go');
    await clock.until(two);
    expect(registrar.held.size).toBe(1);
    expect(clock.pending).toBe(0);
  });

  it('SS-3 all who use one registrar share its registrations', () => {
    const registrar: Registrar = memoryRegistrar();
    const ground = resolveEnv({});
    expect(registrationsOf(registrar, ground)).toBe(registrationsOf(registrar, ground));
    expect(registrationsOf(memoryRegistrar(), ground)).not.toBe(registrationsOf(registrar, ground));
  });

  it('a registrar that throws at once fails like one that rejects', async () => {
    const clock = new FakeClock();
    let calls = 0;
    const registrar: Registrar = {
      register: () => {
        if (calls++ === 0) throw new Error('no socket');
        return Promise.resolve();
      },
      deregister: () => Promise.resolve(),
    };
    await clock.until(new Registrations(registrar, resolveEnv({ clock })).register(SERVICE, {}));
    expect(calls).toBe(2);
  });
});
