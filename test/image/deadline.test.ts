import { ImageCoordinator, type PullPolicy } from 'handover';
import { FakeClock, memoryStore } from 'handover/testing';
import { describe, expect, it } from 'vitest';
import { type Fixture, fixture, MINUTE, SECOND } from './fixture.js';
import { pullError, ScriptedSource, untilAborted } from './scripted-source.js';

const never = new Promise<never>(() => undefined);

/** What a call rejects with. */
function failure(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => 'nothing failed',
    (error: unknown) => error,
  );
}

/** The registry is out of reach, and every look after the first `looks` is never answered, nor can it be aborted. */
function silentAfter({ source }: Fixture, looks: number): void {
  let seen = 0;
  source.before = ({ line }) => {
    if (line.startsWith('fetch')) throw pullError('redis:7', 'registry-unavailable', true);
    return ++seen > looks ? never : undefined;
  };
}

describe('a caller with a deadline', () => {
  it('IC-6 IC-9 if-stale: the look for the local copy ends with it, too, as timed-out with the cause of the pull', async () => {
    const all = fixture();
    all.source.put('redis:7', 'sha256:old');
    // Before the fetch and after it; the third is for the copy.
    silentAfter(all, 1);
    const asked = all.images.acquire('redis:7', { owner: 'a', policy: 'if-stale', timeout: '30s' });
    const error = failure(asked);
    await all.clock.advance(30 * SECOND);
    expect(await error).toMatchObject({
      code: 'ERR_PULL_FAILED',
      details: { reason: 'timed-out', attempts: 1 },
      cause: { details: { reason: 'registry-unavailable' } },
      message: expect.stringContaining('registry-unavailable') as string,
      retryable: true,
    });
    expect(all.clock.pending).toBe(0);
  });

  it('IC-6 if-stale: a look that fails is not why there is nothing: the error is the pull’s', async () => {
    const { images, source } = fixture();
    source.put('redis:7', 'sha256:old');
    let looks = 0;
    source.before = ({ line }) => {
      if (line.startsWith('fetch')) throw pullError('redis:7', 'registry-unavailable', true);
      if (++looks > 1) throw new Error('the engine is gone');
    };
    await expect(images.acquire('redis:7', { owner: 'a', policy: 'if-stale' })).rejects.toMatchObject({
      details: { reason: 'registry-unavailable' },
    });
    expect(looks).toBe(2);
  });

  it('IC-6 if-stale: who leaves while the copy is looked for gets the reason of the signal', async () => {
    const all = fixture();
    all.source.put('redis:7', 'sha256:old');
    silentAfter(all, 1);
    const leave = new AbortController();
    const error = failure(all.images.acquire('redis:7', { owner: 'a', policy: 'if-stale', signal: leave.signal }));
    await all.clock.advance(SECOND);
    leave.abort(new Error('enough'));
    expect(await error).toEqual(new Error('enough'));
  });

  it('IC-6 IC-23 if-stale: close() ends the look for the copy', async () => {
    const all = fixture();
    all.source.put('redis:7', 'sha256:old');
    silentAfter(all, 1);
    const error = failure(all.images.acquire('redis:7', { owner: 'a', policy: 'if-stale' }));
    await all.clock.advance(SECOND);
    await all.images.close();
    expect(await error).toMatchObject({ code: 'ERR_CLOSED' });
  });

  it('IC-6 if-stale: a registry that is silent all the time leaves enough of it to take the local copy', async () => {
    const { images, source, clock } = fixture();
    source.put('redis:7', 'sha256:old');
    source.before = ({ line, call }) => (line.startsWith('fetch') ? untilAborted(call) : undefined);
    const asked = images.acquire('redis:7', { owner: 'a', policy: 'if-stale', timeout: MINUTE });
    await clock.advance(54 * SECOND - 1);
    expect(images.explain('redis:7').holders).toEqual([]);
    await clock.advance(1);
    await expect(asked).resolves.toMatchObject({ imageId: 'sha256:old', stale: true });
  });

  it('IC-6 if-stale: without a local copy all the time is the pull’s', async () => {
    const { images, source, clock } = fixture();
    const fetch = source.hold('fetch redis:7');
    const asked = images.acquire('redis:7', { owner: 'a', policy: 'if-stale', timeout: MINUTE });
    await fetch.reached;
    await clock.advance(MINUTE - 1);
    fetch.go();
    await expect(asked).resolves.toMatchObject({ imageId: 'sha256:a', stale: false });
  });

  it.each<PullPolicy>(['never', 'if-absent', 'always', 'if-stale'])(
    'IC-9 G-8 %s: a source that answers no look outlives neither the timeout nor the signal',
    async (policy) => {
      const { images, source, clock } = fixture();
      source.before = () => never;
      const leave = new AbortController();
      const late = failure(images.acquire('redis:7', { owner: 'a', policy, timeout: '30s' }));
      const left = failure(images.acquire('redis:7', { owner: 'b', policy, signal: leave.signal }));
      await clock.advance(29 * SECOND);
      leave.abort(new Error('enough'));
      expect(await left).toEqual(new Error('enough'));
      await clock.advance(SECOND);
      expect(await late).toMatchObject({ details: { reason: 'timed-out' } });
    },
  );

  it('IC-22 G-8 verify, adopt, recover and collect: nor does a signal of theirs', async () => {
    const clock = new FakeClock();
    const source = new ScriptedSource();
    source.registry.set('redis:7', 'sha256:a');
    const images = new ImageCoordinator({ source, removal: { scope: 'any' } }, { clock, store: memoryStore() });
    const lease = await images.acquire('redis:7', { owner: 'a' });
    source.before = () => never;
    source.list = () => never;
    const leave = new AbortController();
    const { signal } = leave;
    const held = { owner: 'b', reference: 'redis:7', imageId: lease.imageId };
    const all = [
      lease.verify({ signal }),
      images.adopt(held, { signal }),
      images.recover(() => true, { signal }),
      images.collect({ signal }),
    ].map(failure);
    await clock.advance(SECOND);
    leave.abort(new Error('enough'));
    for (const error of all) expect(await error).toEqual(new Error('enough'));
  });

  it.each(['list', 'batch'] as const)(
    'IC-21 a store whose %s is never answered does not outlive a timeout',
    async (name) => {
      const clock = new FakeClock();
      const source = new ScriptedSource();
      source.registry.set('redis:7', 'sha256:a');
      const store = Object.assign(memoryStore(), { [name]: () => never });
      const images = new ImageCoordinator({ source }, { clock, store });
      const error = failure(images.acquire('redis:7', { owner: 'a', timeout: '30s' }));
      await clock.advance(30 * SECOND);
      expect(await error).toMatchObject({ details: { reason: 'timed-out' } });
      expect(images.explain('redis:7').holders).toEqual([]);
    },
  );
});

describe('what a timeout tells', () => {
  it('IC-9 between two pulls: the attempts of the last one, and its last words', async () => {
    const { images, source, clock } = fixture({ pull: { attempts: 3 } });
    source.before = ({ line }) => {
      if (line.startsWith('fetch')) throw pullError('redis:7', 'registry-unavailable', true);
    };
    const error = await clock.until(failure(images.acquire('redis:7', { owner: 'a', timeout: '9s' })));
    expect(source.count('fetch redis:7')).toBe(3);
    expect(error).toMatchObject({
      details: { reason: 'timed-out', attempts: 3 },
      message: expect.stringMatching(/after 3 attempts: .*the last failure: .*registry-unavailable/) as string,
      cause: { details: { reason: 'registry-unavailable', attempts: 3 } },
    });
  });

  it('IC-9 at a gate that another has closed: the failure that closed it', async () => {
    const { images, source, clock } = fixture({ pull: { attempts: 2 } });
    source.before = ({ line }) => {
      if (line.startsWith('fetch')) throw pullError('redis:7', 'registry-unavailable', true);
    };
    await clock.until(failure(images.acquire('redis:7', { owner: 'a' })));
    const error = await clock.until(failure(images.acquire('redis:7', { owner: 'b', timeout: '5s' })));
    expect(error).toMatchObject({ details: { reason: 'timed-out', attempts: 2 } });
    expect(String(error)).not.toContain('not tried again before');
  });

  it('IC-9 in the middle of the first attempt: one, and no failure to speak of', async () => {
    const { images, source, clock } = fixture();
    source.before = ({ line, call }) => (line.startsWith('fetch') ? untilAborted(call) : undefined);
    const error = await clock.until(failure(images.acquire('redis:7', { owner: 'a', timeout: '5s' })));
    expect(error).toMatchObject({ details: { reason: 'timed-out', attempts: 1 } });
    expect(String(error)).not.toContain('last failure');
  });
});
