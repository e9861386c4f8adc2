import type { StateStore } from 'handover';
import { memoryStore } from 'handover/testing';
import { describe, expect, it } from 'vitest';
import { deferred } from '../../src/internal/deferred.js';
import { Lives, moody } from './lives.js';

const never = (): Promise<never> => new Promise(() => undefined);

describe('IC-1 IC-21 release(owner) while an acquire of it is being stored', () => {
  it.each(['acquire', 'prefetch', 'adopt'] as const)('%s comes back with a lease that holds', async (how) => {
    const mood = moody();
    const lives = new Lives({}, mood.store);
    lives.source.put('redis:7', 'sha256:a');
    const { images } = lives.begin();
    await images.recover(() => true);
    const writing = deferred();
    const written = deferred();
    mood.state.mood = async () => {
      writing.resolve();
      await written.promise;
    };
    const pending = {
      acquire: () => images.acquire('redis:7', { owner: 'web' }),
      prefetch: () => images.prefetch('redis:7', { owner: 'web', ttl: '1h' }),
      adopt: () => images.adopt({ owner: 'web', reference: 'redis:7', imageId: 'sha256:a' }),
    }[how]();
    await writing.promise;
    const released = images.release('web');
    written.resolve();
    await released;
    expect((await pending)?.imageId).toBe('sha256:a');
    expect(images.explain('redis:7')).toMatchObject({ state: 'held', holders: [{ owner: 'web' }] });
    expect(await lives.holders()).toEqual({ 'sha256:a': ['web'] });
    await images.release('web');
    expect(images.explain('redis:7').state).toBe('idle');
  });
});

describe('IC-21 a store that does not answer', () => {
  it('holds up neither a release nor a release of all for more than 30 s, and the content is let go at once', async () => {
    const mood = moody();
    const lives = new Lives({}, mood.store);
    const { images, acquire } = lives.begin();
    const lease = await acquire('redis:7', 'web');
    await acquire('redis:8', 'db');
    mood.state.mood = never;
    const released = Promise.all([lease.release(), images.release('db')]);
    expect(images.snapshot().map(({ state }) => state)).toEqual(['idle', 'idle']);
    await lives.clock.advance(30_000);
    await released;
  });

  it('release(owner) says so when it cannot be read what an earlier process held', async () => {
    const inner = memoryStore();
    const store: StateStore = { batch: (ops) => inner.batch(ops), list: never };
    const lives = new Lives({}, store);
    const { images } = lives.begin();
    const released = expect(images.release('web')).rejects.toMatchObject({ code: 'ERR_DRIVER', retryable: true });
    await lives.clock.advance(30_000);
    await released;
  });
});
