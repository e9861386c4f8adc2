import { describe, expect, it } from 'vitest';
import { replace } from 'handover';
import { SERVED, noSuchTag, refusedStart, world } from '../alloc/world.js';

const PORT = { port: 8080 };

describe('stop-first', () => {
  it('RO-1 AL-2 AL-3 S42 N-K1: prepare, deregister, signal, start, register, destroy, in this order', async () => {
    const w = world();
    const a = await w.running('a', SERVED, PORT);
    const b = w.alloc('b', SERVED, PORT);
    const from = w.sequence().length;
    const result = await w.clock.until(replace(a, b));
    expect(w.sequence().slice(from)).toEqual([
      'prestart b/web',
      'deregistered web-a-web-http',
      'signal a/web SIGTERM',
      'exit a/web',
      'start b/web',
      'registered web-b-web-http',
      'destroy a/web',
    ]);
    expect(result).toMatchObject({ outcome: 'replaced', stop: { outcome: 'stopped', gate: { outcome: 'reached' } } });
    expect(result.serving).toBe(b);
    expect(result).not.toHaveProperty('cause');
    expect(w.host.remains()).toEqual(['b/web']);
    expect(w.registered()).toEqual(['web-b-web-http']);
    expect(w.states('a')).toEqual([
      'prestarting',
      'prepared',
      'starting',
      'running',
      'held',
      'draining',
      'stopping',
      'stopped',
    ]);
    expect(w.states('b')).toEqual(['prestarting', 'prepared', 'waiting', 'starting', 'running']);
    expect(w.log.types().filter((type) => type === 'replace:ended')).toHaveLength(1);
    expect(await w.leftovers()).toBe(0);
  });
});

describe('start-first', () => {
  it('RO-1 AL-3: healthy for minHealthyTime and registered before the previous is taken off', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    const b = w.alloc('b', SERVED);
    const from = w.sequence().length;
    const result = await w.clock.until(replace(a, b));
    expect(w.sequence().slice(from)).toEqual([
      'prestart b/web',
      'start b/web',
      'registered web-b-web-http',
      'deregistered web-a-web-http',
      'signal a/web SIGTERM',
      'exit a/web',
      'destroy a/web',
    ]);
    expect(result.outcome).toBe('replaced');
    expect(result.outage).toBeUndefined();
    expect(await w.leftovers()).toBe(0);
  });

  it('case C44 prestart fails', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    w.host.script('b', { prestart: noSuchTag() });
    const result = await w.clock.until(replace(a, w.alloc('b', SERVED)));
    expect(result).toMatchObject({ outcome: 'kept-previous', cause: { code: 'ERR_PRESTART_FAILED' } });
    expect(await w.leftovers()).toBe(0);
  });

  it('start fails', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    w.host.script('b', { start: refusedStart() });
    const result = await w.clock.until(replace(a, w.alloc('b', SERVED)));
    expect(result).toMatchObject({ outcome: 'kept-previous', cause: { code: 'ERR_START_FAILED' } });
    expect(await w.leftovers()).toBe(0);
  });
});
