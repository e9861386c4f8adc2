import { getEventListeners } from 'node:events';
import { HandoverError } from 'handover';
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

  it('G-4 an aborted signal is refused before any call, with its own reason', async () => {
    const { images, source } = fixture();
    const reason = new Error('no');
    await expect(images.acquire('redis:7', { owner: 'a', signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(source.calls).toEqual([]);
  });
});

describe('policy', () => {
  it.each([
    { reference: 'redis:7', policy: undefined, fetches: 0, why: 'present' },
    { reference: 'redis:7', policy: 'if-absent', fetches: 0, why: 'present' },
    { reference: 'redis:7', policy: 'never', fetches: 0, why: 'present' },
    { reference: 'redis:7', policy: 'always', fetches: 1, why: 'asked to' },
    { reference: 'redis:latest', policy: undefined, fetches: 1, why: 'latest means: ask again' },
    { reference: 'redis', policy: undefined, fetches: 1, why: 'no tag is latest' },
    { reference: 'redis', policy: 'if-absent', fetches: 0, why: 'the policy was stated' },
    { reference: 'redis@sha256:a', policy: 'always', fetches: 0, why: 'a present digest is never pulled' },
  ] as const)(
    'IC-6 $reference with policy $policy: $fetches fetches ($why)',
    async ({ reference, policy, fetches }) => {
      const { images, source } = fixture();
      source.put('redis:7', 'sha256:a');
      source.put('redis:latest', 'sha256:b');
      await images.acquire(reference, { owner: 'a', policy });
      expect(source.calls.filter((call) => call.startsWith('fetch'))).toHaveLength(fetches);
    },
  );

  it('IC-6 a policy of the coordinator is a stated one, for latest too; it can be read back', async () => {
    const { images, source } = fixture({ pull: { policy: 'if-absent' } });
    source.put('redis:latest', 'sha256:b');
    await images.acquire('redis', { owner: 'a' });
    expect(source.calls).toEqual(['find redis:latest']);
    expect(images.options.pull.policy).toBe('if-absent');
    expect(fixture().images.options.pull.policy).toBe('if-absent');
  });

  it.each([
    ['redis:7', 'never'],
    ['sha256:a', undefined],
  ] as const)(
    'IC-6 IC-13 case C23 %s with policy %s is absent: said so, nothing fetched',
    async (reference, policy) => {
      const { images, source } = fixture();
      await expect(images.acquire(reference, { owner: 'a', policy })).rejects.toMatchObject({
        code: 'ERR_IMAGE_ABSENT',
        details: { reference },
      });
      expect(source.calls).toEqual([`find ${reference}`]);
    },
  );

  it('IC-6 never does not wait for the pull of others', async () => {
    const { images, source } = fixture();
    const held = source.hold('fetch redis:7');
    const other = images.acquire('redis:7', { owner: 'a' });
    await held.reached;
    await expect(images.acquire('redis:7', { owner: 'b', policy: 'never' })).rejects.toMatchObject({
      code: 'ERR_IMAGE_ABSENT',
    });
    held.go();
    await other;
  });

  it('case C1 IC-6 a forced pull that fails does not succeed on the strength of a stale tag', async () => {
    const { images, source, clock } = fixture();
    source.put('redis:7', 'sha256:old');
    source.before = ({ line }) => {
      if (line.startsWith('fetch')) throw pullError('redis:7', 'registry-unavailable', true);
    };
    await expect(clock.until(images.acquire('redis:7', { owner: 'a', policy: 'always' }))).rejects.toMatchObject({
      details: { reason: 'registry-unavailable', attempts: 5 },
    });
    expect(images.snapshot()).toEqual([]);
  });

  it('S6 IC-6 if-stale: the local copy, marked and told, when the registry is out of reach', async () => {
    const { images, source, told } = fixture();
    source.put('redis:7', 'sha256:old');
    source.before = ({ line }) => {
      if (line.startsWith('fetch')) throw pullError('redis:7', 'registry-unavailable', true);
    };
    const lease = await images.acquire('redis:7', { owner: 'a', policy: 'if-stale' });
    expect(lease).toMatchObject({ imageId: 'sha256:old', stale: true });
    expect(told()).toContain('warning:image-stale');
    expect(source.count('fetch redis:7')).toBe(1);
  });

  it('S6 if-stale: a registry that says no is no reason for the local copy', async () => {
    const { images, source } = fixture();
    source.put('gone:1', 'sha256:old');
    await expect(images.acquire('gone:1', { owner: 'a', policy: 'if-stale' })).rejects.toMatchObject({
      details: { reason: 'not-found-or-denied' },
    });
  });

  it('IC-6 present content does not wait for a forced pull of it', async () => {
    const { images, source } = fixture();
    source.put('redis:7', 'sha256:old');
    const held = source.hold('fetch redis:7');
    const forced = images.acquire('redis:7', { owner: 'a', policy: 'always' });
    await held.reached;
    await expect(images.acquire('redis:7', { owner: 'b' })).resolves.toMatchObject({ imageId: 'sha256:old' });
    held.go();
    await expect(forced).resolves.toMatchObject({ imageId: 'sha256:a' });
    expect(images.snapshot()).toHaveLength(2);
  });
});

describe('the stream proves nothing', () => {
  it('IC-11 S14 a clean end without content is a failure that is tried again', async () => {
    const { images, source, clock } = fixture({ pull: { attempts: 2 } });
    source.before = ({ line }) => {
      if (line.startsWith('fetch')) source.registry.set('redis:7', 'sha256:a');
      if (line === 'find redis:7') source.wipe('sha256:a');
    };
    await expect(clock.until(images.acquire('redis:7', { owner: 'a' }))).rejects.toMatchObject({
      details: { reason: 'corrupt-stream', attempts: 2 },
      retryable: true,
    });
  });

  it('IC-11 case C17 another platform came without an error: refused, and removed like everything unused', async () => {
    const { images, source, clock } = fixture();
    source.platforms.set('sha256:a', 'linux/amd64');
    await expect(images.acquire('redis:7', { owner: 'a', platform: 'linux/arm64' })).rejects.toMatchObject({
      details: { reason: 'no-platform', attempts: 1 },
    });
    await clock.advance(3 * MINUTE);
    expect(source.names.size).toBe(0);
  });

  it('case C17 a source that sees the other platform itself: what it brought is removed all the same', async () => {
    const { images, source, clock } = fixture();
    const fetch = source.fetch.bind(source);
    source.fetch = async (reference, call) => {
      await fetch(reference, call);
      throw pullError(reference, 'no-platform', false);
    };
    source.platforms.set('sha256:a', 'linux/amd64');
    await expect(images.acquire('redis:7', { owner: 'a', platform: 'linux/arm64' })).rejects.toMatchObject({
      details: { reason: 'no-platform', attempts: 1 },
    });
    expect(images.explain('redis:7')).toMatchObject({ state: 'idle', imageId: 'sha256:a' });
    await clock.advance(3 * MINUTE);
    expect(source.names.size).toBe(0);
  });

  it('IC-17 a stranger’s image for another platform, that came once more, is not ours to remove', async () => {
    const { images, source, clock } = fixture();
    source.platforms.set('sha256:a', 'linux/amd64');
    source.put('redis:7', 'sha256:a');
    await expect(images.acquire('redis:7', { owner: 'a', platform: 'linux/arm64' })).rejects.toMatchObject({
      details: { reason: 'no-platform' },
    });
    await clock.advance('1h');
    expect(source.names.get('redis:7')).toBe('sha256:a');
  });

  it('IC-11 a platform that leaves the variant open fits', async () => {
    const { images, source } = fixture();
    source.platforms.set('sha256:a', 'linux/arm64/v8');
    const lease = await images.acquire('redis:7', { owner: 'a', platform: 'linux/arm64' });
    expect(lease.artifact.platform).toBe('linux/arm64/v8');
  });

  it('G-6 errors are one class and say what happened', async () => {
    const { images } = fixture();
    const error = await images.acquire('nope:1', { owner: 'a' }).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(HandoverError);
    expect(String(error)).toContain('nope:1');
  });
});

describe('queue', () => {
  const wanted = ['a:1', 'b:1', 'c:1', 'd:1', 'e:1'];

  it('IC-7 S24 two at once, first come first served; a failed pull frees its slot', async () => {
    const { images, source } = fixture({ pull: { concurrency: 2 } });
    const held = wanted.map((name) => source.hold(`fetch ${name}`));
    wanted.forEach((name) => source.registry.set(name, `sha256:${name[0]!}`));
    const all = wanted.map((name) => images.acquire(name, { owner: 'o' }));
    const running = () => source.calls.filter((call) => call.startsWith('fetch'));
    await tick();
    expect(running()).toEqual(['fetch a:1', 'fetch b:1']);
    expect(images.explain('e:1').progress).toMatchObject({ phase: 'queued', queuePosition: 2 });
    held[1]!.fail(pullError('b:1', 'unauthorized', false));
    await expect(all[1]).rejects.toMatchObject({ details: { reason: 'unauthorized' } });
    await tick();
    expect(running()).toEqual(['fetch a:1', 'fetch b:1', 'fetch c:1']);
    held.forEach((one) => one.go());
    await Promise.all([all[0], all[2], all[3], all[4]]);
  });

  it('IC-7 an aborted waiter leaves the queue; what is present goes by it', async () => {
    const { images, source } = fixture({ pull: { concurrency: 1 } });
    const held = source.hold('fetch redis:7');
    const first = images.acquire('redis:7', { owner: 'a' });
    await held.reached;
    const leave = new AbortController();
    const waiting = images.acquire('redis:8', { owner: 'b', signal: leave.signal });
    await tick();
    source.put('here:1', 'sha256:here');
    await expect(images.acquire('here:1', { owner: 'c' })).resolves.toBeDefined();
    leave.abort(new Error('bye'));
    await expect(waiting).rejects.toThrow('bye');
    await tick();
    expect(images.explain('redis:8').state).toBe('absent');
    held.go();
    await first;
    expect(source.count('fetch redis:8')).toBe(0);
  });

  it('IC-3 IC-7 a start caller promotes the prefetch that it joins', async () => {
    const { images, source } = fixture({ pull: { concurrency: 1 } });
    wanted.forEach((name) => source.registry.set(name, `sha256:${name[0]!}`));
    const held = source.hold('fetch a:1');
    const all = [images.acquire('a:1', { owner: 'o' })];
    await held.reached;
    for (const name of ['b:1', 'c:1']) all.push(images.acquire(name, { owner: 'o', priority: 'prefetch' }));
    all.push(images.acquire('c:1', { owner: 'p' }));
    await tick();
    expect(images.explain('c:1').progress?.queuePosition).toBe(0);
    held.go();
    await Promise.all(all);
    expect(source.calls.filter((call) => call.startsWith('fetch'))).toEqual(['fetch a:1', 'fetch c:1', 'fetch b:1']);
  });

  it('IC-7 a fetch that ignores its abort holds its slot for abortGrace, then it is given away with a warning', async () => {
    const { images, source, clock, told } = fixture({ pull: { concurrency: 1, linger: 0 } });
    source.hold('fetch redis:7');
    const leave = new AbortController();
    const gone = images.acquire('redis:7', { owner: 'a', signal: leave.signal });
    await tick();
    leave.abort(new Error('bye'));
    await expect(gone).rejects.toThrow('bye');
    const next = images.acquire('redis:8', { owner: 'b' });
    await clock.advance(30 * SECOND - 1);
    expect(source.count('fetch redis:8')).toBe(0);
    await clock.advance(1);
    await expect(next).resolves.toBeDefined();
    expect(told()).toContain('warning:abort-ignored');
  });

  it('IC-7 IC-17 what a stranger brought while we waited in line is used, and is not ours', async () => {
    const { images, source, clock } = fixture({ pull: { concurrency: 1 } });
    const held = source.hold('fetch redis:7');
    const first = images.acquire('redis:7', { owner: 'a' });
    await held.reached;
    const second = images.acquire('redis:8', { owner: 'b' });
    await tick();
    source.put('redis:8', 'sha256:b');
    held.go();
    await first;
    await (await second).release();
    await clock.advance('1h');
    expect(source.count('fetch redis:8')).toBe(0);
    expect(source.names.get('redis:8')).toBe('sha256:b');
  });
});
