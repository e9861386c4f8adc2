import { describe, expect, it } from 'vitest';
import { type AllocLifecycle, AllocLifecycle as Alloc, replace } from 'handover';
import { turn } from '../alloc/scripted-peer.js';
import { SERVED, outcomeOf, refusedStart, world } from '../alloc/world.js';
import { pair } from './one-port.js';
import { DRAINS, ORDERS, under } from './under-way.js';

describe('replaced', () => {
  it.each(ORDERS)('RO-1 %s: the next that is lost while the previous is removed is no success', async (order) => {
    const w = await under(order);
    const handle = w.a.handle('web')!;
    handle.destroy = () => {
      w.host.die('b/web');
      return new Promise((resolve) => w.clock.timer(1_000, resolve));
    };
    const result = await w.clock.until(w.done);
    expect(result).toMatchObject({ outcome: 'failed', cause: { code: 'ERR_ALLOC_ENDED' } });
    expect(result.serving).toBeUndefined();
    expect([w.a.state, w.b.state]).toEqual(['stopped', 'failed']);
  });

  it.each(ORDERS)('RO-1 %s: one that is lost after it has been told was what served then', async (order) => {
    const w = await under(order);
    const { outcome, serving, outage } = await w.clock.until(w.done);
    expect([outcome, serving, outage?.open]).toEqual(['replaced', w.b, undefined]);
    w.host.die('b/web');
    await turn();
    expect(w.b.state).toBe('failed');
  });

  it('RO-1: a stop of the next that is called off meanwhile does not spoil it', async () => {
    const w = await under('start-first', { settings: DRAINS });
    w.a.handle('web')!.destroy = async () => {
      const stop = w.b.stop({ reason: 'operator' });
      w.clock.timer(1_000, () => void stop.cancel());
    };
    const { outcome, serving } = await w.clock.until(w.done);
    expect([outcome, serving?.id, w.states('b').slice(-2)]).toEqual(['replaced', 'b', ['draining', 'running']]);
  });

  it('AL-2: a previous one that cannot be killed is told as what remains', async () => {
    const w = await under('start-first', { ofA: { ignores: ['SIGTERM', 'SIGKILL'] } });
    const result = await w.clock.until(w.done);
    expect(result).toMatchObject({ outcome: 'replaced', stop: { outcome: 'unkillable' }, remains: ['a'] });
    expect(result.serving).toBe(w.b);
    expect(JSON.stringify(w.log.events)).toContain('What is left of alloc a could not be removed');
    w.host.die('a/web');
    await w.a.until('terminal');
    await w.a.destroy();
    expect(w.host.remains()).toEqual(['b/web']);
  });

  it('RO-1: one that cannot be removed is told as what remains, and nothing else is', async () => {
    const w = await under('stop-first');
    w.a.handle('web')!.destroy = () => Promise.reject(new Error('the disk is busy'));
    expect(await w.clock.until(w.done)).toMatchObject({ outcome: 'replaced', remains: ['a'] });
    const clean = await under('stop-first');
    expect(await clean.clock.until(clean.done)).not.toHaveProperty('remains');
  });

  it('ST-2: what an earlier process only prepared of the previous one goes with it', async () => {
    const w = world();
    const before = w.alloc('a');
    await before.prestart();
    await before.detach();
    const tasks = [{ name: 'web', driver: w.host.driver(), spec: { version: 'a' } }];
    const a = await Alloc.open({ id: 'a', tasks }, w.env);
    const { outcome } = await w.clock.until(replace(a, w.alloc('b')));
    expect([outcome, w.host.remains()]).toEqual(['replaced', ['b/web']]);
  });
});

describe('the outage', () => {
  it('RO-1: is open while nobody serves, and says so in JSON', async () => {
    const w = await pair();
    w.host.script('b', { start: refusedStart() });
    const result = await w.clock.until(replace(w.a, w.b));
    expect(result).toMatchObject({ outcome: 'failed', outage: { open: true } });
    const [event] = w.log.events.filter(({ type }) => type === 'replace:ended');
    expect(JSON.parse(JSON.stringify(event))).toMatchObject({ result: { outage: { open: true } } });
  });

  it('RO-1: is over when the next serves', async () => {
    const w = await pair();
    const { outage } = await w.clock.until(replace(w.a, w.b));
    expect(Object.keys(outage ?? {})).toEqual(['from', 'ms']);
  });
});

describe('a start that never ends', () => {
  const hanging = async () => {
    const w = await under('stop-first', { script: { start: 'never' } });
    await w.clock.advance('1m');
    expect([w.a.state, w.b.state]).toEqual(['stopped', 'starting']);
    return w;
  };

  it('G-8 AL-9: after the commit it has the health deadline, which is shown, and ends failed', async () => {
    const w = await hanging();
    const wait = w.b.status().wait!;
    expect(wait).toMatchObject({ for: 'health', why: 'Its task is being started' });
    const result = await w.clock.until(w.done);
    expect(result).toMatchObject({ outcome: 'failed', cause: { code: 'ERR_START_FAILED' }, outage: { open: true } });
    expect(result.cause?.message).toContain('not started within 5m');
    expect(w.clock.wall()).toBe(wait.until);
    expect([w.b.state, w.host.running(), w.clock.pending]).toEqual(['failed', [], 0]);
  });

  it('G-8: killNow() on the next ends it at once', async () => {
    const w = await hanging();
    const from = w.clock.now();
    const stop = w.b.stop({ reason: 'operator' });
    await turn();
    expect(stop.wait).toMatchObject({ for: 'exit', until: w.b.status().wait?.until });
    stop.killNow();
    expect(await w.clock.until(w.done)).toMatchObject({ outcome: 'failed' });
    expect([w.b.state, w.clock.now() - from]).toEqual(['discarded', 0]);
  });

  it('G-8: without a deadline it is waited for, visibly', async () => {
    const w = await under('stop-first', {
      script: { start: 'never' },
      settings: { ...SERVED, health: { healthyDeadline: 'never' } },
    });
    await w.clock.advance('1d');
    expect(w.b.status()).toMatchObject({ state: 'starting', wait: { until: null } });
    w.b.stop({ reason: 'operator' }).killNow();
    expect((await w.clock.until(w.done)).outcome).toBe('failed');
  });
});

describe('what is no argument of replace()', () => {
  it.each([
    ['next', () => [undefined, undefined]],
    ['current', () => [null, null]],
    ['next', (a: AllocLifecycle) => [a, {}]],
    ['current', (a: AllocLifecycle) => [5, a]],
    ['next', (a: AllocLifecycle) => [a, null]],
    ['next.id', (a: AllocLifecycle) => [a, a]],
    ['(options)', (a: AllocLifecycle, b: AllocLifecycle) => [a, b, null]],
    ['(options)', (a: AllocLifecycle, b: AllocLifecycle) => [a, b, 5]],
    ['signal', (a: AllocLifecycle, b: AllocLifecycle) => [a, b, { signal: 5 }]],
    ['order', (a: AllocLifecycle, b: AllocLifecycle) => [a, b, { order: 'both' }]],
  ] as const)('G-2: %s', async (path, args) => {
    const w = world();
    const [a, b] = [w.alloc('a'), w.alloc('b')];
    const { error } = await outcomeOf((replace as (...all: unknown[]) => Promise<unknown>)(...args(a, b)));
    expect(error).toMatchObject({ code: 'ERR_INVALID_OPTION', details: { path } });
    expect([a.state, b.state, w.host.calls]).toEqual(['pending', 'pending', []]);
  });
});
