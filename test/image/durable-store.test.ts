import { describe, expect, it } from 'vitest';
import { ImageCoordinator, type StateStore } from 'handover';
import { FakeClock, memoryStore } from 'handover/testing';
import { Lives, moody } from './lives.js';
import { ScriptedSource } from './scripted-source.js';

class Named extends ScriptedSource {
  constructor(override readonly id: string) {
    super();
    this.registry.set('redis:7', 'sha256:a');
  }
}

const coordinator = (store: StateStore, id = 'scripted'): ImageCoordinator =>
  new ImageCoordinator({ source: new Named(id) }, { store, clock: new FakeClock() });

describe('IC-22 one coordinator per source and store', () => {
  it('a second one is refused until the first is closed', async () => {
    const store = memoryStore();
    const first = coordinator(store);
    expect(() => coordinator(store)).toThrow(
      expect.objectContaining({ code: 'ERR_STORE_LOCKED', details: { path: 'image/scripted' } }),
    );
    await first.close();
    await coordinator(store).close();
  });

  it('other sources share the store, and see nothing of each other, also if one id begins like another', async () => {
    const store = memoryStore();
    const ids = ['files:/a', 'files:/a/content', 'files:/a/content/x'];
    for (const id of ids) await coordinator(store, id).acquire('redis:7', { owner: id });
    const later = { batch: store.batch.bind(store), list: store.list.bind(store) };
    for (const id of ids) {
      const source = new Named(id);
      source.put('redis:7', 'sha256:a');
      const images = new ImageCoordinator({ source }, { store: later, clock: new FakeClock() });
      const { images: known } = await images.recover(() => true);
      expect(known.map(({ holders }) => holders.map(({ owner }) => owner))).toEqual([[id]]);
    }
  });

  it('a source without an id cannot be kept apart', () => {
    expect(() => coordinator(memoryStore(), '')).toThrow(expect.objectContaining({ details: { path: 'source.id' } }));
  });
});

describe('ST-1 a store that cannot be read', () => {
  it.each([
    ['newer', { v: 2, owner: 'web' }],
    ['damaged', { v: 1, reference: 5 }],
    ['no object', 'text'],
    ['null', null],
  ])('%s: every operation says which key it is, and nothing is changed', async (_, value) => {
    for (const key of ['image/scripted/content/sha256:a', 'image/scripted/intent/x', 'image/scripted/later/x']) {
      const store = memoryStore([[key, value]]);
      const images = coordinator(store);
      const corrupt = expect.objectContaining({ code: 'ERR_STORE_CORRUPT', details: { path: key } }) as Error;
      await expect(images.acquire('redis:7', { owner: 'web' })).rejects.toEqual(corrupt);
      await expect(images.prefetch('redis:7', { owner: 'web', ttl: '1m' })).rejects.toEqual(corrupt);
      await expect(images.adopt({ owner: 'web', reference: 'redis:7', imageId: 'sha256:x' })).rejects.toEqual(corrupt);
      await expect(images.recover(() => false)).rejects.toEqual(corrupt);
      await expect(images.collect()).rejects.toEqual(corrupt);
      await images.close();
      expect(await store.list('')).toEqual([[key, value]]);
      expect(store.batches).toBe(0);
    }
  });

  it.each([
    [{ v: 2 }, 'is of version 2, which is newer'],
    [{ v: 1 }, 'is damaged'],
    [{ v: '2' }, 'is damaged'],
    [null, 'is damaged'],
    ['v', 'is damaged'],
  ])('what it holds is told apart, and what to do about it: %j %s', async (value, problem) => {
    const key = 'image/scripted/content/sha256:a';
    const images = coordinator(memoryStore([[key, value]]));
    await expect(images.recover(() => true)).rejects.toThrow(
      `What the store has under ${key} ${problem}. Nothing was changed; use the version of handover that wrote it, or delete that key`,
    );
  });

  it('the next operation tries again', async () => {
    const lives = new Lives();
    const list = lives.store.list.bind(lives.store);
    lives.store.list = () => Promise.reject(new Error('busy'));
    const { acquire } = lives.begin();
    await expect(acquire('redis:7', 'web')).rejects.toMatchObject({
      ...{ code: 'ERR_DRIVER', retryable: true, details: { driver: 'store', operation: 'list' } },
    });
    lives.store.list = list;
    await acquire('redis:7', 'web');
    expect(await lives.holders()).toEqual({ 'sha256:a': ['web'] });
  });
});

describe('IC-23 close() with a store', () => {
  it('writes what is left, keeps what is held, and leaves no timer', async () => {
    const { store, ...mood } = moody();
    const lives = new Lives({}, store);
    const { images, acquire } = lives.begin();
    const lease = await acquire('redis:7', 'web');
    await acquire('redis:7', 'db');
    mood.break();
    await lease.release();
    mood.mend();
    await images.close();
    expect(await lives.holders()).toEqual({ 'sha256:a': ['db'] });
    expect(lives.clock.pending).toBe(0);
    await lease.release();
    await images.release('db');
    await lives.clock.advance('1h');
    expect(await lives.holders()).toEqual({ 'sha256:a': ['db'] });
  });

  it('waits for a store that does not answer no longer than abortGrace, and tries no more', async () => {
    const { store, state } = moody();
    const lives = new Lives({ pull: { abortGrace: '5s' } }, store);
    const { images, acquire } = lives.begin();
    const lease = await acquire('redis:7', 'web');
    state.mood = () => new Promise(() => undefined);
    const released = lease.release();
    const begun = lives.clock.now();
    await lives.clock.until(images.close());
    expect(lives.clock.now() - begun).toBe(5_000);
    await released;
    expect(lives.clock.pending).toBe(0);
    await lives.begin().images.close();
  });
});
