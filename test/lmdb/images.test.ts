import { describe, expect, it, vi } from 'vitest';
import { ImageCoordinator } from 'handover';
import { Lives } from '../image/lives.js';
import { ScriptedSource } from '../image/scripted-source.js';
import { folders, type LmdbStore } from './folder.js';

const { path, open } = folders();

/** Processes over one file; `reopen` is what comes after a death. */
async function onDisk() {
  const file = await path();
  let store: LmdbStore = await open(file);
  const lives = new Lives({}, store);
  const reopen = async (): Promise<void> => {
    await store[Symbol.asyncDispose]();
    lives.store = store = await open(file);
  };
  return { lives, reopen };
}

describe('ImageCoordinator over lmdbStore', () => {
  it('IC-21 leases, delays and what is ours outlive the process', async () => {
    const { lives, reopen } = await onDisk();
    const first = lives.begin();
    const lease = await first.acquire('redis:7', 'web');
    await (await first.acquire('redis:8', 'db')).release();
    first.mortal.kill();
    await reopen();
    const { images } = lives.begin();
    expect((await images.recover(() => true)).images.map(({ imageId, state }) => [imageId, state])).toEqual([
      ['sha256:a', 'held'],
      ['sha256:b', 'idle'],
    ]);
    const adopted = await images.adopt({ owner: 'web', reference: 'redis:7', imageId: lease.imageId });
    await lives.clock.advance('3m');
    await vi.waitFor(() => expect(lives.source.artifact('sha256:b')).toBeUndefined());
    expect(lives.source.artifact('sha256:a')).toBeDefined();
    await adopted!.release();
    await lives.clock.advance('3m');
    await vi.waitFor(async () => expect(await lives.stored()).toEqual({}));
    expect(lives.source.names.size).toBe(0);
    await images.close();
  });

  it('IC-21 what a dead process was pulling is ours', async () => {
    const { lives, reopen } = await onDisk();
    const first = lives.begin();
    const fetch = lives.source.hold('fetch redis:7');
    void first.acquire('redis:7', 'web');
    await fetch.reached;
    first.mortal.kill();
    fetch.go();
    await reopen();
    const { images } = lives.begin();
    await images.recover(() => false);
    await lives.clock.advance('3m');
    await vi.waitFor(async () => expect(await lives.stored()).toEqual({}));
    expect(lives.source.names.size).toBe(0);
    await images.close();
  });

  it('AL-13 a store that was closed is an error of each acquire, and close() does not hang on it', async () => {
    const store = await open(await path());
    const lives = new Lives({}, store);
    const { images, acquire } = lives.begin();
    const lease = await acquire('redis:7', 'web');
    await store[Symbol.asyncDispose]();
    await expect(acquire('redis:7', 'db')).rejects.toMatchObject({ code: 'ERR_DRIVER', cause: { code: 'ERR_CLOSED' } });
    await lease.release();
    await images.close();
    expect(lives.clock.pending).toBe(0);
  });

  it('IC-22 a thousand leases at once are few writes; two sources share the file', async () => {
    const { lives } = await onDisk();
    const batch = vi.spyOn(lives.store, 'batch');
    const { acquire } = lives.begin();
    await Promise.all(Array.from({ length: 1_000 }, (_, i) => acquire('redis:7', `web-${i}`)));
    expect(batch.mock.calls.length).toBeLessThan(10);
    const other = new ImageCoordinator({ source: Object.assign(new ScriptedSource(), { id: 'other' }) }, lives);
    expect((await other.recover(() => false)).images).toEqual([]);
    await other.close();
    expect((await lives.holders())['sha256:a']).toHaveLength(1_000);
  });
});
