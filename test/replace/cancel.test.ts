import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { replace } from 'handover';
import { turn } from '../alloc/scripted-peer.js';
import { SERVED, world } from '../alloc/world.js';
import { DRAINS, ORDERS, under } from './under-way.js';

describe('cancel', () => {
  it.each(ORDERS)(
    'RO-1 G-4 case C10 S51: before the commit point (%s, preparing): undone, kept-previous',
    async (order) => {
      const w = await under(order, { script: { prestart: 'hang' } });
      const reason = new Error('changed my mind');
      w.control.abort(reason);
      const result = await w.clock.until(w.done);
      expect(result).toMatchObject({ outcome: 'kept-previous', stop: { outcome: 'cancelled' } });
      expect(result.cause?.cause).toBe(reason);
      expect([result.serving, w.a.state, w.b.state, w.host.remains()]).toEqual([
        w.a,
        'running',
        'discarded',
        ['a/web'],
      ]);
      expect([w.registered(), getEventListeners(w.control.signal, 'abort').length]).toEqual([['web-a-web-http'], 0]);
      expect(await w.leftovers()).toBe(0);
    },
  );

  it('RO-1: before it is begun: nothing is touched', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    const from = w.sequence().length;
    const signal = AbortSignal.abort(new Error('too early'));
    const result = await w.clock.until(replace(a, w.alloc('b', SERVED), { signal }));
    expect(result).toMatchObject({ outcome: 'kept-previous', cause: { cause: new Error('too early') } });
    expect([a.state, w.sequence().slice(from).join()]).toEqual(['running', '']);
    expect(w.states('a').at(-1)).toBe('running');
    expect(await w.leftovers()).toBe(0);
  });

  it('RO-1 stop-first: while the previous drains: it is registered again', async () => {
    const w = await under('stop-first', { settings: DRAINS });
    await w.clock.advance('30s');
    expect([w.a.state, w.b.state, w.registered()]).toEqual(['draining', 'waiting', []]);
    w.control.abort();
    const result = await w.clock.until(w.done);
    expect(result).toMatchObject({ outcome: 'kept-previous', outage: { ms: 30_000 } });
    expect([w.a.state, w.host.remains(), w.registered()]).toEqual(['running', ['a/web'], ['web-a-web-http']]);
    expect(await w.leftovers()).toBe(0);
  });

  it('RO-1 stop-first: after the first signal: too late, it goes on', async () => {
    const w = await under('stop-first', { ofA: { exitDelay: '3s' } });
    await w.clock.advance('1s');
    expect(w.a.state).toBe('stopping');
    w.control.abort();
    expect((await w.clock.until(w.done)).outcome).toBe('replaced');
    expect([w.host.remains(), getEventListeners(w.control.signal, 'abort').length]).toEqual([['b/web'], 0]);
    expect(await w.leftovers()).toBe(0);
  });

  it('RO-1 stop-first: an exit once draining is the commit point too', async () => {
    const w = await under('stop-first', { settings: DRAINS, script: { start: '1m' } });
    await w.clock.advance('30s');
    w.host.die('a/web');
    await turn();
    expect(w.a.state).toBe('stopped');
    w.control.abort();
    expect((await w.clock.until(w.done)).outcome).toBe('replaced');
  });

  it('RO-1: kept-previous requires the previous to run: cancelled after it died, it is failed', async () => {
    const w = await under('stop-first', { script: { prestart: 'hang' } });
    w.host.die('a/web');
    await turn();
    w.control.abort(new Error('enough'));
    const result = await w.clock.until(w.done);
    expect(result).toMatchObject({ outcome: 'failed', serving: undefined, cause: { cause: new Error('enough') } });
    expect([w.b.state, w.host.remains(), w.registered()]).toEqual(['discarded', ['a/web'], []]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-8: cancelled after it died and the next has begun to start: too late', async () => {
    const w = await under('stop-first', { script: { prestart: '1m', start: '1m' } });
    w.host.die('a/web');
    await w.clock.advance('90s');
    expect(w.b.state).toBe('starting');
    w.control.abort();
    expect((await w.clock.until(w.done)).outcome).toBe('replaced');
    expect(await w.leftovers()).toBe(0);
  });

  it.each([
    { at: 'starting', script: { start: '1h' } },
    { at: 'running', script: {} },
  ] as const)('RO-1 start-first: the next is $at and not healthy yet: it is removed', async ({ at, script }) => {
    const w = await under('start-first', { script });
    await w.clock.advance('5s');
    expect(w.b.state).toBe(at);
    w.control.abort();
    const result = await w.clock.until(w.done);
    expect(result.outcome).toBe('kept-previous');
    expect([w.a.state, w.host.remains(), w.registered()]).toEqual(['running', ['a/web'], ['web-a-web-http']]);
    expect(await w.leftovers()).toBe(0);
  });

  it('RO-1 start-first: once the next is healthy and registered it is too late', async () => {
    const w = await under('start-first', { settings: DRAINS });
    await w.clock.advance('30s');
    expect([w.a.state, w.b.status().reached]).toEqual(['draining', 'healthy']);
    w.control.abort();
    expect((await w.clock.until(w.done)).outcome).toBe('replaced');
    expect(await w.leftovers()).toBe(0);
  });

  it('RO-1: nothing to replace: the start is undone', async () => {
    const w = world();
    w.host.script('b', { prestart: 'hang' });
    const control = new AbortController();
    const done = replace(undefined, w.alloc('b', SERVED), { signal: control.signal });
    await turn();
    control.abort(new Error('enough'));
    expect(await w.clock.until(done)).toMatchObject({ outcome: 'failed', cause: { cause: new Error('enough') } });
    expect([w.host.remains(), w.clock.pending]).toEqual([[], 0]);
  });

  it('RO-1: the stop run of the previous is called off by hand: the same', async () => {
    const w = await under('stop-first', { script: { prestart: 'hang' } });
    expect(await w.a.stopping!.cancel()).toBe('cancelled');
    const result = await w.clock.until(w.done);
    expect(result).toMatchObject({ outcome: 'kept-previous', stop: { outcome: 'cancelled' } });
    expect([w.b.state, w.host.remains()]).toEqual(['discarded', ['a/web']]);
    expect(await w.leftovers()).toBe(0);
  });
});
