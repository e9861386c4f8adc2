import { describe, expect, it } from 'vitest';
import { type AllocSettings, type AllocView, replace } from 'handover';
import { turn } from '../alloc/scripted-peer.js';
import { SERVED, type World, noSuchTag, refusedStart, world } from '../alloc/world.js';

const PORT = { port: 8080 };

/** `a` serves on one fixed port; `b` is to take it over. */
async function pair(settings: AllocSettings = SERVED, w: World = world()) {
  const a = await w.running('a', settings, PORT);
  const b = w.alloc('b', settings, PORT);
  const from = w.sequence().length;
  return { ...w, a, b, since: () => w.sequence().slice(from) };
}

/** `a` is as it was: it runs, it is registered, nothing else is there, and nothing goes on. */
async function untouched(w: Awaited<ReturnType<typeof pair>>): Promise<void> {
  expect([w.a.state, w.a.stopping, w.host.remains(), w.registered()]).toEqual([
    ...['running', undefined, ['a/web'], ['web-a-web-http']],
  ]);
  expect(w.host.calls.join()).not.toMatch(/signal a|kill a/);
  expect(w.log.types().filter((type) => type === 'replace:ended')).toHaveLength(1);
  expect(await w.leftovers()).toBe(0);
}

describe('stop-first', () => {
  it('RO-1 AL-2 AL-3 S42 S47: prepare, deregister, signal, start, register, destroy, in this order', async () => {
    const w = await pair();
    const result = await w.clock.until(replace(w.a, w.b));
    expect(w.since()).toEqual([
      'prestart b/web',
      'deregistered web-a-web-http',
      'signal a/web SIGTERM',
      'exit a/web',
      'start b/web',
      'registered web-b-web-http',
      'destroy a/web',
    ]);
    expect(result).toMatchObject({ outcome: 'replaced', stop: { outcome: 'stopped', gate: { outcome: 'reached' } } });
    expect(result.serving).toBe(w.b);
    expect(result).not.toHaveProperty('cause');
    expect([w.host.remains(), w.registered()]).toEqual([['b/web'], ['web-b-web-http']]);
    expect(w.states('a').slice(-4)).toEqual(['held', 'draining', 'stopping', 'stopped']);
    expect(w.states('b')).toEqual(['prestarting', 'prepared', 'waiting', 'starting', 'running']);
    expect(w.log.types().filter((type) => type === 'replace:ended')).toHaveLength(1);
    expect(await w.leftovers()).toBe(0);
  });

  it('DP-1 S42: a slow preparation: the previous is registered and unsignalled to its very end', async () => {
    const w = await pair();
    w.host.script('b', { prestart: '10m' });
    const done = replace(w.a, w.b);
    await w.clock.advance('9m');
    expect([w.a.state, w.b.state, w.registered()]).toEqual(['held', 'prestarting', ['web-a-web-http']]);
    expect(w.since()).toEqual(['prestart b/web']);
    expect((await w.clock.until(done)).outcome).toBe('replaced');
  });

  it('RO-1: a next one that was prepared before by the embedder', async () => {
    const w = await pair();
    await w.b.prestart();
    expect((await w.clock.until(replace(w.a, w.b))).outcome).toBe('replaced');
    expect(w.since().filter((call) => call.startsWith('prestart'))).toEqual(['prestart b/web']);
  });

  it('RO-1 gate none: the stop does not wait for the preparation, the start waits for both', async () => {
    const w = await pair();
    w.host.script('b', { prestart: '1m' });
    const result = await w.clock.until(replace(w.a, w.b, { gate: 'none' }));
    expect(result.outcome).toBe('replaced');
    expect(w.since().slice(0, 5)).toEqual([
      ...['prestart b/web', 'deregistered web-a-web-http', 'signal a/web SIGTERM', 'exit a/web', 'start b/web'],
    ]);
  });

  it.each([
    { what: 'cannot be prepared', script: { prestart: noSuchTag() }, settings: {}, code: 'ERR_PRESTART_FAILED' },
    {
      what: 'is not prepared in its time',
      script: { prestart: 'hang' },
      settings: { prestart: { timeout: '5m' } },
      code: 'ERR_PRESTART_FAILED',
    },
  ] as const)('RO-1 case C10 S43: a next one that $what: kept-previous', async ({ script, settings, code }) => {
    const w = await pair({ ...SERVED, ...settings });
    w.host.script('b', script);
    const result = await w.clock.until(replace(w.a, w.b));
    expect(result).toMatchObject({ outcome: 'kept-previous', cause: { code }, stop: { outcome: 'kept', tasks: [] } });
    expect(result.serving).toBe(w.a);
    expect(result.outage).toBeUndefined();
    await untouched(w);
  });

  it('AL-4: a preparation without progress for the gate’s deadline: kept-previous, and it is called off', async () => {
    const w = await pair();
    w.host.script('b', { prestart: 'hang' });
    const from = w.clock.now();
    const result = await w.clock.until(replace(w.a, w.b, { gateDeadline: '20m' }));
    expect(result).toMatchObject({ outcome: 'kept-previous', cause: { code: 'ERR_GATE_MISSED' } });
    expect([w.clock.now() - from, w.b.state]).toEqual([1_200_000, 'discarded']);
    await untouched(w);
  });

  it('AL-4 onNextFailed proceed: the previous is stopped all the same', async () => {
    const w = await pair();
    w.host.script('b', { prestart: noSuchTag() });
    const result = await w.clock.until(replace(w.a, w.b, { onNextFailed: 'proceed' }));
    expect(result).toMatchObject({ outcome: 'failed', serving: undefined, cause: { code: 'ERR_PRESTART_FAILED' } });
    expect([w.host.running(), w.registered(), w.a.state]).toEqual([[], [], 'stopped']);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-3 gate lost just before the signal: the drain is called off, the previous registered again', async () => {
    const w = await pair({ ...SERVED, shutdown: { shutdownDelay: '30s' } });
    const done = replace(w.a, w.b);
    await w.clock.advance('10s');
    expect([w.a.state, w.registered()]).toEqual(['draining', []]);
    w.host.prune('b/web');
    const result = await w.clock.until(done);
    expect(result).toMatchObject({
      outcome: 'kept-previous',
      cause: { code: 'ERR_GATE_MISSED' },
      stop: { outcome: 'kept', gate: { outcome: 'failed' }, tasks: [{ outcome: 'cancelled' }] },
      outage: { ms: 30_000 },
    });
    expect(w.b.state).toBe('rejected');
    await untouched(w);
  });

  it('AL-3 S57: the next one is discarded by hand while the previous drains: called off at once', async () => {
    const w = await pair({ ...SERVED, shutdown: { shutdownDelay: '1h' } });
    const done = replace(w.a, w.b);
    await w.clock.advance('10s');
    await w.b.discard();
    const result = await w.clock.until(done);
    expect(result).toMatchObject({ outcome: 'kept-previous', outage: { ms: 10_000 } });
    await untouched(w);
  });

  it.each([
    { what: 'does not start', script: { start: refusedStart() }, code: 'ERR_START_FAILED' },
    { what: 'dies right after its start', script: { exitAfter: 0, exit: { code: 1 } }, code: 'ERR_ALLOC_ENDED' },
    { what: 'dies within minHealthyTime', script: { exitAfter: '9s', exit: { code: 1 } }, code: 'ERR_ALLOC_ENDED' },
  ] as const)('case C48 S49: after the stop, a next one that $what: failed, and says so', async ({ script, code }) => {
    const w = await pair();
    w.host.script('b', script);
    const result = await w.clock.until(replace(w.a, w.b));
    expect(result).toMatchObject({
      outcome: 'failed',
      serving: undefined,
      cause: { code },
      stop: { outcome: 'stopped' },
    });
    expect(result.outage?.ms).toBe(w.clock.wall() - (result.outage?.from ?? 0));
    // What is left of the previous one stays: it is all there is to go back to.
    expect([w.host.running(), w.host.remains(), w.registered()]).toEqual([[], ['a/web'], []]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-9: after the stop, a next one that never becomes healthy: failed, and removed', async () => {
    const w = world();
    const a = await w.running('a', SERVED, PORT);
    const checks = { up: async () => false };
    const health = { checks: [{ name: 'up', type: 'custom' as const }], healthyDeadline: '1m' };
    const b = w.alloc('b', { ...SERVED, health }, PORT, { checks });
    const result = await w.clock.until(replace(a, b));
    expect(result).toMatchObject({ outcome: 'failed', cause: { code: 'ERR_UNHEALTHY', details: { checks: ['up'] } } });
    expect([w.host.remains(), w.registered()]).toEqual([['a/web'], []]);
    expect(await w.leftovers()).toBe(0);
  });

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
