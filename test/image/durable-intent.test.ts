import { describe, expect, it } from 'vitest';
import { type Life, Lives } from './lives.js';

const dead = (): boolean => false;

/** A process dies while it pulls; what becomes of the pull is up to the engine. */
async function killedWhilePulling(
  lives: Lives,
  life: Life,
  policy?: 'always',
): Promise<ReturnType<typeof lives.source.hold>> {
  const fetch = lives.source.hold('fetch redis:7');
  void life.acquire('redis:7', 'web', { policy });
  await fetch.reached;
  life.mortal.kill();
  return fetch;
}

describe('IC-21 intents', () => {
  it('one is stored before the fetch, and goes in the batch that stores what came', async () => {
    const lives = new Lives();
    const life = lives.begin();
    const fetch = lives.source.hold('fetch redis:7');
    const asked = life.acquire('redis:7', 'web', { platform: 'linux/arm64' });
    await fetch.reached;
    const [[key, intent]] = Object.entries(await lives.stored()) as [[string, unknown]];
    expect(key).toMatch(/^intent\/[0-9a-f]{64}$/);
    expect(intent).toEqual({
      v: 1,
      reference: 'redis:7',
      platform: 'linux/arm64',
      before: null,
      at: lives.clock.wall(),
    });
    const seen: string[][] = [];
    const batch = lives.store.batch.bind(lives.store);
    lives.store.batch = async (ops) => {
      await batch(ops);
      seen.push(Object.keys(await lives.stored()));
    };
    fetch.go();
    await asked;
    expect(seen).toEqual([['content/sha256:a']]);
  });

  it.each(['not-found-or-denied', 'corrupt-stream'] as const)('none is left when nothing came: %s', async (reason) => {
    const lives = new Lives({ pull: { attempts: 2 } });
    const { acquire } = lives.begin();
    if (reason === 'not-found-or-denied') lives.source.registry.clear();
    else lives.source.before = ({ line }) => (line === 'fetch redis:7' ? Promise.reject(new Error('cut')) : undefined);
    await expect(lives.clock.until(acquire('redis:7', 'web'))).rejects.toMatchObject({ code: 'ERR_PULL_FAILED' });
    await lives.clock.advance(0);
    expect(await lives.stored()).toEqual({});
  });

  it('what comes after the process has ended is ours, and goes after its delay', async () => {
    const lives = new Lives();
    (await killedWhilePulling(lives, lives.begin())).go();
    await lives.clock.advance('1h');
    expect(lives.source.artifact('sha256:a')).toBeDefined();
    const { images } = lives.begin();
    const { images: known } = await images.recover(dead);
    expect(known).toMatchObject([{ imageId: 'sha256:a', state: 'idle' }]);
    expect(Object.keys(await lives.stored())).toEqual(['content/sha256:a']);
    await lives.clock.advance('3m');
    expect(lives.source.names.size).toBe(0);
    expect(await lives.stored()).toEqual({});
  });

  it('what was there before with the same id is not ours', async () => {
    const lives = new Lives();
    lives.source.put('redis:7', 'sha256:a');
    (await killedWhilePulling(lives, lives.begin(), 'always')).go();
    const { images } = lives.begin();
    await images.recover(dead);
    await lives.clock.advance('1h');
    expect(lives.source.names.get('redis:7')).toBe('sha256:a');
    expect(await lives.stored()).toEqual({});
  });

  it('a reference that came to mean other content by our pull is ours', async () => {
    const lives = new Lives();
    lives.source.put('redis:7', 'sha256:old');
    (await killedWhilePulling(lives, lives.begin(), 'always')).go();
    const { images } = lives.begin();
    await images.recover(dead);
    await lives.clock.advance('1h');
    expect(lives.source.names.has('redis:7')).toBe(false);
    expect(await lives.stored()).toEqual({});
  });

  it('nothing came: nothing is left of it', async () => {
    const lives = new Lives();
    await killedWhilePulling(lives, lives.begin());
    const { images } = lives.begin();
    await images.recover(dead);
    await lives.clock.advance(0);
    expect(await lives.stored()).toEqual({});
  });

  it('a pull before recover() does not hide what an earlier pull brought, also if it moves the reference', async () => {
    const lives = new Lives();
    (await killedWhilePulling(lives, lives.begin())).go();
    await lives.clock.advance(0);
    const { images, acquire } = lives.begin();
    lives.source.registry.set('redis:7', 'sha256:b');
    await (await acquire('redis:7', 'web', { policy: 'always' })).release();
    await images.recover(dead);
    await lives.clock.advance('1h');
    expect(lives.source.names.size).toBe(0);
    expect(await lives.stored()).toEqual({});
  });

  it('a pull of another credential scope does not take away the intent of one that still goes on', async () => {
    const lives = new Lives();
    const first = lives.begin();
    const [one, two] = [lives.source.hold('fetch redis:7'), lives.source.hold('fetch redis:7')];
    void first.acquire('redis:7', 'web', { authScope: 'one', policy: 'always' });
    await one.reached;
    const other = first.acquire('redis:7', 'db', { authScope: 'two', policy: 'always' });
    await two.reached;
    lives.source.registry.clear();
    two.go();
    await expect(other).rejects.toMatchObject({ code: 'ERR_PULL_FAILED' });
    first.mortal.kill();
    expect(Object.keys(await lives.stored())).toEqual([expect.stringContaining('intent/')]);
    lives.source.registry.set('redis:7', 'sha256:a');
    one.go();
    const { images } = lives.begin();
    await images.recover(dead);
    await lives.clock.advance('3m');
    expect(lives.source.names.size).toBe(0);
  });

  it('what a closed process was pulling is known to the next one', async () => {
    const lives = new Lives();
    const first = lives.begin();
    const fetch = lives.source.hold('fetch redis:7');
    const asked = first.acquire('redis:7', 'web');
    asked.catch(() => undefined);
    await fetch.reached;
    const closed = first.images.close();
    fetch.go();
    await lives.clock.until(closed);
    await expect(asked).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    const { images } = lives.begin();
    await images.recover(dead);
    await lives.clock.advance('3m');
    expect(lives.source.names.size).toBe(0);
    expect(await lives.stored()).toEqual({});
  });

  it('what came for another platform is ours as well', async () => {
    const lives = new Lives();
    lives.source.platforms.set('sha256:a', 'linux/amd64');
    const first = lives.begin();
    const fetch = lives.source.hold('fetch redis:7');
    void first.acquire('redis:7', 'web', { platform: 'linux/arm64' });
    await fetch.reached;
    first.mortal.kill();
    fetch.go();
    const { images } = lives.begin();
    await images.recover(dead);
    await lives.clock.advance('3m');
    expect(lives.source.names.size).toBe(0);
    expect(await lives.stored()).toEqual({});
  });
});
