import { describe, expect, it } from 'vitest';
import { turn } from './scripted-peer.js';
import { SERVED, outcomeOf, world } from './world.js';

const STUBBORN = { ignores: ['SIGTERM'] };
const IMMORTAL = { ignores: ['SIGTERM', 'SIGKILL'] };

describe('what it waits for', () => {
  it('G-9: one that cannot be killed says that it waits for the exit', async () => {
    const w = world();
    const a = await w.running('a');
    w.host.script('a', IMMORTAL);
    await w.clock.until(a.stop({ reason: 'operator' }).result);
    expect(a.status()).toMatchObject({ state: 'unkillable', wait: { for: 'exit', until: null }, peers: {} });
    w.host.die('a/web');
    await turn();
    expect(a.status()).toMatchObject({ state: 'stopped', wait: null });
  });

  it('G-9 AL-4: one whose stop was called off before it was healthy waits for that again', async () => {
    const w = world();
    const a = w.alloc('a', { ...SERVED, shutdown: { shutdownDelay: '1s' } });
    await w.clock.until(a.start());
    const { wait } = a.status();
    const stop = a.stop({ reason: 'operator' });
    await turn();
    expect(a.status()).toMatchObject({ state: 'draining', wait: { for: 'drain' } });
    expect(await w.clock.until(stop.cancel())).toBe('cancelled');
    expect([wait?.for, a.status().wait]).toEqual(['health', wait]);
    await w.clock.until(a.until('healthy'));
    expect(a.status().wait).toBeNull();
    expect(await w.leftovers()).toBe(0);
  });
});

describe('stop in each state', () => {
  it.each([
    { state: 'pending', script: {} },
    { state: 'prestarting', script: { prestart: 'hang' } },
    { state: 'prepared', script: {} },
  ] as const)('AL-5: $state is discarded', async ({ state, script }) => {
    const w = world();
    w.host.script('a', script);
    const a = w.alloc('a');
    const preparing = state === 'pending' ? undefined : outcomeOf(a.prestart());
    await turn();
    expect(a.state).toBe(state);
    const stop = a.stop({ reason: 'operator' });
    expect(await stop.result).toEqual({ outcome: 'stopped', tasks: [] });
    await preparing;
    expect([a.state, w.host.remains(), stop.phase, stop.wait, w.clock.pending]).toEqual([
      'discarded',
      [],
      'done',
      null,
      0,
    ]);
  });

  it('AL-5: one that is starting is stopped once it runs', async () => {
    const w = world();
    w.host.script('a', { start: '10s' });
    const a = w.alloc('a');
    const started = outcomeOf(a.start());
    await turn();
    const stop = a.stop({ reason: 'operator' });
    const { outcome, tasks } = await w.clock.until(stop.result);
    expect([outcome, tasks[0]?.outcome, a.state]).toEqual(['stopped', 'exited', 'stopped']);
    expect((await started).error).toBeUndefined();
    expect(w.states('a')).toEqual([
      'prestarting',
      'prepared',
      'starting',
      'running',
      'draining',
      'stopping',
      'stopped',
    ]);
  });

  it('AL-5 SS-8: a second stop joins the first: one sequence, one result', async () => {
    const w = world();
    w.host.script('a', { exitDelay: '2s' });
    const a = await w.running('a', SERVED);
    const first = a.stop({ reason: 'operator' });
    expect(a.stopping).toBe(first);
    await w.clock.advance('1s');
    const second = a.stop({ reason: 'drain' });
    expect(second).toBe(first);
    const report = await w.clock.until(second.result);
    expect(report).toMatchObject({ outcome: 'stopped', tasks: [{ outcome: 'exited', reason: 'operator' }] });
    expect(w.host.calls.filter((call) => call.startsWith('signal'))).toEqual(['signal a/web SIGTERM']);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-5: one that has ended is stopped already', async () => {
    const w = world();
    const a = await w.running('a');
    w.host.die('a/web');
    await turn();
    const stop = a.stop({ reason: 'operator' });
    expect(await stop.result).toEqual({ outcome: 'stopped', tasks: [] });
    expect([a.state, await stop.cancel()]).toEqual(['failed', 'too-late']);
  });

  it('G-2: a stop says why', async () => {
    const w = world();
    const a = await w.running('a');
    expect(() => a.stop({ reason: '' })).toThrow('reason');
    expect(a.stopping).toBeUndefined();
  });

  it('SS-1 N-K1 N-K5: taken off once, then the delay, then the signal, then the kill timeout, then SIGKILL', async () => {
    const w = world();
    w.host.script('a', STUBBORN);
    const a = await w.running('a', { ...SERVED, shutdown: { shutdownDelay: '7s', killTimeout: '3s' } });
    const from = w.sequence().length;
    const started = w.clock.now();
    const stop = a.stop({ reason: 'operator' });
    await turn();
    expect([a.state, a.status().wait?.for, a.status().tasks['web']?.phase]).toEqual(['draining', 'drain', 'running']);
    await w.clock.advance('6999ms');
    expect(w.sequence().slice(from)).toEqual(['deregistered web-a-web-http']);
    await w.clock.advance(1);
    expect([a.state, a.status().wait?.for, a.status().tasks['web']?.phase]).toEqual(['stopping', 'exit', 'stopping']);
    const report = await w.clock.until(stop.result);
    expect(w.sequence().slice(from)).toEqual([
      ...['deregistered web-a-web-http', 'signal a/web SIGTERM', 'kill a/web', 'exit a/web'],
    ]);
    expect(w.clock.now() - started).toBe(10_000);
    expect(report.tasks[0]).toMatchObject({ outcome: 'forced', exit: { signal: 'SIGKILL', by: 'kill' } });
    expect(a.status()).toMatchObject({
      ...{ state: 'stopped', terminal: true, registered: [], health: 'none', wait: null },
      tasks: { web: { phase: 'dead', exit: { signal: 'SIGKILL' } } },
    });
    expect(w.clock.pending).toBe(0);
  });

  it('SS-6 AL-13: an exit in the delay is a clean stop, and ends the rest', async () => {
    const w = world();
    const a = await w.running('a', { ...SERVED, shutdown: { shutdownDelay: '1h' } });
    const stop = a.stop({ reason: 'operator' });
    await w.clock.advance('5s');
    w.host.die('a/web');
    const report = await w.clock.until(stop.result);
    expect([report.outcome, a.state, w.registered()]).toEqual(['stopped', 'stopped', []]);
    expect(w.host.calls.join()).not.toContain('signal');
    expect(w.registrar.calls.filter((call) => call.startsWith('deregister'))).toHaveLength(1);
    expect(w.clock.pending).toBe(0);
  });

  it('SS-6: unkillable is no end; it ends when it ends', async () => {
    const w = world();
    w.host.script('a', IMMORTAL);
    const a = await w.running('a', { shutdown: { killTimeout: '1s' } });
    const { outcome } = await w.clock.until(a.stop({ reason: 'operator' }).result);
    expect([outcome, a.state, a.status().terminal]).toEqual(['unkillable', 'unkillable', false]);
    expect((await outcomeOf(a.destroy())).error).toMatchObject({ code: 'ERR_PREVIOUS_RUNNING' });
    w.host.die('a/web', { code: 9 });
    await turn();
    expect(a.status()).toMatchObject({ state: 'stopped', tasks: { web: { phase: 'dead', exit: { code: 9 } } } });
    await a.destroy();
    await a.destroy();
    expect([w.host.remains(), a.handle('web'), w.clock.pending]).toEqual([[], undefined, 0]);
  });

  it('SS-9: called off before the signal, it is as before, and can be stopped again', async () => {
    const w = world();
    const a = await w.running('a', { ...SERVED, shutdown: { shutdownDelay: '1m' } });
    const stop = a.stop({ reason: 'operator' });
    await w.clock.advance('10s');
    expect(w.registered()).toEqual([]);
    expect(await w.clock.until(stop.cancel())).toBe('cancelled');
    expect((await stop.result).outcome).toBe('cancelled');
    expect([a.state, a.stopping, w.registered()]).toEqual(['running', undefined, ['web-a-web-http']]);
    expect(a.status()).toMatchObject({ reached: 'healthy', registered: [{ id: 'web-a-web-http' }], wait: null });
    expect(await stop.cancel()).toBe('too-late');

    const again = a.stop({ reason: 'operator' });
    again.skipDelay();
    expect((await w.clock.until(again.result)).outcome).toBe('stopped');
    expect([w.registered(), w.clock.pending]).toEqual([[], 0]);
  });

  it('SS-9: too late once the signal was sent', async () => {
    const w = world();
    w.host.script('a', { exitDelay: '3s' });
    const a = await w.running('a');
    const stop = a.stop({ reason: 'operator' });
    await w.clock.advance('1s');
    expect(await stop.cancel()).toBe('too-late');
    expect((await w.clock.until(stop.result)).outcome).toBe('stopped');
  });

  it('AL-5: a stop that comes while another one is called off is a stop of its own', async () => {
    const w = world();
    const a = await w.running('a', { ...SERVED, shutdown: { shutdownDelay: '1m' } });
    const first = a.stop({ reason: 'drain' });
    await w.clock.advance('10s');
    const cancelled = first.cancel();
    const second = a.stop({ reason: 'operator' });
    expect(second).not.toBe(first);
    expect(a.stopping).toBe(second);
    expect((await w.clock.until(second.result)).outcome).toBe('stopped');
    expect([await cancelled, a.state, w.registered(), w.clock.pending]).toEqual(['cancelled', 'stopped', [], 0]);
  });

  it('AL-9: what became healthy while it drained is registered when the drain is called off', async () => {
    const w = world();
    const state = { up: false };
    const checks = { up: async () => state.up };
    const a = w.alloc(
      'a',
      { ...SERVED, health: { checks: [{ name: 'up', type: 'custom' }] }, shutdown: { shutdownDelay: '1m' } },
      {},
      { checks },
    );
    await w.clock.until(a.start());
    const stop = a.stop({ reason: 'operator' });
    await w.clock.advance('5s');
    state.up = true;
    await w.clock.advance('5s');
    expect([a.state, w.registered()]).toEqual(['draining', []]);
    await stop.cancel();
    await turn();
    expect(w.registered()).toEqual(['web-a-web-http']);
    expect(await w.leftovers()).toBe(0);
  });
});
