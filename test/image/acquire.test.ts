import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { fixture, MINUTE, SECOND } from './fixture.js';
import { digestOf, pullError, untilAborted } from './scripted-source.js';

const tick = () => new Promise((resolve) => setImmediate(resolve));

describe('leases and shared pulls', () => {
  it('S1 IC-1 a missing image: exactly look, fetch, look; told as pulling and then as held', async () => {
    const { images, source, told } = fixture();
    const lease = await images.acquire('redis:7', { owner: 'web' });
    expect(source.calls).toEqual(['find redis:7', 'fetch redis:7', 'find redis:7']);
    expect(lease).toMatchObject({ owner: 'web', reference: 'redis:7', imageId: 'sha256:a', stale: false });
    expect(lease.runnable).toBe('sha256:a');
    expect(told()).toEqual(['changed:pulling', 'changed:pulling', 'changed:held']);
  });

  it('S2 a present image: one look, nothing fetched', async () => {
    const { images, source, told } = fixture();
    source.put('redis:7', 'sha256:a');
    await images.acquire('redis:7', { owner: 'web' });
    expect(source.calls).toEqual(['find redis:7']);
    expect(told()).toEqual(['changed:held']);
  });

  it('S3 a look that fails is no absence: the error comes out and nothing is fetched', async () => {
    const { images, source } = fixture();
    source.before = () => {
      throw new Error('HTTP 500');
    };
    await expect(images.acquire('redis:7', { owner: 'web' })).rejects.toMatchObject({
      code: 'ERR_PULL_FAILED',
      details: { reason: 'engine-unavailable' },
      retryable: true,
    });
    expect(source.calls).toEqual(['find redis:7']);
  });

  it('S4 IC-13 a bad reference is refused before any call', async () => {
    const { images, source } = fixture();
    await expect(images.acquire('Redis', { owner: 'web' })).rejects.toMatchObject({ code: 'ERR_INVALID_REFERENCE' });
    expect(source.calls).toEqual([]);
  });

  it.each([
    [{}, 'owner'],
    [{ owner: '' }, 'owner'],
    [{ owner: 'a', timeout: '5' }, 'timeout'],
    [{ owner: 'a', policy: 'Always' }, 'policy'],
    [{ owner: 'a', prio: 1 }, 'prio'],
  ])('G-2 bad acquire options %j name the option %s', async (options, path) => {
    const { images } = fixture();
    await expect(images.acquire('redis:7', options as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_OPTION',
      details: { path },
    });
  });

  it('IC-3 case C6 many callers: one look, one fetch, a lease each', async () => {
    const { images, source } = fixture();
    const all = Array.from({ length: 100 }, (_, i) => images.acquire('redis:7', { owner: `o${i}` }));
    const leases = await Promise.all(all);
    expect(source.calls).toEqual(['find redis:7', 'fetch redis:7', 'find redis:7']);
    expect(new Set(leases.map(({ owner }) => owner)).size).toBe(100);
    expect(images.explain('redis:7').holders).toHaveLength(100);
  });

  it('IC-3 case C17 another platform is another pull; other spellings are the same', async () => {
    const { images, source } = fixture();
    await Promise.all([
      images.acquire('redis', { owner: 'a' }),
      images.acquire('redis:latest', { owner: 'b' }),
      images.acquire('redis:latest', { owner: 'c', platform: 'linux/arm64' }),
    ]);
    expect(source.count('fetch redis:latest')).toBe(2);
  });

  it('B3 what a digest names and is held costs no call at all; a tag exactly one look', async () => {
    const { images, source } = fixture();
    const digest = digestOf('redis', 'sha256:a');
    source.put('redis:7', 'sha256:a');
    await images.acquire(digest, { owner: 'a' });
    await images.acquire('redis:7', { owner: 'a' });
    source.calls.length = 0;
    await images.acquire(digest, { owner: 'b' });
    expect(source.calls).toEqual([]);
    await images.acquire('redis:7', { owner: 'b' });
    expect(source.calls).toEqual(['find redis:7']);
  });

  it('B3 what is idle, even by digest, is looked at: a stranger may have deleted it', async () => {
    const { images, source } = fixture();
    const digest = digestOf('redis', 'sha256:a');
    source.registry.set(digest, 'sha256:a');
    await (await images.acquire(digest, { owner: 'a' })).release();
    source.wipe('sha256:a');
    await images.acquire(digest, { owner: 'b' });
    expect(source.count(`fetch ${digest}`)).toBe(2);
  });

  it('case C11 a pull that fails does not touch the others', async () => {
    const { images, source } = fixture();
    const slow = source.hold('fetch redis:7');
    const good = images.acquire('redis:7', { owner: 'a' });
    await slow.reached;
    await expect(images.acquire('nope:1', { owner: 'b' })).rejects.toMatchObject({
      details: { reason: 'not-found-or-denied', attempts: 1 },
    });
    slow.go();
    await expect(good).resolves.toMatchObject({ imageId: 'sha256:a' });
  });

  it('case C8 a stream that breaks: all who wait reject, nothing is left in the air, the next call asks anew', async () => {
    const { images, source, clock } = fixture({ pull: { attempts: 1 } });
    const held = source.hold('fetch redis:7');
    const all = ['a', 'b', 'c'].map((owner) => images.acquire('redis:7', { owner }));
    const { onProgress } = await held.reached;
    onProgress({ phase: 'downloading', bytes: { done: 1 } });
    onProgress({ phase: 'downloading', bytes: { done: 2 } });
    held.fail(Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' }));
    for (const end of await Promise.allSettled(all)) {
      expect(end).toMatchObject({ reason: { retryable: true, details: { reason: 'unknown', attempts: 1 } } });
    }
    expect(images.snapshot()).toEqual([]);
    images.retryNow('redis:7');
    await expect(images.acquire('redis:7', { owner: 'a' })).resolves.toBeDefined();
    expect(source.count('fetch redis:7')).toBe(2);
    expect(clock.pending).toBe(0);
  });

  it('S12 a source that throws at once rejects the callers, and the next pull works', async () => {
    const { images, source } = fixture();
    const fetch = source.fetch.bind(source);
    source.fetch = () => {
      throw pullError('redis:7', 'unauthorized', false);
    };
    await expect(images.acquire('redis:7', { owner: 'a' })).rejects.toMatchObject({ code: 'ERR_PULL_FAILED' });
    source.fetch = fetch;
    await expect(images.acquire('redis:7', { owner: 'a' })).resolves.toBeDefined();
  });
});

describe('leaving', () => {
  it('IC-4 S8 the first of two callers leaves: the pull goes on for the other', async () => {
    const { images, source } = fixture();
    const held = source.hold('fetch redis:7');
    const leave = new AbortController();
    const first = images.acquire('redis:7', { owner: 'a', signal: leave.signal });
    const second = images.acquire('redis:7', { owner: 'b' });
    await held.reached;
    leave.abort(new Error('bye'));
    await expect(first).rejects.toThrow('bye');
    held.go();
    const lease = await second;
    expect(lease.owner).toBe('b');
    expect(images.explain('redis:7').holders.map(({ owner }) => owner)).toEqual(['b']);
    expect(getEventListeners(leave.signal, 'abort')).toHaveLength(0);
  });

  it('IC-4 S9 case C9 when the last leaves the fetch lingers, then is aborted once', async () => {
    const { images, source, clock } = fixture();
    source.before = (step) => (step.line === 'fetch redis:7' ? untilAborted(step.call) : undefined);
    const leave = new AbortController();
    const asked = images.acquire('redis:7', { owner: 'a', signal: leave.signal });
    await tick();
    leave.abort(new Error('bye'));
    await expect(asked).rejects.toThrow('bye');
    await clock.advance(30 * SECOND - 1);
    expect(images.snapshot()).toMatchObject([{ state: 'pulling', waiters: [] }]);
    await clock.advance(1);
    expect(images.snapshot()).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  it('IC-4 a caller who comes within the linger goes on with the same fetch', async () => {
    const { images, source, clock } = fixture();
    const held = source.hold('fetch redis:7');
    const leave = new AbortController();
    const gone = images.acquire('redis:7', { owner: 'a', signal: leave.signal });
    await held.reached;
    leave.abort(new Error('bye'));
    await expect(gone).rejects.toThrow('bye');
    await clock.advance(29 * SECOND);
    const back = images.acquire('redis:7', { owner: 'b' });
    await clock.advance(5 * MINUTE - 30 * SECOND);
    held.go();
    await expect(back).resolves.toMatchObject({ owner: 'b' });
    expect(source.count('fetch redis:7')).toBe(1);
  });

  it('IC-4 S10 a caller who meets an aborted fetch waits for its end and starts a fresh one', async () => {
    const { images, source, clock } = fixture({ pull: { linger: 0 } });
    const held = source.hold('fetch redis:7');
    const leave = new AbortController();
    const gone = images.acquire('redis:7', { owner: 'a', signal: leave.signal });
    await held.reached;
    leave.abort(new Error('bye'));
    await expect(gone).rejects.toThrow('bye');
    const next = images.acquire('redis:7', { owner: 'b' });
    await clock.advance(SECOND);
    expect(source.count('fetch redis:7')).toBe(1);
    held.fail(new Error('socket closed'));
    await expect(next).resolves.toMatchObject({ owner: 'b' });
    expect(source.count('fetch redis:7')).toBe(2);
  });

  it('IC-4 a fetch that nobody waits for any more, and that lands, leaves idle content of the normal delay', async () => {
    const { images, source, clock } = fixture();
    const held = source.hold('fetch redis:7');
    const leave = new AbortController();
    const gone = images.acquire('redis:7', { owner: 'a', signal: leave.signal });
    await held.reached;
    leave.abort(new Error('bye'));
    await expect(gone).rejects.toThrow('bye');
    held.go();
    await tick();
    expect(images.explain('redis:7')).toMatchObject({ state: 'idle', removeAt: clock.wall() + 3 * MINUTE });
    await clock.advance(3 * MINUTE);
    expect(source.names.size).toBe(0);
  });

  it('IC-3 G-8 a caller gives up by its timeout with a typed error; the others go on', async () => {
    const { images, source, clock } = fixture();
    const held = source.hold('fetch redis:7');
    const brief = images.acquire('redis:7', { owner: 'a', timeout: '10s' });
    const patient = images.acquire('redis:7', { owner: 'b' });
    await expect(clock.until(brief)).rejects.toMatchObject({
      code: 'ERR_PULL_FAILED',
      details: { reason: 'timed-out' },
    });
    held.go();
    await expect(patient).resolves.toBeDefined();
  });

  it('case C10 called off is not done: the reason of the signal, no lease, also if it lands all the same', async () => {
    const { images, source } = fixture();
    const held = source.hold('fetch redis:7');
    const leave = new AbortController();
    const reason = new Error('the update was cancelled');
    const asked = images.acquire('redis:7', { owner: 'a', signal: leave.signal });
    await held.reached;
    leave.abort(reason);
    held.go();
    await expect(asked).rejects.toBe(reason);
    await tick();
    expect(images.explain('redis:7')).toMatchObject({ state: 'idle', holders: [] });
  });

  it('case C61 a thousand acquires by one signal leave no listener on it, however they end', async () => {
    const { images, clock } = fixture({ pull: { attempts: 1 } });
    const { signal } = new AbortController();
    const all = Array.from({ length: 1_000 }, (_, i) =>
      images.acquire(i % 2 === 0 ? 'redis:7' : 'nope:1', { owner: `o${i}`, signal, timeout: '1m' }),
    );
    const ends = await clock.until(Promise.allSettled(all));
    expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(500);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    expect(clock.pending).toBe(0);
  });

  it('G-4 an aborted signal is refused before any call, with its own reason', async () => {
    const { images, source } = fixture();
    const reason = new Error('no');
    await expect(images.acquire('redis:7', { owner: 'a', signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(source.calls).toEqual([]);
  });
});
