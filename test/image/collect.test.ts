import { getEventListeners } from 'node:events';
import type { Collected, RemovalOptions, RetentionOptions } from 'handover';
import { describe, expect, it } from 'vitest';
import { type Fixture, fixture, MINUTE, SECOND } from './fixture.js';
import { digestOf, pullError } from './scripted-source.js';

const tick = () => new Promise((resolve) => setImmediate(resolve));
const tags = ({ source }: Fixture) => [...source.names.keys()].filter((name) => !name.includes('@')).sort();
const changes = ({ source }: Fixture) => source.calls.filter((call) => call.startsWith('remove'));
/** `sha256:a gone`, `sha256:b pinned`. */
const account = ({ removed, kept }: Collected) => [
  ...removed.map((id) => `${id} gone`),
  ...kept.map(({ imageId, reason }) => `${imageId} ${reason.code}`),
];

/** redis:7 (sha256:a) and redis:8 (sha256:b), taken and released. */
async function idle(o: { removal?: RemovalOptions; retention?: RetentionOptions } = {}): Promise<Fixture> {
  const all = fixture(o);
  for (const name of ['redis:7', 'redis:8']) await (await all.images.acquire(name, { owner: 'o' })).release();
  all.source.calls.length = 0;
  return all;
}

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
    expect(changes(all)).toEqual(dryRun ? [] : ['remove app:2', 'remove free:1']);
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

describe('S37 collect meets the rest', () => {
  it('S37 an acquire while it runs: held, or removed first and pulled again, never neither', async () => {
    for (const line of ['find sha256:a', 'users sha256:a', 'remove redis:7']) {
      const all = await idle();
      const step = all.source.hold(line);
      const collected = all.images.collect();
      await step.reached;
      const acquired = all.images.acquire('redis:7', { owner: 'b' });
      await tick();
      step.go();
      const [lease, result] = await Promise.all([acquired, collected]);
      expect(all.source.artifact(lease.imageId), line).toBeDefined();
      expect(all.images.explain('redis:7')).toMatchObject({ state: 'held', holders: [{ owner: 'b' }] });
      const answer = account(result).find((one) => one.startsWith('sha256:a'));
      expect(answer).toBe(all.source.count('fetch redis:7') === 1 ? 'sha256:a gone' : 'sha256:a held');
    }
  });

  it('IC-16 two of them, and a planned removal: one delete, one account', async () => {
    const all = await idle();
    const step = all.source.hold('remove redis:7');
    await all.clock.advance(3 * MINUTE);
    await step.reached;
    const both = Promise.all([all.images.collect(), all.images.collect()]);
    await tick();
    step.go();
    for (const result of await both) expect(account(result)).toContain('sha256:a gone');
    expect(changes(all)).toEqual(['remove redis:7', 'remove redis:8']);
    expect(all.clock.pending).toBe(0);
  });

  it('IC-18 it waits for removals that are under way', async () => {
    const all = await idle();
    const step = all.source.hold('remove redis:7');
    await all.clock.advance(3 * MINUTE);
    let done = false;
    const collected = all.images.collect().then(() => (done = true));
    await all.clock.advance(MINUTE);
    expect(done).toBe(false);
    step.go();
    await collected;
    expect(tags(all)).toEqual([]);
  });

  it('IC-16 a removal that turns out not to be ours, met while it runs, is told as such', async () => {
    const all = await idle();
    all.source.put('mine:1', 'sha256:a');
    const step = all.source.hold('remove redis:7');
    await all.clock.advance(3 * MINUTE);
    const collected = all.images.collect();
    await tick();
    step.go();
    expect(account(await collected)).toEqual(['sha256:a not-ours']);
  });

  it('G-4 aborted: rejects with the reason at once, what was removed stays removed, the rest stays planned', async () => {
    const all = await idle();
    const names = ['a:1', 'b:1', 'c:1', 'd:1', 'e:1'];
    for (const name of names) {
      all.source.registry.set(name, `sha256:${name}`);
      await (await all.images.acquire(name, { owner: 'o' })).release();
    }
    const steps = ['redis:7', 'redis:8', 'a:1', 'b:1'].map((name) => all.source.hold(`remove ${name}`));
    const caller = new AbortController();
    const collected = all.images.collect({ signal: caller.signal });
    await steps[3]!.reached;
    caller.abort(new Error('enough'));
    await expect(collected).rejects.toThrow('enough');
    expect(getEventListeners(caller.signal, 'abort')).toHaveLength(0);
    steps.forEach((step) => step.go());
    await all.clock.advance(0);
    expect(tags(all)).toEqual(['c:1', 'd:1', 'e:1']);
    await all.clock.advance(3 * MINUTE);
    expect(tags(all)).toEqual([]);
  });

  it('G-4 aborted before it began: nothing is asked', async () => {
    const all = await idle();
    const signal = AbortSignal.abort(new Error('enough'));
    for (const dryRun of [true, false]) await expect(all.images.collect({ signal, dryRun })).rejects.toThrow('enough');
    expect(all.source.calls).toEqual([]);
  });

  it('IC-23 closed: ERR_CLOSED; what was begun ends, nothing else is removed', async () => {
    const all = await idle();
    const step = all.source.hold('users sha256:a');
    all.source.hold('users sha256:b');
    const collected = all.images.collect();
    await step.reached;
    const closed = all.images.close();
    await expect(collected).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    step.go();
    await all.clock.until(closed);
    expect(tags(all)).toEqual(['redis:8']);
    await expect(all.images.collect()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    expect(all.clock.pending).toBe(0);
  });

  it('IC-23 closed while it looks at what is there: nothing is removed', async () => {
    const all = await idle();
    const step = all.source.hold('find sha256:a');
    const collected = all.images.collect();
    await step.reached;
    const closed = all.images.close();
    await expect(collected).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    step.go();
    await closed;
    await tick();
    expect(tags(all)).toEqual(['redis:7', 'redis:8']);
    expect(all.images.snapshot()).toEqual([]);
  });

  it.each([null, [], 5, 'x', { dryRun: 1 }, { dry: true }, { signal: {} }])('G-1 %j is refused', async (options) => {
    const { images } = fixture();
    await expect(images.collect(options as never)).rejects.toMatchObject({ code: 'ERR_INVALID_OPTION' });
  });
});
