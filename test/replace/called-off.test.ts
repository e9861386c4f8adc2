import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { type AllocLifecycle, type AllocSettings, type ReplaceOptions, replace } from 'handover';
import type { FakeScript } from 'handover/testing';
import { turn } from '../alloc/scripted-peer.js';
import { SERVED, type World, outcomeOf, world } from '../alloc/world.js';

type Order = 'stop-first' | 'start-first';

interface Run extends World {
  readonly a: AllocLifecycle;
  readonly b: AllocLifecycle;
  readonly control: AbortController;
  readonly done: ReturnType<typeof replace>;
}

/** A replacement of `a` by `b` that is under way. */
async function under(
  order: Order,
  {
    script = {},
    ofA = {},
    settings = SERVED,
    ...o
  }: ReplaceOptions & { script?: FakeScript; ofA?: FakeScript; settings?: AllocSettings } = {},
): Promise<Run> {
  const w = world();
  const spec = order === 'stop-first' ? { port: 8080 } : {};
  const a = await w.running('a', settings, spec);
  w.host.script('a', ofA);
  w.host.script('b', script);
  const b = w.alloc('b', settings, spec);
  const control = new AbortController();
  const done = replace(a, b, { order, signal: control.signal, ...o });
  await turn();
  return { ...w, a, b, control, done };
}

const ORDERS: readonly Order[] = ['stop-first', 'start-first'];
const DRAINS: AllocSettings = { ...SERVED, shutdown: { shutdownDelay: '1m', killTimeout: '1m' } };

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

describe('detach', () => {
  const SCENES = [
    { scene: 'preparing', order: 'stop-first', script: { prestart: 'hang' }, after: 0, serves: 'a', left: ['a/web'] },
    { scene: 'draining', order: 'stop-first', script: {}, after: '30s', serves: undefined, left: ['a/web', 'b/web'] },
    { scene: 'stopping', order: 'stop-first', script: {}, after: '80s', serves: undefined, left: ['a/web', 'b/web'] },
    {
      scene: 'starting',
      order: 'start-first',
      script: { start: '1h' },
      after: '1s',
      serves: 'a',
      left: ['a/web', 'b/web'],
    },
    { scene: 'draining', order: 'start-first', script: {}, after: '30s', serves: 'b', left: ['a/web', 'b/web'] },
  ] as const;

  it.each(SCENES)(
    'G-4: both are let go of ($order, $scene): the result is a value, nothing is sent or undone',
    async (row) => {
      const w = await under(row.order, { script: row.script, settings: DRAINS, ofA: { exitDelay: '30m' } });
      await w.clock.advance(row.after);
      const [signals, registered] = [
        w.host.calls.filter((call) => /^(signal|kill|discard|destroy)/.test(call)),
        w.registered(),
      ];
      await w.a.detach();
      await w.b.detach();
      const result = await w.done;
      expect([result.outcome, result.serving?.id]).toEqual(['detached', row.serves]);
      expect(w.clock.pending).toBe(row.scene === 'stopping' ? 1 : 0);
      expect(w.host.remains()).toEqual(row.left);
      expect([w.host.calls.filter((call) => /^(signal|kill|discard|destroy)/.test(call)), w.registered()]).toEqual([
        signals,
        registered,
      ]);
      expect(getEventListeners(w.control.signal, 'abort')).toEqual([]);
      expect(w.log.types().filter((type) => type === 'replace:ended')).toHaveLength(1);
    },
  );

  it('G-4: only the next is let go of: the previous is not stopped for it', async () => {
    const w = await under('stop-first', { script: { prestart: 'hang' } });
    await w.b.detach();
    const result = await w.clock.until(w.done);
    expect([result.outcome, result.serving?.id, w.a.state]).toEqual(['detached', 'a', 'running']);
    expect(w.registered()).toEqual(['web-a-web-http']);
    expect(await w.leftovers()).toBe(0);
  });

  it('G-4: only the next is let go of, while the previous drains', async () => {
    const w = await under('stop-first', { settings: DRAINS });
    await w.clock.advance('30s');
    await w.b.detach();
    const result = await w.clock.until(w.done);
    expect([result.outcome, result.serving?.id, w.a.state]).toEqual(['detached', 'a', 'running']);
    expect([w.registered(), w.host.running()]).toEqual([['web-a-web-http'], ['a/web']]);
    expect(await w.leftovers()).toBe(0);
  });

  it('G-4: only the previous is let go of: the result comes at once, the next is in its owner’s hands', async () => {
    const w = await under('stop-first', { script: { prestart: '1m' } });
    await w.a.detach();
    expect((await w.done).outcome).toBe('detached');
    await w.clock.advance('2m');
    expect([w.b.state, w.host.running()]).toEqual(['waiting', ['a/web']]);
    await w.b.discard();
    await turn();
    expect([w.host.remains(), w.clock.pending]).toEqual([['a/web'], 0]);
  });

  it('G-4: a replacement of nothing', async () => {
    const w = world();
    const b = w.alloc('b', SERVED);
    const done = outcomeOf(replace(undefined, b));
    await w.clock.advance('1s');
    await b.detach();
    expect((await done).value).toMatchObject({ outcome: 'detached', serving: { id: 'b' } });
    expect([w.host.running(), w.clock.pending]).toEqual([['b/web'], 0]);
  });
});
