import { describe, expect, it } from 'vitest';
import { account, idle, tags } from './collecting.js';
import { changes, fixture, MINUTE, SECOND } from './fixture.js';
import { Lives } from './lives.js';
import { digestOf, pullError } from './scripted-source.js';

describe('IC-18 collect', () => {
  it('IC-18 what is idle goes at once, whatever is left of its delay, and no timer stays', async () => {
    const all = await idle();
    expect(account(await all.images.collect())).toEqual(['sha256:a gone', 'sha256:b gone']);
    expect(all.source.names.size).toBe(0);
    expect(all.images.snapshot()).toEqual([]);
    expect(all.clock.pending).toBe(0);
  });

  it("IC-15 with a delay of 'never' it goes only so", async () => {
    const all = await idle({ removal: { delay: 'never' } });
    await all.clock.advance('30d');
    expect(all.images.explain('redis:7').kept?.code).toBe('removal-disabled');
    expect(account(await all.images.collect())).toEqual(['sha256:a gone', 'sha256:b gone']);
  });

  it('IC-18 nothing is known: nothing to do', async () => {
    const { images, source } = fixture();
    source.put('other:1', 'sha256:x');
    expect(await images.collect()).toEqual({ removed: [], kept: [] });
    expect(source.names.has('other:1')).toBe(true);
  });

  it.each([false, true])('IC-18 S36 what stays, and why (dryRun: %s)', async (dryRun) => {
    const all = fixture({ retention: { pin: ['pinned:1'], keepLast: 1, maxAge: '1h' } });
    const { images, source, clock } = all;
    for (const name of ['pinned:1', 'app:1', 'app:2', 'app:3', 'db:1', 'lib:1', 'free:1', 'free:2']) {
      source.registry.set(name, `sha256:${name.replace(':', '-')}`);
    }
    source.put('foreign:1', 'sha256:foreign-1');
    source.put('foreign:2', 'sha256:foreign-2');
    const held = await images.acquire('db:1', { owner: 'x' });
    await images.acquire('db:1', { owner: 'y' });
    for (const name of ['pinned:1', 'foreign:1', 'foreign:2', 'app:1', 'app:2', 'app:3', 'lib:1', 'free:1', 'free:2']) {
      await (await images.acquire(name, { owner: 'o' })).release();
      await clock.advance(SECOND);
    }
    source.usersOf.set('sha256:app-1', ['somebody', 'another']);
    const { removed, kept } = await images.collect({ dryRun });
    const reasons = Object.fromEntries(
      kept.map(({ imageId, reason }) => [imageId, `${reason.code}: ${reason.message}`]),
    );
    expect(reasons).toMatchObject({
      'sha256:db-1': 'held: Held by x, y',
      'sha256:pinned-1': expect.stringMatching(/^pinned: /) as string,
      'sha256:app-3': expect.stringMatching(/^keep-last: /) as string,
      'sha256:lib-1': expect.stringMatching(/^keep-last: /) as string,
      'sha256:app-1': 'image-in-use: In use by somebody, another',
      'sha256:foreign-1': expect.stringMatching(/^not-ours: .*foreign:1/) as string,
    });
    expect(removed).toEqual(['sha256:app-2', 'sha256:free-1']);
    expect(Object.keys(reasons)).toHaveLength(8);
    expect(changes(all.source.calls)).toEqual(dryRun ? [] : ['remove app:2', 'remove free:1']);
    await held.release();
  });

  it('C24 IC-15 with removal off nothing is ever deleted, and nothing is asked', async () => {
    for (const dryRun of [false, true]) {
      const all = await idle({ removal: { enabled: false, scope: 'any' } });
      all.source.put('other:1', 'sha256:x');
      const lease = await all.images.acquire('redis:8', { owner: 'x' });
      all.source.calls.length = 0;
      expect(account(await all.images.collect({ dryRun }))).toEqual(['sha256:a removal-disabled', 'sha256:b held']);
      expect(all.source.calls).toEqual([]);
      await lease.release();
    }
  });

  it('IC-18 keepLast and maxAge: the last ones go once they are older than that', async () => {
    const all = await idle({ removal: { delay: 'never' }, retention: { keepLast: 1, maxAge: '1d' } });
    expect(account(await all.images.collect())).toEqual(['sha256:a gone', 'sha256:b keep-last']);
    await all.clock.advance('23h');
    expect(account(await all.images.collect())).toEqual(['sha256:b keep-last']);
    await all.clock.advance('1h');
    await all.images.collect();
    expect(tags(all)).toEqual([]);
  });

  it('S32 one that fails does not stop the others; its error is the reason, and it is tried again by time', async () => {
    const all = await idle();
    let broken = true;
    all.source.before = ({ line }) => {
      if (broken && line === 'remove redis:7') throw new Error('HTTP 500');
    };
    const { removed, kept } = await all.images.collect();
    expect(removed).toEqual(['sha256:b']);
    expect(kept).toMatchObject([{ imageId: 'sha256:a', reason: { message: 'HTTP 500' } }]);
    broken = false;
    await all.clock.advance(3 * MINUTE - 1);
    expect(tags(all), 'not before its delay is over').toEqual(['redis:7']);
    await all.clock.advance(1);
    expect(tags(all)).toEqual([]);
  });

  it('S32 an error of the source’s own keeps its code', async () => {
    const all = await idle();
    all.source.before = ({ line }) => {
      if (line === 'users sha256:a') throw pullError('redis:7', 'engine-unavailable', true);
    };
    expect(account(await all.images.collect())).toEqual(['sha256:b gone', 'sha256:a ERR_PULL_FAILED']);
  });

  it('IC-17 refused: tried again with growing gaps, but never before its delay is over', async () => {
    const all = await idle();
    all.source.usersOf.set('sha256:a', ['stranger']);
    await all.clock.advance(3 * MINUTE - 5 * SECOND);
    expect(account(await all.images.collect())).toEqual(['sha256:b gone', 'sha256:a image-in-use']);
    expect(all.images.explain('redis:7')).toMatchObject({
      kept: { code: 'image-in-use' },
      removeAt: all.clock.wall() + 10 * SECOND,
    });
    all.source.usersOf.clear();
    await all.clock.advance(10 * SECOND);
    expect(tags(all)).toEqual([]);
  });

  it('S31 gone already counts as gone', async () => {
    for (const dryRun of [true, false]) {
      const all = await idle();
      all.source.wipe('sha256:a');
      expect(account(await all.images.collect({ dryRun }))).toEqual(['sha256:a gone', 'sha256:b gone']);
      expect(all.images.explain('redis:7').state).toBe(dryRun ? 'idle' : 'absent');
    }
  });

  it('IC-18 content that somebody deleted holds no place among the last', async () => {
    for (const dryRun of [true, false]) {
      const all = await idle({ retention: { keepLast: 1 } });
      all.source.wipe('sha256:b');
      expect(account(await all.images.collect({ dryRun }))).toEqual(['sha256:b gone', 'sha256:a keep-last']);
      expect(tags(all)).toEqual(['redis:7']);
    }
  });

  it('S28 S36 a pinned name that a stranger has moved to other content keeps nothing here any more', async () => {
    for (const dryRun of [true, false]) {
      const all = await idle({ retention: { pin: ['redis:7', 'redis:8'] } });
      all.source.names.set('redis:7', 'sha256:theirs');
      expect(account(await all.images.collect({ dryRun }))).toEqual(['sha256:a gone', 'sha256:b pinned']);
      expect(all.source.names.get('redis:7')).toBe('sha256:theirs');
      expect(all.source.artifact('sha256:a') === undefined).toBe(!dryRun);
    }
  });

  it('case C28 IC-16 a name that is being pulled is left; what it meant goes after the pull', async () => {
    const all = await idle();
    all.source.registry.set('redis:7', 'sha256:c');
    const fetch = all.source.hold('fetch redis:7');
    const moving = all.images.acquire('redis:7', { owner: 'b', policy: 'always' });
    await fetch.reached;
    expect(account(await all.images.collect({ dryRun: true }))).toContain('sha256:a pull-in-progress');
    expect(account(await all.images.collect())).toEqual(['sha256:b gone', 'sha256:a pull-in-progress']);
    fetch.go();
    await moving;
    await all.clock.advance(3 * MINUTE - 1);
    expect(all.source.artifact('sha256:a'), 'its delay goes on').toBeDefined();
    await all.clock.advance(1);
    expect(all.source.artifact('sha256:a')).toBeUndefined();
    expect(all.source.names.get('redis:7')).toBe('sha256:c');
  });
});

describe('IC-18 dryRun', () => {
  it('IC-18 touches nothing: the same is idle, planned and told afterwards', async () => {
    const all = await idle({ removal: { scope: 'any' } });
    all.source.put('other:1', 'sha256:x');
    const [before, told, pending] = [all.images.snapshot(), all.told(), all.clock.pending];
    expect(account(await all.images.collect({ dryRun: true }))).toEqual([
      'sha256:a gone',
      'sha256:b gone',
      'sha256:x gone',
    ]);
    expect([all.images.snapshot(), all.told(), all.clock.pending]).toEqual([before, told, pending]);
    expect(tags(all)).toEqual(['other:1', 'redis:7', 'redis:8']);
    await all.clock.advance(3 * MINUTE);
    expect(tags(all)).toEqual(['other:1']);
  });

  it('S27 a stranger’s name keeps the content, and with it the digest of its repository', async () => {
    for (const dryRun of [true, false]) {
      const all = await idle();
      all.source.put('redis:stable', 'sha256:a');
      const { removed, kept } = await all.images.collect({ dryRun });
      expect(removed).toEqual(['sha256:b']);
      expect(kept[0]!.reason).toMatchObject({ code: 'not-ours' });
      expect(kept[0]!.reason.message).toMatch(/redis:stable/);
      expect(kept[0]!.reason.message).toContain(digestOf('redis', 'sha256:a'));
    }
  });
});

describe("IC-18 scope 'any'", () => {
  const any = { removal: { scope: 'any' } } as const;

  it('IC-18 what nobody knew is on record from now on, and may go too; what has no name is never deleted', async () => {
    for (const dryRun of [true, false]) {
      const all = fixture(any);
      all.source.put('other:1', 'sha256:x');
      all.source.put('used:1', 'sha256:y');
      all.source.usersOf.set('sha256:y', ['container']);
      const { list } = all.source;
      all.source.list = async () => [...(await list.call(all.source)), { id: 'sha256:nameless', references: [] }];
      const { removed, kept } = await all.images.collect({ dryRun });
      expect(removed).toEqual(['sha256:x']);
      expect(kept).toMatchObject([
        { imageId: 'sha256:y', reason: { code: 'image-in-use' } },
        {
          imageId: 'sha256:nameless',
          reason: { code: 'not-ours', message: expect.stringContaining('no name') as string },
        },
      ]);
      expect(all.images.snapshot().map(({ imageId }) => imageId)).toEqual(dryRun ? [] : ['sha256:y']);
    }
  });

  it('S35 an unknown age is now: maxAge and the last n count from when it was first seen here', async () => {
    const all = fixture({ ...any, retention: { keepLast: 1, maxAge: '1h' } });
    all.source.put('app:2', 'sha256:2');
    all.source.put('app:1', 'sha256:1');
    expect(account(await all.images.collect({ dryRun: true }))).toEqual(['sha256:1 gone', 'sha256:2 keep-last']);
    await all.clock.advance('5h');
    expect(account(await all.images.collect())).toEqual(['sha256:1 gone', 'sha256:2 keep-last']);
    expect(all.images.explain('app:2')).toMatchObject({ removeAt: all.clock.wall() + 60 * MINUTE });
    await all.clock.advance('1h');
    expect(tags(all)).toEqual([]);
  });

  it('IC-18 the list cannot be had: that is said, and nothing was touched', async () => {
    const all = await idle(any);
    all.source.list = () => Promise.reject(new Error('engine is down'));
    for (const dryRun of [true, false]) await expect(all.images.collect({ dryRun })).rejects.toThrow('engine is down');
    expect(tags(all)).toEqual(['redis:7', 'redis:8']);
  });
});

describe('IC-18 IC-21 collect before recover()', () => {
  it('dryRun says what the real one does: nothing goes, and why, though the content is not there any more', async () => {
    const lives = new Lives();
    const one = lives.begin();
    await (await one.acquire('redis:7', 'web')).release();
    await one.images.close();
    lives.source.wipe('sha256:a');
    const { images } = lives.begin();
    const answer = { removed: [], kept: [{ imageId: 'sha256:a', reason: { code: 'not-recovered' } }] };
    expect(await images.collect({ dryRun: true })).toMatchObject(answer);
    expect(await images.collect()).toMatchObject(answer);
  });
});
