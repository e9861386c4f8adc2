import { describe, expect, it } from 'vitest';
import { NextAllocWatcher, type StopReason } from 'handover';
import { scriptedPeer, turn, view } from './scripted-peer.js';
import { SERVED, world } from './world.js';

describe('a stop because of a replacement', () => {
  const wait = (w: ReturnType<typeof world>, peer: ReturnType<typeof scriptedPeer>, o = {}) =>
    new NextAllocWatcher(peer.peer, o, w.env);

  it('AL-3 G-9: held, served and checked until the successor is there, and says so', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    const next = scriptedPeer(
      [view('prestarting'), view('prepared', { reached: 'prepared' })],
      [view('prepared', { reached: 'prepared' })],
    );
    const stop = a.stop({ reason: 'replaced', after: wait(w, next) });
    await turn();
    expect([stop.phase, stop.id, stop.budget.total]).toEqual(['held', 'a', a.status().stopBudget]);
    expect(stop.wait).toMatchObject({ for: 'successor', on: 'peer', until: w.clock.wall() + 30 * 60_000 });
    expect(a.status()).toMatchObject({ state: 'held', reached: 'healthy', wait: stop.wait, peers: { next: 'peer' } });
    expect(w.registered()).toEqual(['web-a-web-http']);
    await next.next();
    const report = await w.clock.until(stop.result);
    expect(report).toMatchObject({ outcome: 'stopped', gate: { outcome: 'reached' }, tasks: [{ outcome: 'exited' }] });
    expect(w.clock.pending).toBe(0);
  });

  it('AL-4: keep: a successor that fails leaves it running, registered all the time', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    const next = scriptedPeer([view('prestarting'), view('rejected')]);
    const stop = a.stop({ reason: 'replaced', after: wait(w, next) });
    await next.next();
    const report = await stop.result;
    expect(report).toMatchObject({
      outcome: 'kept',
      gate: { outcome: 'failed', cause: { code: 'ERR_GATE_MISSED' } },
      tasks: [],
    });
    expect([a.state, a.stopping, stop.phase]).toEqual(['running', undefined, 'done']);
    expect(w.registrar.calls).toEqual(['register web-a-web-http']);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-4: proceed: a successor that fails does not keep it', async () => {
    const w = world();
    const a = await w.running('a');
    const next = scriptedPeer([view('rejected')]);
    const stop = a.stop({ reason: 'replaced', after: wait(w, next, { onFailed: 'proceed' }) });
    expect(await w.clock.until(stop.result)).toMatchObject({ outcome: 'stopped', gate: { outcome: 'failed' } });
  });

  it.each(['operator', 'drain', 'preempted', 'scale-in', 'unhealthy', 'because I say so'] as StopReason[])(
    'AL-5: reason %s does not wait, and ends a hold',
    async (reason) => {
      const w = world();
      const a = await w.running('a');
      const next = scriptedPeer([view('prestarting')]);
      const held = a.stop({ reason: 'replaced', after: wait(w, next) });
      await turn();
      expect(a.state).toBe('held');
      expect(a.stop({ reason, after: wait(w, next) })).toBe(held);
      const report = await w.clock.until(held.result);
      expect(report).toMatchObject({ outcome: 'stopped', gate: { outcome: 'bypassed' }, tasks: [{ reason }] });

      const b = await w.running('b');
      expect(await w.clock.until(b.stop({ reason, after: wait(w, next) }).result)).not.toHaveProperty('gate');
      expect([w.clock.pending, next.state.open]).toEqual([0, 0]);
    },
  );

  it.each([
    { how: 'escalate', signals: ['signal a/web SIGTERM'] },
    { how: 'killNow', signals: ['kill a/web'] },
  ] as const)('AL-5: $how() ends a hold', async ({ how, signals }) => {
    const w = world();
    const a = await w.running('a', { shutdown: { shutdownDelay: 0 } });
    const stop = a.stop({ reason: 'replaced', after: wait(w, scriptedPeer([view('prestarting')])) });
    await turn();
    stop[how]();
    expect((await w.clock.until(stop.result)).outcome).toBe('stopped');
    expect(w.host.calls.filter((call) => /^(signal|kill)/.test(call))).toEqual(signals);
  });

  it('AL-5: force does not wait; a forced stop ends a hold in progress', async () => {
    const w = world();
    const a = await w.running('a');
    const next = scriptedPeer([view('prestarting')]);
    const held = a.stop({ reason: 'replaced', after: wait(w, next) });
    await turn();
    a.stop({ reason: 'replaced', force: true });
    expect((await w.clock.until(held.result)).outcome).toBe('stopped');
  });

  it('SS-8: skipDelay() in the hold is kept for the drain', async () => {
    const w = world();
    const a = await w.running('a', { ...SERVED, shutdown: { shutdownDelay: '1h' } });
    const ready = view('prepared', { reached: 'prepared' });
    const next = scriptedPeer([view('prestarting'), ready], [ready]);
    const stop = a.stop({ reason: 'replaced', after: wait(w, next) });
    await turn();
    stop.skipDelay();
    expect(a.state).toBe('held');
    const from = w.clock.now();
    await next.next();
    await w.clock.until(stop.result);
    expect(w.clock.now() - from).toBeLessThan(1_000);
  });

  it('AL-5: bypassed while the gate is looked at a last time: what that shows does not keep it', async () => {
    const w = world();
    const a = await w.running('a');
    const ready = view('prepared', { reached: 'prepared' });
    const stop = a.stop({ reason: 'replaced', after: wait(w, scriptedPeer([ready], ['hang'])) });
    await w.clock.advance('1s');
    expect([a.state, stop.phase]).toEqual(['draining', 'signal']);
    a.stop({ reason: 'operator' });
    expect(await w.clock.until(stop.result)).toMatchObject({ outcome: 'stopped', tasks: [{ outcome: 'exited' }] });
    expect(w.clock.pending).toBe(0);
  });

  it('AL-5: bypassed while it drains: the end of the successor does not keep it', async () => {
    const w = world();
    const a = await w.running('a', { ...SERVED, shutdown: { shutdownDelay: '1m' } });
    const ready = view('prepared', { reached: 'prepared' });
    const next = scriptedPeer([ready], [ready, view('failed')]);
    const stop = a.stop({ reason: 'replaced', after: wait(w, next) });
    await w.clock.advance('1s');
    expect([a.state, next.state.open]).toEqual(['draining', 1]);
    a.stop({ reason: 'operator' });
    await next.next();
    expect((await w.clock.until(stop.result)).outcome).toBe('stopped');
    expect(next.state.open).toBe(0);
  });

  it('AL-3: a hold is called off by cancel(), without a trace', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    const next = scriptedPeer([view('prestarting')]);
    const stop = a.stop({ reason: 'replaced', after: wait(w, next) });
    await turn();
    expect(await stop.cancel()).toBe('cancelled');
    expect(await stop.result).toMatchObject({ outcome: 'cancelled', tasks: [] });
    await turn();
    expect([a.state, next.state.open, w.registrar.calls]).toEqual(['running', 0, ['register web-a-web-http']]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-3: a cancel in the very moment in which the gate is reached still counts', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    const ready = view('prepared', { reached: 'prepared' });
    for (let turns = 0; turns < 12; turns++) {
      const next = scriptedPeer([ready]);
      const stop = a.stop({ reason: 'replaced', after: wait(w, next) });
      for (let i = 0; i < turns; i++) await Promise.resolve();
      expect(await w.clock.until(stop.cancel()), `${turns} turns`).toBe('cancelled');
      expect(a.state).toBe('running');
    }
    expect(w.host.calls.join()).not.toContain('signal');
    expect(w.registered()).toEqual(['web-a-web-http']);
  });

  it('AL-3: the gate is looked at again just before the first signal; lost, the drain is called off', async () => {
    const w = world();
    const a = await w.running('a', { ...SERVED, shutdown: { shutdownDelay: '1m' } });
    const ready = view('running', { reached: 'healthy' });
    const next = scriptedPeer([ready], [ready], [view('running', { reached: 'prepared' })]);
    const stop = a.stop({ reason: 'replaced', after: wait(w, next, { gate: 'healthy' }) });
    await w.clock.advance('59s');
    expect([a.state, w.registered()]).toEqual(['draining', []]);
    const report = await w.clock.until(stop.result);
    expect(report).toMatchObject({ outcome: 'kept', gate: { outcome: 'failed', cause: { code: 'ERR_GATE_MISSED' } } });
    expect([a.state, w.registered(), w.host.calls.join().includes('signal')]).toEqual([
      'running',
      ['web-a-web-http'],
      false,
    ]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-3: a successor that ends while the previous drains calls the drain off at once', async () => {
    const w = world();
    const a = await w.running('a', { ...SERVED, shutdown: { shutdownDelay: '1h' } });
    const ready = view('prepared', { reached: 'prepared' });
    const next = scriptedPeer([ready], [ready, view('rejected')]);
    const stop = a.stop({ reason: 'replaced', after: wait(w, next) });
    await w.clock.advance('1m');
    const from = w.clock.now();
    await next.next();
    expect(await w.clock.until(stop.result)).toMatchObject({ outcome: 'kept' });
    expect([w.clock.now() - from, a.state, w.registered()]).toEqual([0, 'running', ['web-a-web-http']]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-3: not to see the successor before the signal keeps the previous', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    const ready = view('prepared', { reached: 'prepared' });
    const next = scriptedPeer([ready], [ready], ['deaf']);
    const stop = a.stop({ reason: 'replaced', after: wait(w, next) });
    expect(await w.clock.until(stop.result)).toMatchObject({ outcome: 'kept' });
    expect(w.host.calls.join()).not.toContain('signal');
  });

  it('AL-3: a bypass in the drain does not look at the gate any more', async () => {
    const w = world();
    const a = await w.running('a', { ...SERVED, shutdown: { shutdownDelay: '1m' } });
    const ready = view('prepared', { reached: 'prepared' });
    const next = scriptedPeer([ready], [ready, view('rejected')], [view('rejected')]);
    const stop = a.stop({ reason: 'replaced', after: wait(w, next) });
    await w.clock.advance('30s');
    a.stop({ reason: 'operator' });
    await next.next();
    expect(await w.clock.until(stop.result)).toMatchObject({ outcome: 'stopped' });
    expect(w.host.calls).toContain('signal a/web SIGTERM');
  });

  it('AL-3 AL-5: a bypass while the gate is being looked at counts', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    const ready = view('prepared', { reached: 'prepared' });
    const next = scriptedPeer([ready], [ready], ['deaf']);
    const stop = a.stop({ reason: 'replaced', after: wait(w, next) });
    await w.clock.advance('1s');
    expect([a.state, next.state.watched]).toEqual(['draining', 3]);
    a.stop({ reason: 'operator' });
    expect(await w.clock.until(stop.result)).toMatchObject({ outcome: 'stopped' });
    expect(w.host.calls).toContain('signal a/web SIGTERM');
  });

  it('AL-4 AL-8: a held one that dies by itself has failed, and the stop is over once the successor is settled', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    const ready = view('prepared', { reached: 'prepared' });
    const next = scriptedPeer([view('prestarting'), ready]);
    const stop = a.stop({ reason: 'replaced', after: wait(w, next) });
    await turn();
    w.host.die('a/web');
    await turn();
    expect([a.state, w.registered()]).toEqual(['failed', []]);
    expect(await stop.cancel()).toBe('too-late');
    expect(await stop.result).toMatchObject({ outcome: 'stopped', tasks: [] });
    expect(w.clock.pending).toBe(0);
  });
});
