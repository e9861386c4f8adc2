import { describe, expect, it } from 'vitest';
import { type AllocView, replace } from 'handover';
import { turn } from '../alloc/scripted-peer.js';
import { SERVED, noSuchTag, world } from '../alloc/world.js';
import { PORT, pair } from './one-port.js';

describe('stop-first, when the previous one or the registrar does not do as it should', () => {
  it('SS-6: a previous one that ignores TERM is killed, and the next starts only then', async () => {
    const w = await pair({ ...SERVED, shutdown: { killTimeout: '3s' } });
    w.host.script('a', { ignores: ['SIGTERM'] });
    const result = await w.clock.until(replace(w.a, w.b));
    expect(result).toMatchObject({
      outcome: 'replaced',
      stop: { tasks: [{ outcome: 'forced' }] },
      outage: { ms: 3_000 },
    });
    expect(w.since().slice(1, 6)).toEqual([
      ...['deregistered web-a-web-http', 'signal a/web SIGTERM', 'kill a/web', 'exit a/web', 'start b/web'],
    ]);
    expect(await w.leftovers()).toBe(0);
  });

  it('SS-1 SS-3: deregister acknowledged, then delay, then signal, then kill timeout, then SIGKILL', async () => {
    const w = await pair({ ...SERVED, shutdown: { shutdownDelay: '7s', killTimeout: '3s' } });
    w.host.script('a', { ignores: ['SIGTERM'] });
    w.host.script('b', { prestart: '1m' });
    const { timeline } = await w.clock.until(replace(w.a, w.b));
    const from = timeline[0]!.at;
    const steps = timeline.filter(({ id }) => id === 'a').map(({ step, at, ms }) => [step, at - from, ms]);
    expect(steps).toEqual([
      ['running', 0, 0],
      ['held', 0, 60_000],
      ['stop: deregister', 60_000, 0],
      ['stop: drain', 60_000, 7_000],
      ['draining', 60_000, 7_000],
      ['stop: signal', 67_000, 3_000],
      ['stopping', 67_000, 3_000],
      ['stop: kill', 70_000, 0],
      ['stop: confirm', 70_000, 0],
      ['stopped', 70_000, 0],
    ]);
  });

  it('AL-2 SS-6: unkillable never releases silently: the next waits, and starts when it ends', async () => {
    const w = await pair({ ...SERVED, shutdown: { killTimeout: '1s' } });
    w.host.script('a', { ignores: ['SIGTERM', 'SIGKILL'] });
    const done = replace(w.a, w.b);
    await w.clock.advance('2h');
    expect([w.a.state, w.b.state, w.host.running()]).toEqual(['unkillable', 'waiting', ['a/web']]);
    w.host.die('a/web');
    const result = await w.clock.until(done);
    expect(result).toMatchObject({ outcome: 'replaced', stop: { outcome: 'unkillable' } });
    expect(w.host.remains()).toEqual(['b/web']);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-7: unkillable, and then cancelled: failed, without the next', async () => {
    const w = await pair({ ...SERVED, shutdown: { killTimeout: '1s' } });
    w.host.script('a', { ignores: ['SIGTERM', 'SIGKILL'] });
    const control = new AbortController();
    const done = replace(w.a, w.b, { signal: control.signal });
    await w.clock.advance('1h');
    control.abort(new Error('enough'));
    const result = await w.clock.until(done);
    expect(result).toMatchObject({ outcome: 'failed', serving: undefined, cause: { cause: new Error('enough') } });
    expect([w.a.state, w.b.state, w.host.remains()]).toEqual(['unkillable', 'discarded', ['a/web']]);
    expect(await w.leftovers()).toBe(0);
  });

  it.each([
    { when: 'before', settings: { shutdownDelay: '1h' }, exitDelay: 0, outcome: 'kept-previous', calls: 2 },
    { when: 'after', settings: { killTimeout: '1h' }, exitDelay: '30m', outcome: 'replaced', calls: 6 },
  ] as const)(
    'AL-2: the stop budget has passed $when the first signal: $outcome',
    async ({ settings, exitDelay, outcome, calls }) => {
      const w = await pair({ ...SERVED, shutdown: settings });
      w.host.script('a', { exitDelay });
      // A budget that is too small for what the stop takes, as if the stop had been held up.
      const watch = w.a.watch.bind(w.a);
      w.a.watch = async function* (call) {
        for await (const { seen } of watch(call)) yield { seen: { ...(seen as AllocView), stopBudget: 60_000 } };
      };
      const result = await w.clock.until(replace(w.a, w.b));
      expect(result).toMatchObject({
        outcome,
        ...(outcome === 'replaced' ? {} : { cause: { code: 'ERR_PREVIOUS_RUNNING' } }),
      });
      expect(result.outage?.ms).toBe(outcome === 'replaced' ? 1_800_000 : 60_000);
      expect(w.since().filter((call) => !call.startsWith('registered') && !call.startsWith('discard'))).toHaveLength(
        calls,
      );
      expect(await w.leftovers()).toBe(0);
    },
  );

  it('AL-8 S56: the previous dies by itself while the next prepares: it starts as soon as it is prepared', async () => {
    const w = await pair();
    w.host.script('b', { prestart: '1m' });
    const from = w.clock.now();
    const done = replace(w.a, w.b);
    await w.clock.advance('20s');
    w.host.die('a/web', { code: 1 });
    const result = await w.clock.until(done);
    expect(result).toMatchObject({
      outcome: 'replaced',
      outage: { ms: 40_000 },
      stop: { outcome: 'stopped', tasks: [] },
    });
    expect(w.since()).toEqual([
      ...['prestart b/web', 'exit a/web', 'deregistered web-a-web-http', 'start b/web', 'registered web-b-web-http'],
      'destroy a/web',
    ]);
    expect([w.a.state, w.clock.now() - from]).toEqual(['failed', 70_000]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-8: both fail: failed, with the cause of the next', async () => {
    const w = await pair();
    w.host.script('b', { prestart: 'hang' });
    const done = replace(w.a, w.b, { gateDeadline: '1m' });
    await w.clock.advance('20s');
    w.host.die('a/web');
    const result = await w.clock.until(done);
    expect(result).toMatchObject({ outcome: 'failed', serving: undefined });
    expect(result.cause).toBeDefined();
    expect([w.host.remains(), w.registered()]).toEqual([['a/web'], []]);
    expect(await w.leftovers()).toBe(0);
  });

  it('SS-3: a registrar that is down: the previous is stopped after its bounds, the next replaces it and is registered when it can be', async () => {
    const w = await pair();
    w.registrar.failNext(60);
    const result = await w.clock.until(replace(w.a, w.b));
    expect([result.outcome, w.b.status().reached]).toEqual(['replaced', 'prepared']);
    expect(result.serving).toBe(w.b);
    expect(w.host.remains()).toEqual(['b/web']);
    await w.clock.advance('1h');
    expect([w.registered(), w.b.status().reached]).toEqual([['web-b-web-http'], 'healthy']);
    expect(await w.leftovers()).toBe(0);
  });

  it('SS-3 onDeregisterError abort: kept-previous, and the cause is the registrar', async () => {
    const w = await pair({ ...SERVED, shutdown: { onDeregisterError: 'abort' } });
    w.registrar.failNext(200);
    const result = await w.clock.until(replace(w.a, w.b));
    expect(result).toMatchObject({ outcome: 'kept-previous', cause: { code: 'ERR_DEREGISTER_FAILED' } });
    expect([w.host.remains(), w.a.state]).toEqual([['a/web'], 'running']);
    await w.clock.advance('2h');
    expect(w.registered()).toEqual(['web-a-web-http']);
    expect(await w.leftovers()).toBe(0);
  });

  it('RO-1: nothing to replace, or what has ended: the next is started, what is left of the other removed', async () => {
    const w = world();
    const a = w.alloc('a', SERVED, PORT);
    const first = await w.clock.until(replace(undefined, a));
    expect(first).toMatchObject({ outcome: 'replaced' });
    expect([first.serving, first.outage, first.stop]).toEqual([a, undefined, undefined]);
    w.host.die('a/web');
    await turn();
    const second = await w.clock.until(replace(a, w.alloc('b', SERVED, PORT)));
    expect(second.outcome).toBe('replaced');
    expect(w.host.remains()).toEqual(['b/web']);
    w.host.script('c', { prestart: noSuchTag() });
    const third = await w.clock.until(replace(undefined, w.alloc('c', SERVED)));
    expect(third).toMatchObject({ outcome: 'failed', serving: undefined, cause: { code: 'ERR_PRESTART_FAILED' } });
    expect(await w.leftovers()).toBe(0);
  });

  it('RO-1: what is left of the previous one cannot be removed: replaced all the same, with a warning', async () => {
    const w = await pair();
    w.a.handle('web')!.destroy = () => Promise.reject(new Error('the engine does not answer'));
    expect((await w.clock.until(replace(w.a, w.b))).outcome).toBe('replaced');
    const warnings = w.log.events.flatMap((event) => (event.type === 'warning' ? [event.reason.message] : []));
    expect(warnings.join()).toContain('destroy() it again: the engine does not answer');
  });
});
