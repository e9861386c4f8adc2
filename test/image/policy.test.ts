import { HandoverError } from 'handover';
import { describe, expect, it } from 'vitest';
import { fixture, MINUTE } from './fixture.js';
import { pullError } from './scripted-source.js';

const tick = () => new Promise((resolve) => setImmediate(resolve));

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

  it('IC-3 IC-6 always does not take the local copy that a flight is just being answered from', async () => {
    const { images, source } = fixture({ pull: { concurrency: 1 } });
    const busy = source.hold('fetch redis:8');
    const other = images.acquire('redis:8', { owner: 'x' });
    await busy.reached;
    const first = images.acquire('redis:7', { owner: 'a' });
    await tick();
    // Somebody pulls an older one by hand, while ours waits in line.
    source.put('redis:7', 'sha256:old');
    const [look, landing] = [source.hold('find redis:7'), source.hold('find redis:7')];
    busy.go();
    await look.reached;
    look.go();
    await landing.reached;
    const forced = images.acquire('redis:7', { owner: 'b', policy: 'always' });
    await tick();
    landing.go();
    await expect(forced).resolves.toMatchObject({ imageId: 'sha256:a' });
    expect(source.count('fetch redis:7')).toBe(1);
    await Promise.all([first, other]);
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
