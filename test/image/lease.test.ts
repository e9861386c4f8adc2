import { getEventListeners } from 'node:events';
import { ImageCoordinator } from 'handover';
import { describe, expect, it } from 'vitest';
import { fixture, MINUTE } from './fixture.js';
import { digestOf, untilAborted } from './scripted-source.js';

const tick = () => new Promise((resolve) => setImmediate(resolve));

describe('IC-2 counting', () => {
  it('S26 a second release changes nothing; an owner goes with its last handle', async () => {
    const { images } = fixture();
    const one = await images.acquire('redis:7', { owner: 'a' });
    const two = await images.acquire('redis:7', { owner: 'a' });
    const other = await images.acquire('redis:7', { owner: 'b' });
    expect(images.explain('redis:7').holders.map(({ owner }) => owner)).toEqual(['a', 'b']);
    await one.release();
    await one.release();
    expect(images.explain('redis:7').holders.map(({ owner }) => owner)).toEqual(['a', 'b']);
    await two[Symbol.asyncDispose]();
    expect(images.explain('redis:7').holders.map(({ owner }) => owner)).toEqual(['b']);
    await other.release();
    expect(images.explain('redis:7')).toMatchObject({ state: 'idle', holders: [] });
  });

  it('IC-2 release(owner) drops all leases of the owner and nobody else’s', async () => {
    const { images } = fixture();
    const lease = await images.acquire('redis:7', { owner: 'a' });
    await images.acquire('redis:8', { owner: 'a' });
    await images.acquire('redis:8', { owner: 'b' });
    await images.release('a');
    await images.release('stranger');
    await lease.release();
    expect(images.explain('redis:7').state).toBe('idle');
    expect(images.explain('redis:8').holders.map(({ owner }) => owner)).toEqual(['b']);
  });
});

describe('IC-22 verify and adopt', () => {
  it('S41 verify: still there costs one look', async () => {
    const { images, source } = fixture();
    const lease = await images.acquire('redis:7', { owner: 'a' });
    source.calls.length = 0;
    await lease.verify();
    expect(source.calls).toEqual(['find sha256:a']);
  });

  it('S41 DP-4 verify brings back what somebody deleted, by its digest, and tells the owners once', async () => {
    const { images, source, told } = fixture();
    source.registry.set(digestOf('redis', 'sha256:a'), 'sha256:a');
    const lease = await images.acquire('redis:7', { owner: 'a' });
    await images.acquire('redis:7', { owner: 'b' });
    source.wipe('sha256:a');
    await Promise.all([lease.verify(), lease.verify()]);
    expect(source.artifact('sha256:a')).toBeDefined();
    expect(source.count(`fetch ${digestOf('redis', 'sha256:a')}`)).toBe(1);
    expect(told().filter((line) => line.startsWith('lost'))).toEqual(['lost:a,b']);
    expect(images.explain('sha256:a').holders.map(({ owner }) => owner)).toEqual(['a', 'b']);
  });

  it('DP-4 verify: a name that its maker gave against the grammar is no obstacle', async () => {
    const { images, source } = fixture();
    source.registry.set(digestOf('redis', 'sha256:a'), 'sha256:a');
    await images.acquire('redis:7', { owner: 'a' });
    source.names.set('Not A Reference', 'sha256:a');
    const lease = await images.acquire('redis:7', { owner: 'b' });
    source.wipe('sha256:a');
    await lease.verify();
    expect(source.artifact('sha256:a')).toBeDefined();
  });

  it('IC-17 IC-22 what was lost and somebody else brought back is theirs from then on', async () => {
    const { images, source, clock } = fixture();
    const lease = await images.acquire('redis:7', { owner: 'a' });
    source.wipe('sha256:a');
    await expect(images.acquire('redis:7', { owner: 'c', policy: 'never' })).rejects.toMatchObject({
      code: 'ERR_IMAGE_ABSENT',
    });
    source.put('redis:7', 'sha256:a');
    await lease.verify();
    await lease.release();
    await clock.advance(10 * MINUTE);
    expect(source.artifact('sha256:a')).toBeDefined();
  });

  it('IC-17 IC-22 what was lost and we brought back is ours as before', async () => {
    const { images, source, clock } = fixture();
    source.registry.set(digestOf('redis', 'sha256:a'), 'sha256:a');
    const lease = await images.acquire('redis:7', { owner: 'a' });
    source.wipe('sha256:a');
    await lease.verify();
    await lease.release();
    await clock.advance(10 * MINUTE);
    expect(source.artifact('sha256:a')).toBeUndefined();
  });

  it('DP-4 verify: only other content came back: said so, and that is not kept', async () => {
    const { images, source, clock } = fixture();
    source.before = ({ line }) => {
      if (line.startsWith('find')) source.names.delete(digestOf('redis', 'sha256:a'));
    };
    const lease = await images.acquire('redis:7', { owner: 'a' });
    source.wipe('sha256:a');
    source.registry.set('redis:7', 'sha256:c');
    await expect(lease.verify()).rejects.toMatchObject({ code: 'ERR_IMAGE_ABSENT', details: { reference: 'redis:7' } });
    await clock.advance(3 * MINUTE);
    expect(source.artifact('sha256:c')).toBeUndefined();
  });

  it('S41 an acquire that finds held content gone tells it and brings it back', async () => {
    const { images, source, told } = fixture();
    await images.acquire('redis:7', { owner: 'a' });
    source.wipe('sha256:a');
    await images.acquire('redis:7', { owner: 'b' });
    expect(source.count('fetch redis:7')).toBe(2);
    expect(told()).toContain('lost:a');
  });

  it('IC-21 adopt re-takes a lease by id, never pulls, and is not ours to remove', async () => {
    const { images, source, clock } = fixture();
    const held = { owner: 'a', reference: 'redis:7', imageId: 'sha256:a' };
    await expect(images.adopt(held)).resolves.toBeUndefined();
    source.put('redis:7', 'sha256:a');
    const lease = await images.adopt(held);
    expect(lease).toMatchObject({ ...held, stale: false });
    expect(images.explain('redis:7')).toMatchObject({ state: 'held', holders: [{ owner: 'a' }] });
    await lease!.release();
    await clock.advance('1h');
    expect(source.names.has('redis:7')).toBe(true);
    expect(source.calls.filter((call) => call.startsWith('fetch'))).toEqual([]);
  });

  it('IC-22 content that was brought back by hand and is lost again is told again', async () => {
    const { images, source, told } = fixture();
    const lease = await images.acquire('redis:7', { owner: 'a' });
    const lose = async (): Promise<void> => {
      source.wipe('sha256:a');
      source.registry.clear();
      await expect(lease.verify()).rejects.toMatchObject({ code: 'ERR_PULL_FAILED' });
    };
    await lose();
    source.put('redis:7', 'sha256:a');
    await lease.verify();
    await lose();
    expect(told().filter((line) => line.startsWith('lost'))).toEqual(['lost:a', 'lost:a']);
  });

  it('IC-22 verify of a lease that has ended looks, and brings nothing back', async () => {
    const { images, source } = fixture();
    source.registry.set(digestOf('redis', 'sha256:a'), 'sha256:a');
    const lease = await images.acquire('redis:7', { owner: 'a' });
    await images.acquire('redis:7', { owner: 'b' });
    await lease.release();
    await lease.verify();
    source.wipe('sha256:a');
    source.calls.length = 0;
    await expect(lease.verify()).rejects.toMatchObject({ code: 'ERR_IMAGE_ABSENT', details: { reference: 'redis:7' } });
    expect(source.calls).toEqual(['find sha256:a']);
  });

  it('IC-21 IC-22 verify of an adopted lease brings the content back for its platform', async () => {
    const { images, source } = fixture();
    source.platforms.set('sha256:a', 'linux/arm64');
    source.put('redis:7', 'sha256:a');
    source.registry.set(digestOf('redis', 'sha256:a'), 'sha256:a');
    const lease = await images.adopt({ owner: 'a', reference: 'redis:7', imageId: 'sha256:a' });
    source.wipe('sha256:a');
    const asked: unknown[] = [];
    source.before = ({ line, call }) => {
      if (line.startsWith('fetch')) asked.push((call as { platform?: string }).platform);
    };
    await lease!.verify();
    expect(asked).toEqual(['linux/arm64']);
  });

  it('IC-21 adopt by a name is refused: it may mean other content by now', async () => {
    const { images, source } = fixture();
    source.put('redis:7', 'sha256:b');
    await expect(images.adopt({ owner: 'a', reference: 'redis:7', imageId: 'redis:7' })).rejects.toMatchObject({
      code: 'ERR_INVALID_OPTION',
      details: { path: 'imageId' },
    });
    expect(source.calls).toEqual([]);
  });

  it('IC-16 adopt that meets a removal waits for it', async () => {
    const { images, source, clock } = fixture();
    await (await images.acquire('redis:7', { owner: 'a' })).release();
    const held = source.hold('remove redis:7');
    await clock.advance(3 * MINUTE);
    const adopted = images.adopt({ owner: 'b', reference: 'redis:7', imageId: 'sha256:a' });
    await tick();
    held.go();
    await expect(adopted).resolves.toBeUndefined();
  });
});

describe('IC-23 close', () => {
  it('IC-23 pending acquires reject, nothing is removed, no timer and no listener stays', async () => {
    const { images, source, clock } = fixture({ pull: { concurrency: 1 } });
    const lease = await images.acquire('redis:7', { owner: 'a' });
    await (await images.acquire('redis:8', { owner: 'a' })).release();
    source.before = (step) => (step.line.startsWith('fetch') ? untilAborted(step.call) : undefined);
    const { signal } = new AbortController();
    const pending = [
      images.acquire('x:1', { owner: 'b', signal }),
      images.acquire('y:1', { owner: 'b', signal, timeout: '1h' }),
    ];
    const settled = Promise.allSettled(pending);
    await tick();
    await images.close();
    for (const result of await settled) expect(result).toMatchObject({ reason: { code: 'ERR_CLOSED' } });
    await lease.release();
    await clock.advance('1h');
    expect(source.names.has('redis:8')).toBe(true);
    expect(images.snapshot()).toEqual([]);
    expect(clock.pending).toBe(0);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    await expect(images.acquire('redis:7', { owner: 'a' })).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    await expect(lease.verify()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    await images.close();
  });

  it('IC-23 IC-15 what is due already is removed before it closes', async () => {
    const { images, source, clock } = fixture({ removal: { delay: 0 } });
    await (await images.acquire('redis:8', { owner: 'a' })).release();
    await images.close();
    expect(source.names.has('redis:8')).toBe(false);
    expect(clock.pending).toBe(0);
  });

  it('IC-23 close does not wait for ever for a source that ignores its end', async () => {
    const { images, source, clock } = fixture();
    await (await images.acquire('redis:8', { owner: 'a' })).release();
    source.hold('users sha256:b');
    source.hold('fetch redis:7');
    await clock.advance(3 * MINUTE);
    const pending = images.acquire('redis:7', { owner: 'a' });
    pending.catch(() => undefined);
    await tick();
    await clock.until(images.close());
    await expect(pending).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    expect(clock.pending).toBe(0);
  });
});

describe('options', () => {
  it('G-2 the effective options can be read back', () => {
    const { images } = fixture({ removal: { delay: '96h' }, pull: {} });
    expect(images.options).toEqual({
      removal: { enabled: true, delay: 345_600_000, scope: 'pulled' },
      retention: { pin: [], keepLast: 0, maxAge: Infinity },
      pull: {
        policy: 'if-absent',
        concurrency: 3,
        attempts: 5,
        linger: 30_000,
        abortGrace: 30_000,
        timeout: Infinity,
        beginTimeout: 300_000,
        stallTimeout: 300_000,
      },
    });
  });

  it.each([
    [{ removal: { delay: '96' } }, 'removal.delay'],
    [{ removal: { dely: 1 } }, 'removal.dely'],
    [{ retention: { pin: ['redis:7', 'UPPER'] } }, 'retention.pin.1'],
    [{ retention: { pin: [5] } }, 'retention.pin.0'],
    [{ retention: { pin: 'redis:7' } }, 'retention.pin'],
    [{ retention: { keepLast: -1 } }, 'retention.keepLast'],
    [{ retention: { maxAge: 'soon' } }, 'retention.maxAge'],
    [{ retention: { disk: {} } }, 'retention.disk'],
    [{ pull: { concurrency: 0 } }, 'pull.concurrency'],
    [{ pull: { attempts: 1.5 } }, 'pull.attempts'],
    [{ source: undefined }, 'source'],
    [{ source: {} }, 'source'],
    [{ auth: 1 }, 'auth'],
  ])('G-1 G-2 %j is refused, naming %s', (options, path) => {
    const { source } = fixture();
    expect(() => new ImageCoordinator({ source, ...options } as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }) as Error,
    );
  });
});
