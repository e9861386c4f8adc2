import { describe, expect, it } from 'vitest';
import { type Fixture, fixture, SECOND } from './fixture.js';
import { pullError } from './scripted-source.js';

/** A disk that holds so many pieces of content. */
function disk({ source }: Fixture, size: number): void {
  source.before = ({ line }) => {
    if (line.startsWith('fetch') && new Set(source.names.values()).size >= size) {
      throw pullError('redis:8', 'no-space', false);
    }
  };
}

describe('IC-10 S18 case C16 a full disk', () => {
  it('what nobody holds makes room, whatever is left of its delay; one more try, and it comes', async () => {
    const all = fixture();
    disk(all, 1);
    await (await all.images.acquire('redis:7', { owner: 'a' })).release();
    all.source.calls.length = 0;
    await expect(all.images.acquire('redis:8', { owner: 'b' })).resolves.toMatchObject({ imageId: 'sha256:b' });
    expect(all.source.calls.filter((call) => /^(fetch|remove)/.test(call))).toEqual([
      'fetch redis:8',
      'remove redis:7',
      'fetch redis:8',
    ]);
    expect(all.clock.now()).toBe(0);
  });

  it('what is held stays: it fails with the class after two attempts, at once, and without a gate', async () => {
    const all = fixture();
    disk(all, 1);
    await all.images.acquire('redis:7', { owner: 'a' });
    for (const fetches of [2, 4]) {
      await expect(all.images.acquire('redis:8', { owner: 'b' })).rejects.toMatchObject({
        code: 'ERR_PULL_FAILED',
        retryable: false,
        details: { reason: 'no-space', attempts: 2 },
      });
      expect(all.source.count('fetch redis:8')).toBe(fetches);
    }
    expect(all.images.explain('redis:7').state).toBe('held');
    expect(all.source.calls.filter((call) => call.startsWith('remove'))).toEqual([]);
    expect(all.clock.now()).toBe(0);
    expect(all.clock.pending).toBe(0);
  });

  it('one more try also where attempts are limited to one; a second full disk of the same pull ends it', async () => {
    const all = fixture({ pull: { attempts: 1 }, removal: { enabled: false } });
    disk(all, 0);
    await expect(all.images.acquire('redis:8', { owner: 'b' })).rejects.toMatchObject({ details: { attempts: 2 } });
  });

  it('another kind of failure in between does not give it a third try', async () => {
    const all = fixture();
    const failures = ['no-space', 'registry-unavailable', 'no-space', 'no-space'] as const;
    let fetches = 0;
    all.source.before = ({ line }) => {
      const reason = line.startsWith('fetch') ? failures[fetches++] : undefined;
      if (reason !== undefined) throw pullError('redis:8', reason, reason === 'registry-unavailable');
    };
    await expect(all.clock.until(all.images.acquire('redis:8', { owner: 'b' }))).rejects.toMatchObject({
      details: { reason: 'no-space', attempts: 3 },
    });
  });

  it('IC-7 IC-12 while room is made it says why it waits, and its place in the queue is free', async () => {
    const all = fixture({ pull: { concurrency: 1 } });
    all.source.registry.set('other:1', 'sha256:o');
    await (await all.images.acquire('redis:7', { owner: 'a' })).release();
    all.source.before = ({ line }) => {
      if (line === 'fetch redis:8' && all.source.count(line) === 1) throw pullError('redis:8', 'no-space', false);
    };
    const removing = all.source.hold('remove redis:7');
    const asked = all.images.acquire('redis:8', { owner: 'b' });
    await removing.reached;
    expect(all.images.explain('redis:8')).toMatchObject({
      state: 'pulling',
      progress: { phase: 'retrying', lastError: { code: 'ERR_PULL_FAILED' } },
    });
    await expect(all.images.acquire('other:1', { owner: 'c' })).resolves.toBeDefined();
    removing.go();
    await expect(asked).resolves.toBeDefined();
  });

  it('IC-16 two pulls that find the disk full at once do not wait for each other for ever', async () => {
    const all = fixture({ removal: { delay: '1h' } });
    await (await all.images.acquire('redis:7', { owner: 'a' })).release();
    disk(all, 1);
    // One of them moves the very name that the other one's clearing would like to take away.
    const both = ['redis:7', 'redis:8'].map((one) => all.images.acquire(one, { owner: 'b', policy: 'always' }));
    const ends = await all.clock.until(Promise.allSettled(both));
    for (const end of ends)
      if (end.status === 'rejected') expect(end.reason).toMatchObject({ details: { attempts: 2 } });
    await all.images.close();
    expect(all.clock.pending).toBe(0);
  });

  it('IC-4 G-4 who leaves while room is made leaves at once, and nothing is fetched any more', async () => {
    const all = fixture();
    await (await all.images.acquire('redis:7', { owner: 'a' })).release();
    disk(all, 1);
    const removing = all.source.hold('remove redis:7');
    const leave = new AbortController();
    const asked = all.images.acquire('redis:8', { owner: 'b', signal: leave.signal });
    await removing.reached;
    leave.abort(new Error('bye'));
    await expect(asked).rejects.toThrow('bye');
    removing.go();
    await all.clock.advance(SECOND);
    expect(all.source.count('fetch redis:8')).toBe(1);
  });

  it('a removal that fails, or is off, is not the pull’s failure', async () => {
    const all = fixture();
    await (await all.images.acquire('redis:7', { owner: 'a' })).release();
    let full = true;
    all.source.before = ({ line }) => {
      if (line.startsWith('users')) throw new Error('HTTP 500');
      if (line === 'fetch redis:8' && full) {
        full = false;
        throw pullError('redis:8', 'no-space', false);
      }
    };
    await expect(all.images.acquire('redis:8', { owner: 'b' })).resolves.toBeDefined();
  });
});
