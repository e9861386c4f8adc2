import { describe, expect, it } from 'vitest';
import { turn } from '../alloc/scripted-peer.js';
import { SERVED } from '../alloc/world.js';
import { DRAINS, ORDERS, under } from './under-way.js';

describe('a stop for another reason', () => {
  it.each(ORDERS)('AL-5: an operator’s stop in the hold ends both (%s)', async (order) => {
    const w = await under(order, { script: { prestart: 'hang' } });
    const report = w.a.stop({ reason: 'operator' }).result;
    const result = await w.clock.until(w.done);
    expect(result).toMatchObject({
      outcome: 'stopped',
      serving: undefined,
      stop: { outcome: 'stopped', gate: { outcome: 'bypassed' } },
    });
    expect(await report).toBe(result.stop);
    expect([w.b.state, w.host.running(), w.registered()]).toEqual(['discarded', [], []]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-5: an operator’s stop while it drains', async () => {
    const w = await under('stop-first', { settings: DRAINS });
    await w.clock.advance('30s');
    w.a.stop({ reason: 'operator' });
    expect((await w.clock.until(w.done)).outcome).toBe('stopped');
    expect([w.host.remains(), w.registered()]).toEqual([['a/web'], []]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-5: a successor that runs and is not healthy yet goes too; one that is healthy stays', async () => {
    const early = await under('start-first', { settings: DRAINS });
    await early.clock.advance('5s');
    early.a.stop({ reason: 'drain' });
    expect((await early.clock.until(early.done)).outcome).toBe('stopped');
    expect(early.host.running()).toEqual([]);
    expect(await early.leftovers()).toBe(0);

    const late = await under('start-first', { settings: DRAINS });
    await late.clock.advance('30s');
    late.a.stop({ reason: 'drain' });
    expect((await late.clock.until(late.done)).outcome).toBe('replaced');
    expect(late.host.remains()).toEqual(['b/web']);
    expect(await late.leftovers()).toBe(0);
  });

  it.each(ORDERS)('AL-5: unhealthy: the previous is stopped at once, the cure comes up (%s)', async (order) => {
    const w = await under(order, { script: { prestart: '10m' } });
    w.a.stop({ reason: 'unhealthy' });
    await w.clock.advance('1m');
    expect([w.a.state, w.b.state]).toEqual(['stopped', 'prestarting']);
    expect(await w.clock.until(w.done)).toMatchObject({ outcome: 'replaced', outage: { ms: 600_000 } });
    expect(w.host.remains()).toEqual(['b/web']);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-5: killNow() in the hold: killed, and the next comes up all the same', async () => {
    const w = await under('stop-first', { script: { prestart: '10m' } });
    w.a.stopping!.killNow();
    const result = await w.clock.until(w.done);
    expect(result).toMatchObject({ outcome: 'replaced', stop: { tasks: [{ outcome: 'forced' }] } });
    expect(w.host.calls).toContain('kill a/web');
    expect(w.host.calls.join()).not.toContain('signal a/web');
    expect(await w.leftovers()).toBe(0);
  });

  it('SS-8: skipDelay() by hand', async () => {
    const w = await under('stop-first', { settings: { ...SERVED, shutdown: { shutdownDelay: '1h' } } });
    const from = w.clock.now();
    w.a.stopping!.skipDelay();
    expect((await w.clock.until(w.done)).outcome).toBe('replaced');
    expect(w.clock.now() - from).toBeLessThan(20_000);
  });

  it.each(ORDERS)('AL-4: the next one is stopped by hand while it comes up: kept-previous (%s)', async (order) => {
    const w = await under(order, { script: { prestart: 'hang' } });
    w.b.stop({ reason: 'operator' });
    const result = await w.clock.until(w.done);
    expect(result).toMatchObject({ outcome: 'kept-previous', cause: { code: 'ERR_GATE_MISSED' } });
    expect([w.a.state, w.host.remains(), w.registered()]).toEqual(['running', ['a/web'], ['web-a-web-http']]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-5: the previous is stopped while its drain is being called off: stopped', async () => {
    const w = await under('stop-first', { settings: DRAINS });
    await w.clock.advance('30s');
    w.registrar.hangNext(1);
    w.control.abort();
    await turn();
    w.a.stop({ reason: 'operator' });
    const result = await w.clock.until(w.done);
    expect(result.outcome).toBe('stopped');
    await w.clock.until(w.a.until('terminal'));
    expect([w.host.running(), w.registered()]).toEqual([[], []]);
    expect(await w.leftovers()).toBe(0);
  });
});
