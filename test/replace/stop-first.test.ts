import { describe, expect, it } from 'vitest';
import { replace } from 'handover';
import { SERVED, noSuchTag, refusedStart, world } from '../alloc/world.js';
import { PORT, pair, untouched } from './one-port.js';

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
});
