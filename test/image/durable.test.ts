import { describe, expect, it } from 'vitest';
import { ImageCoordinator } from 'handover';
import { FakeClock, memoryStore } from 'handover/testing';
import { MINUTE } from './fixture.js';
import { Lives, moody } from './lives.js';
import { ScriptedSource } from './scripted-source.js';

const dead = (): boolean => false;
const live = (): boolean => true;

describe('IC-21 leases', () => {
  it('acquire() resolves only once its lease is stored, and is stored with what a person asks for', async () => {
    const { store, state } = moody();
    const lives = new Lives({}, store);
    const { images, acquire } = lives.begin();
    let open!: () => void;
    let settled = false;
    lives.source.put('redis:7', 'sha256:a');
    state.mood = () => new Promise((resolve) => (open = resolve));
    const asked = acquire('redis:7', 'web').then(() => (settled = true));
    await lives.clock.advance('1m');
    expect([settled, images.explain('redis:7').state]).toEqual([false, 'held']);
    open();
    await lives.clock.until(asked);
    expect(await lives.stored()).toEqual({
      'content/sha256:a': {
        ...{ v: 1, reference: 'redis:7', references: ['redis:7', 'redis@sha256:a'], digest: 'sha256:a', ours: [] },
        ...{ firstSeen: expect.any(Number) as number, idleSince: null },
        leases: [{ owner: 'web', reference: 'redis:7', since: expect.any(Number) as number }],
      },
    });
  });

  it('what changes while a write is under way goes with the next one, all in one', async () => {
    const inner = memoryStore();
    const { store, state } = moody(inner);
    const lives = new Lives({}, store);
    const { acquire } = lives.begin();
    lives.source.put('redis:7', 'sha256:a');
    state.mood = () => new Promise((resolve) => void lives.clock.timer(5, resolve));
    const first = acquire('redis:7', 'web');
    await lives.clock.advance(1);
    const others = Array.from({ length: 99 }, (_, i) => acquire('redis:7', `web-${i}`));
    await lives.clock.until(Promise.all([first, ...others]));
    expect(inner.batches).toBe(2);
    expect((await lives.holders())['sha256:a']).toHaveLength(100);
  });

  it('an owner shows once, and goes with its last handle', async () => {
    const lives = new Lives();
    const { acquire } = lives.begin();
    const [one, two] = [await acquire('redis:7', 'web'), await acquire('redis:7', 'web')];
    expect(await lives.holders()).toEqual({ 'sha256:a': ['web'] });
    await one.release();
    expect(await lives.holders()).toEqual({ 'sha256:a': ['web'] });
    await two.release();
    expect(await lives.holders()).toEqual({ 'sha256:a': [] });
  });

  it('AL-13 a lease that cannot be stored is let go, and acquire(), adopt() and a pull refuse with the reason', async () => {
    const { store, ...mood } = moody();
    const lives = new Lives({ pull: { attempts: 1 } }, store);
    const { images, acquire, told } = lives.begin();
    lives.source.put('redis:7', 'sha256:a');
    mood.break();
    const refused = expect.objectContaining({
      ...{ code: 'ERR_DRIVER', retryable: true, details: { driver: 'store', operation: 'batch' } },
      cause: expect.objectContaining({ message: 'disk on fire' }) as Error,
    }) as Error;
    await expect(acquire('redis:7', 'web')).rejects.toEqual(refused);
    await expect(images.adopt({ owner: 'web', reference: 'redis:7', imageId: 'sha256:a' })).rejects.toEqual(refused);
    await expect(acquire('redis:8', 'web')).rejects.toEqual(refused);
    expect(lives.source.count('fetch redis:8')).toBe(0);
    expect(images.explain('redis:7')).toMatchObject({ state: 'idle', holders: [] });
    expect(told().filter((line) => line.startsWith('warning'))).toEqual(['warning:store-failed']);
    mood.mend();
    images.retryNow('redis:8');
    await acquire('redis:8', 'web');
    await lives.clock.advance('2m');
    expect(await lives.holders()).toEqual({ 'sha256:a': [], 'sha256:b': ['web'] });
    mood.break();
    await expect(acquire('redis:7', 'web')).rejects.toEqual(refused);
    expect(told().filter((line) => line.startsWith('warning'))).toHaveLength(2);
  });

  it('release() lets go at once and never rejects for the store; it is written later, by itself', async () => {
    const { store, ...mood } = moody();
    const lives = new Lives({}, store);
    const { images, acquire } = lives.begin();
    const lease = await acquire('redis:7', 'web');
    mood.break();
    await lease.release();
    expect(images.explain('redis:7').state).toBe('idle');
    expect(await lives.holders()).toEqual({ 'sha256:a': ['web'] });
    mood.mend();
    await lives.clock.advance('1m');
    expect(await lives.holders()).toEqual({ 'sha256:a': [] });
  });

  it('nothing is deleted on the strength of what the store does not know', async () => {
    const { store, ...mood } = moody();
    const lives = new Lives({}, store);
    const { images, acquire } = lives.begin();
    await images.recover(live);
    const lease = await acquire('redis:7', 'web');
    mood.break();
    await lease.release();
    await lives.clock.advance('10m');
    expect(lives.source.artifact('sha256:a')).toBeDefined();
    expect(images.explain('redis:7').kept).toMatchObject({ code: 'ERR_DRIVER' });
    mood.mend();
    await lives.clock.advance('10m');
    expect(lives.source.artifact('sha256:a')).toBeUndefined();
    expect(await lives.stored()).toEqual({});
  });

  it('a caller who leaves while his lease is being stored has none; close() calls the wait off', async () => {
    const { store, state } = moody();
    const lives = new Lives({ pull: { abortGrace: '5s' } }, store);
    const { images, acquire } = lives.begin();
    lives.source.put('redis:7', 'sha256:a');
    state.mood = () => new Promise(() => undefined);
    const caller = new AbortController();
    const left = acquire('redis:7', 'web', { signal: caller.signal });
    const stays = acquire('redis:7', 'db');
    const outcome = Promise.allSettled([left, stays]);
    await lives.clock.advance(1);
    caller.abort(new Error('left'));
    await lives.clock.advance(1);
    expect(images.explain('redis:7').holders.map(({ owner }) => owner)).toEqual(['db']);
    await lives.clock.until(images.close());
    expect(await outcome).toMatchObject([{ reason: { message: 'left' } }, { reason: { code: 'ERR_CLOSED' } }]);
    expect(lives.clock.pending).toBe(0);
  });
});

describe('IC-21 recover()', () => {
  it('keeps what a live owner holds, who takes it over by adopt() or acquire(); it goes after the last release', async () => {
    const lives = new Lives();
    const first = lives.begin();
    const lease = await first.acquire('redis:7', 'web');
    await first.acquire('redis:8', 'db');
    first.mortal.kill();
    const { images, acquire } = lives.begin();
    const { released, images: known } = await images.recover(live);
    expect(released).toEqual([]);
    expect(known.map(({ imageId, state, holders }) => [imageId, state, holders[0]?.owner])).toEqual([
      ['sha256:a', 'held', 'web'],
      ['sha256:b', 'held', 'db'],
    ]);
    await lives.clock.advance('1h');
    const adopted = await images.adopt({ owner: 'web', reference: 'redis:7', imageId: lease.imageId });
    const acquired = await acquire('redis:8', 'db');
    expect(lives.source.count('fetch redis:7') + lives.source.count('fetch redis:8')).toBe(2);
    await adopted!.release();
    await acquired.release();
    await lives.clock.advance('3m');
    expect(lives.source.names.size).toBe(0);
    expect(await lives.stored()).toEqual({});
  });

  it('releases the leases of dead owners, names them, and their content goes after the delay', async () => {
    const lives = new Lives();
    const first = lives.begin();
    await first.acquire('redis:7', 'web');
    await first.acquire('redis:8', 'db');
    await first.acquire('redis:8', 'web');
    first.mortal.kill();
    const { images } = lives.begin();
    const { released } = await images.recover((owner) => owner === 'db');
    expect(released).toEqual(['web']);
    await lives.clock.advance(3 * MINUTE - 1);
    expect(lives.source.artifact('sha256:a')).toBeDefined();
    await lives.clock.advance(1);
    expect(lives.source.artifact('sha256:a')).toBeUndefined();
    expect(lives.source.artifact('sha256:b')).toBeDefined();
    expect(await lives.holders()).toEqual({ 'sha256:b': ['db'] });
  });

  it.each([
    ['goes on where it stood', 0, 1 * MINUTE, 2 * MINUTE - 1 * MINUTE],
    ['is over when it would be over', 0, 5 * MINUTE, 0],
    ['G-5 is over when wall time jumps ahead', 365 * 24 * 60 * MINUTE, 0, 0],
    ['G-5 is never longer than the whole when wall time jumps back', -365 * 24 * 60 * MINUTE, 0, 3 * MINUTE],
  ])('the delay of what was idle %s', async (_, jump, down, left) => {
    const lives = new Lives();
    const first = lives.begin();
    await (await first.acquire('redis:7', 'web')).release();
    await lives.clock.advance('1m');
    first.mortal.kill();
    await lives.clock.advance(down);
    lives.clock.jump(jump);
    const { images } = lives.begin();
    await images.recover(dead);
    if (left > 0) {
      await lives.clock.advance(left - 1);
      expect(lives.source.artifact('sha256:a')).toBeDefined();
    }
    await lives.clock.advance(1);
    expect(lives.source.artifact('sha256:a')).toBeUndefined();
  });

  it('nothing is removed before it: explain() and collect() say why', async () => {
    const lives = new Lives({ removal: { delay: 0 } });
    const { images, acquire } = lives.begin();
    await (await acquire('redis:7', 'web')).release();
    await lives.clock.advance('1h');
    expect(images.explain('redis:7')).toMatchObject({ state: 'idle', kept: { code: 'not-recovered' } });
    expect(images.explain('redis:7').removeAt).toBeUndefined();
    expect(await images.collect()).toMatchObject({ removed: [], kept: [{ reason: { code: 'not-recovered' } }] });
    expect(lives.source.count('remove redis:7')).toBe(0);
    await images.recover(live);
    await lives.clock.advance(0);
    expect(lives.source.artifact('sha256:a')).toBeUndefined();
    expect(await lives.stored()).toEqual({});
  });

  it('what strangers brought stays theirs, also after it was held and adopted', async () => {
    const lives = new Lives({ removal: { delay: 0 } });
    const first = lives.begin();
    lives.source.put('redis:7', 'sha256:a');
    await first.acquire('redis:7', 'web');
    first.mortal.kill();
    const { images } = lives.begin();
    const lease = await images.adopt({ owner: 'web', reference: 'redis:7', imageId: 'sha256:a' });
    await images.recover(dead);
    expect(images.explain('redis:7').holders).toHaveLength(1);
    await lease!.release();
    await lives.clock.advance('1h');
    expect(lives.source.artifact('sha256:a')).toBeDefined();
    expect(images.snapshot()).toEqual([]);
    expect(await lives.stored()).toEqual({});
  });

  it('S41 held content that was deleted meanwhile is told to its live owners, and forgotten', async () => {
    const lives = new Lives();
    const first = lives.begin();
    await first.acquire('redis:7', 'web');
    await first.acquire('redis:7', 'gone');
    await first.acquire('redis:8', 'gone');
    first.mortal.kill();
    lives.source.wipe('sha256:a');
    lives.source.wipe('sha256:b');
    const { images, told } = lives.begin();
    const { released } = await images.recover((owner) => owner === 'web');
    expect(released).toEqual(['gone']);
    expect(told().filter((line) => line.startsWith('lost'))).toEqual(['lost:sha256:a:web']);
    expect(images.snapshot()).toEqual([]);
    await lives.clock.advance(0);
    expect(await lives.stored()).toEqual({});
  });

  it('S40 content that goes by another id now is found by its reference and digest, with all that is known of it', async () => {
    const lives = new Lives();
    const first = lives.begin();
    await first.acquire('redis:7', 'web');
    await (await first.acquire('redis:8', 'db')).release();
    first.mortal.kill();
    const { source } = lives;
    const artifact = source.artifact.bind(source);
    const ids = new Map([
      ['sha256:a', 'sha256:new-a'],
      ['sha256:b', 'sha256:new-b'],
    ]);
    for (const [name, id] of source.names) source.names.set(name, ids.get(id)!);
    source.artifact = (id) => {
      const found = artifact(id);
      return found && { ...found, digest: id.replace('new-', '') };
    };
    const { images, told } = lives.begin();
    await images.recover(live);
    expect(told().filter((line) => line.startsWith('lost'))).toEqual([]);
    expect(images.explain('redis:7')).toMatchObject({ imageId: 'sha256:new-a', state: 'held' });
    expect(Object.keys(await lives.stored())).toEqual(['content/sha256:new-a', 'content/sha256:new-b']);
    const lease = await images.adopt({ owner: 'web', reference: 'redis:7', imageId: 'sha256:a' });
    expect(lease?.imageId).toBe('sha256:new-a');
    await lease!.release();
    await lives.clock.advance('3m');
    expect(source.names.size).toBe(0);
    expect(await lives.stored()).toEqual({});
  });

  it('S40 other content under the same reference is not the same', async () => {
    const lives = new Lives();
    const first = lives.begin();
    await first.acquire('redis:7', 'web');
    first.mortal.kill();
    lives.source.wipe('sha256:a');
    lives.source.put('redis:7', 'sha256:c');
    const { images, told } = lives.begin();
    await images.recover(live);
    expect(told()).toContain('lost:sha256:a:web');
    await images.release('web');
    await lives.clock.advance('1h');
    expect(lives.source.artifact('sha256:c')).toBeDefined();
  });

  it('a name that a stranger moved while no process looked is not ours any more', async () => {
    const lives = new Lives();
    const first = lives.begin();
    await first.acquire('redis:7', 'web');
    first.mortal.kill();
    lives.source.names.set('redis:7', 'sha256:c');
    const { images } = lives.begin();
    await images.recover(dead);
    await lives.clock.advance('1h');
    expect(lives.source.names.get('redis:7')).toBe('sha256:c');
    expect(await lives.stored()).toEqual({});
  });

  it('nor when the stranger gives it back to our content later', async () => {
    const lives = new Lives();
    const first = lives.begin();
    await first.acquire('redis:7', 'web');
    first.mortal.kill();
    lives.source.put('own:1', 'sha256:a');
    lives.source.names.set('redis:7', 'sha256:c');
    const { images } = lives.begin();
    await images.recover(dead);
    lives.source.names.set('redis:7', 'sha256:a');
    await lives.clock.advance('1h');
    expect(lives.source.names.get('redis:7')).toBe('sha256:a');
  });

  it('again lets go of earlier leases only, never of those of this process', async () => {
    const lives = new Lives();
    const first = lives.begin();
    await first.acquire('redis:7', 'web');
    first.mortal.kill();
    const { images, acquire } = lives.begin();
    await images.recover(live);
    await acquire('redis:8', 'db');
    expect((await images.recover(live)).released).toEqual([]);
    expect((await images.recover(dead)).released).toEqual(['web']);
    expect((await images.recover(dead)).released).toEqual([]);
    expect(images.snapshot().map(({ state }) => state)).toEqual(['idle', 'held']);
  });

  it('rejects when the engine or isLive fails, changes nothing then, and may be called again', async () => {
    const lives = new Lives({ removal: { delay: 0 } });
    const first = lives.begin();
    await first.acquire('redis:7', 'web');
    first.mortal.kill();
    const before = await lives.stored();
    const { images } = lives.begin();
    const list = lives.source.list.bind(lives.source);
    lives.source.list = () => Promise.reject(new Error('no socket'));
    await expect(images.recover(dead)).rejects.toMatchObject({ code: 'ERR_DRIVER', details: { operation: 'list' } });
    lives.source.list = list;
    const failure = new Error('not yet');
    await expect(
      images.recover(() => {
        throw failure;
      }),
    ).rejects.toBe(failure);
    await expect(images.recover((() => Promise.resolve(false)) as never)).rejects.toMatchObject({
      details: { path: 'isLive' },
    });
    await expect(images.recover(undefined as never)).rejects.toMatchObject({ details: { path: 'isLive' } });
    await lives.clock.advance('1h');
    expect(images.explain('redis:7')).toMatchObject({ state: 'held', holders: [{ owner: 'web' }] });
    expect(await lives.stored()).toEqual(before);
    await images.recover(dead);
    await lives.clock.advance(0);
    expect(lives.source.names.size).toBe(0);
  });

  it('is called off by its signal and by close()', async () => {
    const lives = new Lives();
    const { images } = lives.begin();
    await images.recover(live);
    lives.source.list = () => new Promise(() => undefined);
    const caller = new AbortController();
    const [left, closed] = [images.recover(live, { signal: caller.signal }), images.recover(live)];
    const outcome = Promise.allSettled([left, closed]);
    caller.abort(new Error('left'));
    await lives.clock.until(images.close());
    expect(await outcome).toMatchObject([{ reason: { message: 'left' } }, { reason: { code: 'ERR_CLOSED' } }]);
  });

  it('without a store there is nothing to do, and nothing waits for it', async () => {
    const source = new ScriptedSource();
    const clock = new FakeClock();
    source.registry.set('redis:7', 'sha256:a');
    const images = new ImageCoordinator({ source, removal: { delay: 0 } }, { clock });
    await (await images.acquire('redis:7', { owner: 'web' })).release();
    await clock.advance(0);
    expect(source.names.size).toBe(0);
    expect(await images.recover(dead)).toEqual({ released: [], images: [] });
  });

  it('release(owner) lets go of what it held in an earlier process, whatever comes first', async () => {
    const lives = new Lives();
    const first = lives.begin();
    await first.acquire('redis:7', 'web');
    first.mortal.kill();
    const { images } = lives.begin();
    await images.release('web');
    expect(images.explain('redis:7')).toMatchObject({ state: 'idle', holders: [] });
    expect(await lives.holders()).toEqual({ 'sha256:a': [] });
  });

  it('IC-19 a prefetch goes on for the rest of its time, whoever is alive', async () => {
    const lives = new Lives({ removal: { delay: 0 } });
    const first = lives.begin();
    await first.images.prefetch('redis:7', { owner: 'later', ttl: '10m' });
    await first.images.prefetch('redis:8', { owner: 'later', ttl: '10m' });
    await lives.clock.advance('4m');
    first.mortal.kill();
    await lives.clock.advance('1m');
    const { images, acquire } = lives.begin();
    expect((await images.recover(dead)).released).toEqual([]);
    const taken = await acquire('redis:8', 'later');
    await lives.clock.advance(5 * MINUTE - 1);
    expect(images.explain('redis:7').state).toBe('held');
    await lives.clock.advance(1);
    expect(lives.source.artifact('sha256:a')).toBeUndefined();
    expect(images.explain('redis:8').state).toBe('held');
    await taken.release();
  });

  it('G-5 a prefetch is never longer than the whole of it when wall time jumps back, and over when it jumps ahead', async () => {
    for (const [jump, left] of [
      [-365 * 24 * 60 * MINUTE, 10 * MINUTE],
      [365 * 24 * 60 * MINUTE, 0],
    ] as const) {
      const lives = new Lives({ removal: { delay: 0 } });
      const first = lives.begin();
      await first.images.prefetch('redis:7', { owner: 'later', ttl: '10m' });
      first.mortal.kill();
      lives.clock.jump(jump);
      const { images } = lives.begin();
      await images.recover(dead);
      await lives.clock.advance(Math.max(0, left - 1));
      expect(lives.source.artifact('sha256:a') !== undefined).toBe(left > 0);
      await lives.clock.advance(1);
      expect(lives.source.artifact('sha256:a')).toBeUndefined();
    }
  });
});
