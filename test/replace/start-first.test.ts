import { describe, expect, it } from 'vitest';
import { type AllocEnv, type AllocSettings, replace } from 'handover';
import { SERVED, noSuchTag, refusedStart, world } from '../alloc/world.js';

const CHECKED: AllocSettings = { ...SERVED, health: { checks: [{ name: 'up', type: 'custom' }] } };

/** `a` serves; `b` is to serve beside it first. What its check says, the test sets. */
async function pair(settings: AllocSettings = SERVED, ofB: AllocSettings = settings) {
  const w = world();
  const state = { up: true };
  const checks: AllocEnv['checks'] = { up: async ({ id }) => id === 'a' || state.up };
  const a = w.alloc('a', settings, {}, { checks });
  await w.clock.until(a.start());
  await w.clock.until(a.until('healthy'));
  const b = w.alloc('b', ofB, {}, { checks });
  const from = w.sequence().length;
  return { ...w, a, b, state, since: () => w.sequence().slice(from) };
}

type Pair = Awaited<ReturnType<typeof pair>>;

/** Case C44: the same old one still runs and is still registered; the new one is gone, and nothing goes on. */
async function untouched(w: Pair): Promise<void> {
  expect([w.a.state, w.a.stopping, w.host.remains(), w.registered()]).toEqual([
    ...['running', undefined, ['a/web'], ['web-a-web-http']],
  ]);
  expect(w.host.calls.join()).not.toMatch(/signal a|kill a/);
  expect(w.b.status().terminal).toBe(true);
  expect(w.log.types().filter((type) => type === 'replace:ended')).toHaveLength(1);
  expect(await w.leftovers()).toBe(0);
}

describe('start-first', () => {
  it('RO-1 AL-3: healthy for minHealthyTime and registered before the previous is taken off; no outage', async () => {
    const w = await pair();
    const result = await w.clock.until(replace(w.a, w.b));
    expect(w.since()).toEqual([
      'prestart b/web',
      'start b/web',
      'registered web-b-web-http',
      'deregistered web-a-web-http',
      'signal a/web SIGTERM',
      'exit a/web',
      'destroy a/web',
    ]);
    expect(result).toMatchObject({ outcome: 'replaced', stop: { gate: { outcome: 'reached', waited: 10_000 } } });
    expect(result.serving).toBe(w.b);
    expect(result.outage).toBeUndefined();
    expect([w.host.remains(), w.registered()]).toEqual([['b/web'], ['web-b-web-http']]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-3: the previous is not touched as long as the next is not healthy', async () => {
    const w = await pair(CHECKED);
    w.state.up = false;
    const done = replace(w.a, w.b);
    await w.clock.advance('4m');
    expect([w.a.state, w.b.state, w.registered()]).toEqual(['held', 'running', ['web-a-web-http']]);
    w.state.up = true;
    expect((await w.clock.until(done)).outcome).toBe('replaced');
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-4: a held one is still checked', async () => {
    const w = await pair(CHECKED);
    w.state.up = false;
    const done = replace(w.a, w.b);
    await w.clock.advance('1m');
    const { revision } = w.a.status();
    expect(w.a.status()).toMatchObject({ state: 'held', reached: 'healthy', health: 'passing' });
    await w.clock.until(done);
    expect(w.a.status().revision).toBeGreaterThan(revision);
    await untouched(w);
  });

  it.each([
    { what: 'cannot be prepared', script: { prestart: noSuchTag() }, code: 'ERR_PRESTART_FAILED', state: 'rejected' },
    { what: 'does not start', script: { start: refusedStart() }, code: 'ERR_START_FAILED', state: 'failed' },
    {
      what: 'dies at its start',
      script: { exitAfter: 0, exit: { code: 1 } },
      code: 'ERR_ALLOC_ENDED',
      state: 'failed',
    },
    { what: 'ends well in the window', script: { exitAfter: '9s' }, code: 'ERR_ALLOC_ENDED', state: 'complete' },
  ] as const)('case C44 AL-4 S54: a next one that $what: kept-previous', async ({ script, code, state }) => {
    const w = await pair();
    w.host.script('b', script);
    const result = await w.clock.until(replace(w.a, w.b));
    expect(result).toMatchObject({ outcome: 'kept-previous', cause: { code }, stop: { outcome: 'kept' } });
    expect([result.serving, result.outage, w.b.state]).toEqual([w.a, undefined, state]);
    await untouched(w);
  });

  it.each([
    { what: 'is never healthy', answer: (): boolean => false },
    { what: 'flaps inside minHealthyTime', answer: (now: number): boolean => now % 10_000 < 5_000 },
  ])(
    'case C44 S54: a next one that $what is removed, the same old one still runs and is registered',
    async ({ answer }) => {
      const w = await pair(CHECKED);
      Object.defineProperty(w.state, 'up', { get: () => answer(w.clock.now()) });
      const from = w.clock.now();
      const result = await w.clock.until(replace(w.a, w.b));
      expect(result).toMatchObject({
        outcome: 'kept-previous',
        cause: { code: 'ERR_UNHEALTHY', details: { allocId: 'b' } },
      });
      expect(w.clock.now() - from).toBe(300_000);
      await untouched(w);
    },
  );

  it('AL-3: a registrar that is down: the next is not registered, so the previous is kept at the gate’s deadline', async () => {
    const w = await pair();
    w.registrar.failNext(10_000);
    const result = await w.clock.until(replace(w.a, w.b, { gateDeadline: '10m' }));
    expect(result).toMatchObject({ outcome: 'kept-previous', cause: { code: 'ERR_GATE_MISSED' } });
    expect([w.a.state, w.host.remains(), w.registered()]).toEqual(['running', ['a/web'], ['web-a-web-http']]);
  });

  it('AL-9: a service of the next whose port it does not have: kept-previous at once', async () => {
    const w = await pair();
    w.hidePorts();
    const b = w.alloc('c', { services: [{ service: 'web', task: 'web', port: 'htpp' }] });
    const from = w.clock.now();
    const result = await w.clock.until(replace(w.a, b));
    expect(result).toMatchObject({ outcome: 'kept-previous', cause: { code: 'ERR_UNHEALTHY' } });
    expect(w.clock.now() - from).toBeLessThan(30_000);
    await untouched({ ...w, b });
  });

  it('RO-1: the next is lost while the previous drains: called off, also after the commit; the next is removed', async () => {
    const w = await pair({ ...SERVED, shutdown: { shutdownDelay: '1h' } });
    const done = replace(w.a, w.b);
    await w.clock.advance('1m');
    expect([w.a.state, w.registered()]).toEqual(['draining', ['web-b-web-http']]);
    w.host.die('b/web');
    const result = await w.clock.until(done);
    expect(result).toMatchObject({
      outcome: 'kept-previous',
      stop: { outcome: 'kept', tasks: [{ outcome: 'cancelled' }] },
    });
    expect(result.cause).toBeDefined();
    await untouched(w);
  });

  it('AL-3: the next loses its health while the previous drains: seen before the signal; it is removed', async () => {
    const w = await pair({ ...CHECKED, shutdown: { shutdownDelay: '1m' } });
    const done = replace(w.a, w.b);
    await w.clock.advance('30s');
    w.state.up = false;
    expect(w.a.state).toBe('draining');
    const result = await w.clock.until(done);
    expect(result).toMatchObject({ outcome: 'kept-previous', cause: { code: 'ERR_GATE_MISSED' } });
    await untouched(w);
  });

  it('AL-3: a next one that lost the gate stays in the registry until the previous is back in it', async () => {
    const w = await pair({ ...CHECKED, shutdown: { shutdownDelay: '1m' } });
    const done = replace(w.a, w.b);
    await w.clock.advance('30s');
    w.state.up = false;
    w.registrar.hangNext(1);
    const result = await w.clock.until(done);
    expect(result.outcome).toBe('kept-previous');
    expect(w.since().slice(3)).toEqual([
      'deregistered web-a-web-http',
      'registered web-a-web-http',
      'deregistered web-b-web-http',
      'signal b/web SIGTERM',
      'exit b/web',
      'destroy b/web',
    ]);
    await untouched(w);
  });

  it('AL-3: but not longer than is of use, when the registry does not take it back', async () => {
    const w = await pair({ ...CHECKED, shutdown: { shutdownDelay: '1m' } });
    const done = replace(w.a, w.b);
    await w.clock.advance('30s');
    w.state.up = false;
    w.registrar.failNext(10_000);
    const result = await w.clock.until(done);
    expect([result.outcome, w.b.state, w.host.remains()]).toEqual(['kept-previous', 'stopped', ['a/web']]);
    expect(w.clock.now()).toBeLessThan(300_000);
    expect(await w.leftovers()).toBe(0);
  });

  it.each([
    { at: 'draining', killTimeout: '5s', exitDelay: 0, shutdownDelay: '1m' },
    { at: 'stopping', killTimeout: '1h', exitDelay: '30m', shutdownDelay: 0 },
  ] as const)('RO-1: the next is told to stop by hand while the previous ends ($at): failed', async (row) => {
    const { killTimeout, shutdownDelay, exitDelay } = row;
    const w = await pair(
      { ...SERVED, shutdown: { killTimeout: '1m' } },
      { ...SERVED, shutdown: { killTimeout, shutdownDelay } },
    );
    w.host.script('a', { exitDelay: '30s' });
    w.host.script('b', { exitDelay });
    const done = replace(w.a, w.b);
    await w.clock.advance('20s');
    w.b.stop({ reason: 'operator' });
    await w.clock.advance('1s');
    expect([w.a.state, w.b.state]).toEqual(['stopping', row.at]);
    const result = await w.clock.until(done);
    expect(result).toMatchObject({ outcome: 'failed', serving: undefined, cause: { code: 'ERR_ALLOC_ENDED' } });
    expect([w.host.remains(), w.registered()]).toEqual([['a/web'], []]);
    expect(await w.leftovers()).toBe(0);
  });

  it('RO-1: the next dies while the previous ends: failed, for nothing serves', async () => {
    const w = await pair({ ...SERVED, shutdown: { killTimeout: '1m' } });
    w.host.script('a', { exitDelay: '30s' });
    const done = replace(w.a, w.b);
    await w.clock.advance('20s');
    expect(w.a.state).toBe('stopping');
    w.host.die('b/web');
    const result = await w.clock.until(done);
    expect(result).toMatchObject({
      outcome: 'failed',
      serving: undefined,
      cause: { code: 'ERR_ALLOC_ENDED', details: { allocId: 'b' } },
    });
    expect([w.host.remains(), w.registered()]).toEqual([['a/web'], []]);
    expect(await w.leftovers()).toBe(0);
  });

  it('RO-1: the previous cannot be killed: replaced, since the next serves, and the report says it', async () => {
    const w = await pair();
    w.host.script('a', { ignores: ['SIGTERM', 'SIGKILL'] });
    const result = await w.clock.until(replace(w.a, w.b));
    expect(result).toMatchObject({ outcome: 'replaced', stop: { outcome: 'unkillable' } });
    expect([result.serving, w.a.state, w.host.remains()]).toEqual([w.b, 'unkillable', ['a/web', 'b/web']]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-8: the previous dies by itself while the next comes up: it goes on', async () => {
    const w = await pair();
    w.host.script('b', { prestart: '1m' });
    const done = replace(w.a, w.b);
    await w.clock.advance('30s');
    w.host.die('a/web');
    const result = await w.clock.until(done);
    expect(result).toMatchObject({ outcome: 'replaced', outage: { ms: 30_000 } });
    expect(w.host.remains()).toEqual(['b/web']);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-8: the previous dies by itself, and the next fails: failed', async () => {
    const w = await pair(CHECKED);
    w.state.up = false;
    const done = replace(w.a, w.b);
    await w.clock.advance('30s');
    w.host.die('a/web');
    const result = await w.clock.until(done);
    expect(result).toMatchObject({ outcome: 'failed', serving: undefined, cause: { code: 'ERR_UNHEALTHY' } });
    expect([w.host.remains(), w.registered()]).toEqual([['a/web'], []]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-4 onNextFailed proceed: the previous is stopped all the same', async () => {
    const w = await pair();
    w.host.script('b', { start: refusedStart() });
    const result = await w.clock.until(replace(w.a, w.b, { onNextFailed: 'proceed' }));
    expect(result).toMatchObject({
      outcome: 'failed',
      cause: { code: 'ERR_START_FAILED' },
      stop: { outcome: 'stopped' },
    });
    expect([w.host.running(), w.registered()]).toEqual([[], []]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-4: a failed next one that cannot be killed: the previous is kept all the same', async () => {
    const w = await pair(CHECKED);
    w.state.up = false;
    w.host.script('b', { ignores: ['SIGTERM', 'SIGKILL'] });
    const result = await w.clock.until(replace(w.a, w.b));
    expect(result).toMatchObject({ outcome: 'kept-previous', cause: { code: 'ERR_UNHEALTHY' } });
    expect([w.a.state, w.b.state, w.registered()]).toEqual(['running', 'unkillable', ['web-a-web-http']]);
    expect(await w.leftovers()).toBe(0);
  });
});
