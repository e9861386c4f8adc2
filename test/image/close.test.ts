import { ImageCoordinator } from 'handover';
import { describe, expect, it } from 'vitest';
import { changes, fixture, HOUR } from './fixture.js';
import { Lives, moody } from './lives.js';
import type { Step } from './scripted-source.js';

describe('IC-23 what a closed coordinator still does', () => {
  it('IC-23 IC-15 a removal that fell due in the step of close() ends first, and nothing comes after', async () => {
    const { images, source, clock } = fixture({ removal: { delay: 0 } });
    const lease = await images.acquire('redis:7', { owner: 'a' });
    void lease.release();
    await images.close();
    expect(source.names.size).toBe(0);
    source.calls.length = 0;
    await clock.advance(HOUR);
    expect(source.calls).toEqual([]);
  });

  it('IC-23 IC-16 what the next coordinator holds is not touched by a removal that close() gave up', async () => {
    const { images, source, clock } = fixture({ removal: { delay: 0 } });
    const lease = await images.acquire('redis:7', { owner: 'a' });
    const users = source.hold('users sha256:a');
    void lease.release();
    await clock.until(images.close());
    const next = new ImageCoordinator({ source }, { clock });
    await next.acquire('redis:7', { owner: 'b' });
    users.go();
    await clock.advance(HOUR);
    expect(next.explain('redis:7').state).toBe('held');
    expect(changes(source.calls)).toEqual([]);
  });

  it('IC-23 what falls due while close() waits for a pull is left to the next one', async () => {
    const { images, source, clock } = fixture({ removal: { delay: 0 } });
    const lease = await images.acquire('redis:7', { owner: 'a' });
    const fetch = source.hold('fetch redis:8');
    const other = images.acquire('redis:8', { owner: 'b' }).catch(() => undefined);
    await fetch.reached;
    source.calls.length = 0;
    const closed = images.close();
    await lease.release();
    await clock.advance(1);
    fetch.go();
    await closed;
    await other;
    await clock.advance(HOUR);
    expect(source.calls).toEqual([]);
    expect(source.names.has('redis:7')).toBe(true);
  });
});

describe('IC-23 a source that goes on', () => {
  it('IC-8 IC-23 telling of progress after the end of a fetch arms no timer', async () => {
    const { images, source, clock } = fixture();
    const fetches: Step[] = [];
    source.before = (step) => {
      if (step.line.startsWith('fetch')) fetches.push(step);
    };
    await images.acquire('redis:7', { owner: 'a' });
    expect(fetches).toHaveLength(1);
    fetches[0]?.onProgress({ phase: 'downloading', bytes: { done: 1 } });
    await images.close();
    expect(clock.pending).toBe(0);
  });
});

describe('IC-23 leases after close()', () => {
  it.each([
    ['comes', 'fetch redis:7', false],
    ['is found', 'find redis:7', true],
  ])('IC-19 a prefetch whose content %s in the step of close() gets ERR_CLOSED, no timer', async (_, from, there) => {
    const { images, source, clock } = fixture();
    if (there) source.put('redis:7', 'sha256:a');
    const find = source.find.bind(source);
    let closed: Promise<void> | undefined;
    source.find = (reference, call) => {
      const found = find(reference, call);
      if (source.calls.includes(from)) void found.then(() => (closed ??= images.close()));
      return found;
    };
    const asked = images.prefetch('redis:7', { owner: 'a', ttl: '1h' });
    await expect(asked).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    await closed;
    expect(clock.pending).toBe(0);
  });

  it('release() does nothing and settles, although the last write had failed', async () => {
    const mood = moody();
    const lives = new Lives({}, mood.store);
    const life = lives.begin();
    const lease = await life.acquire('redis:7', 'web');
    await life.acquire('redis:8', 'x');
    mood.break();
    await life.images.release('x');
    await lives.clock.until(life.images.close());
    await lease.release();
    expect(lives.clock.pending).toBe(0);
  });
});
