import type { RemovalOptions } from 'handover';
import { describe, expect, it } from 'vitest';
import { fixture, MINUTE, SECOND } from './fixture.js';
import { digestOf } from './scripted-source.js';

const HOUR = 60 * MINUTE;
const changes = (calls: readonly string[]) => calls.filter((call) => call.startsWith('remove'));

async function takenAndReleased(removal?: RemovalOptions) {
  const all = fixture(removal === undefined ? {} : { removal });
  await (await all.images.acquire('redis:7', { owner: 'a' })).release();
  all.source.calls.length = 0;
  return all;
}

describe('IC-15 when', () => {
  it.each<{ removal: RemovalOptions | undefined; at: number; removed: boolean; why: string }>([
    { removal: undefined, at: 3 * MINUTE - 1, removed: false, why: 'unset means the default' },
    { removal: undefined, at: 3 * MINUTE, removed: true, why: 'the default is 3 minutes' },
    { removal: {}, at: 3 * MINUTE - 1, removed: false, why: 'empty means the default' },
    { removal: {}, at: 3 * MINUTE, removed: true, why: 'empty means the default' },
    { removal: { scope: 'pulled' }, at: 3 * MINUTE - 1, removed: false, why: 'the rest of a partial block' },
    { removal: { enabled: true }, at: 3 * MINUTE, removed: true, why: 'the rest of a partial block' },
    { removal: { delay: undefined }, at: 3 * MINUTE - 1, removed: false, why: 'undefined is unset' },
    { removal: { delay: 0 }, at: 0, removed: true, why: '0 is a value, not "unset"' },
    { removal: { delay: '96h' }, at: 96 * HOUR - 1, removed: false, why: 'really so long' },
    { removal: { delay: '96h' }, at: 96 * HOUR, removed: true, why: 'really so long' },
    { removal: { delay: 'never' }, at: 9_000 * HOUR, removed: false, why: 'never' },
    { removal: { enabled: false }, at: 9_000 * HOUR, removed: false, why: 'off means off' },
    { removal: { enabled: false, delay: 0 }, at: 9_000 * HOUR, removed: false, why: 'off means off' },
  ])('IC-15 $removal at $at ms: removed=$removed ($why)', async ({ removal, at, removed }) => {
    const { clock, source } = await takenAndReleased(removal);
    await clock.advance(at);
    expect(source.names.size === 0).toBe(removed);
  });

  it('case C24 IC-15 with removal off nothing is ever asked to go, and explain says why it is here', async () => {
    const { clock, source, images } = await takenAndReleased({ enabled: false });
    await clock.advance(9_000 * HOUR);
    expect(source.calls).toEqual([]);
    expect(images.explain('redis:7')).toMatchObject({ state: 'idle', kept: { code: 'removal-disabled' } });
    expect(clock.pending).toBe(0);
  });

  it('IC-15 an update that keeps the image does not pull again', async () => {
    const { clock, source, images } = fixture();
    const before = await images.acquire('redis:7', { owner: 'web-1' });
    await before.release();
    await clock.advance(2 * MINUTE);
    await images.acquire('redis:7', { owner: 'web-2' });
    await clock.advance(HOUR);
    expect(source.count('fetch redis:7')).toBe(1);
    expect(changes(source.calls)).toEqual([]);
    expect(images.explain('redis:7')).toMatchObject({ state: 'held', holders: [{ owner: 'web-2' }] });
  });

  it('S25 an acquire a millisecond before cancels it; the next release starts the full delay', async () => {
    const { clock, source, images } = await takenAndReleased();
    await clock.advance(3 * MINUTE - 1);
    const again = await images.acquire('redis:7', { owner: 'b' });
    await clock.advance(HOUR);
    await again.release();
    await clock.advance(3 * MINUTE - 1);
    expect(changes(source.calls)).toEqual([]);
    await clock.advance(1);
    expect(source.names.size).toBe(0);
    expect(source.count('fetch redis:7')).toBe(0);
  });

  it('S25 taken and released again within the delay: the delay counts from the last release', async () => {
    const { clock, source, images } = await takenAndReleased();
    await clock.advance(2 * MINUTE);
    await (await images.acquire('redis:7', { owner: 'b' })).release();
    await clock.advance(3 * MINUTE - 1);
    expect(changes(source.calls)).toEqual([]);
    await clock.advance(1);
    expect(source.names.size).toBe(0);
  });

  it('IC-15 one timer for any number of idle images, none when all are gone', async () => {
    const { clock, source, images } = fixture();
    for (let i = 0; i < 50; i += 1) {
      source.registry.set(`app:${i}`, `sha256:${i}`);
      await (await images.acquire(`app:${i}`, { owner: 'a' })).release();
      await clock.advance(SECOND);
    }
    expect(clock.pending).toBe(1);
    await clock.advance(HOUR);
    expect(source.names.size).toBe(0);
    expect(clock.pending).toBe(0);
    expect(images.snapshot()).toEqual([]);
  });
});

describe('IC-16 removal meets acquire', () => {
  it('S25 an acquire that meets a removal waits for it and pulls again', async () => {
    const { clock, source, images } = await takenAndReleased();
    const held = source.hold('remove redis:7');
    await clock.advance(3 * MINUTE);
    expect(images.explain('redis:7').state).toBe('removing');
    const again = images.acquire('redis:7', { owner: 'b' });
    await clock.advance(SECOND);
    expect(source.count('fetch redis:7')).toBe(0);
    held.go();
    await expect(again).resolves.toMatchObject({ imageId: 'sha256:a' });
    expect(source.count('fetch redis:7')).toBe(1);
    expect(source.names.get('redis:7')).toBe('sha256:a');
    expect(images.explain('redis:7')).toMatchObject({ state: 'held', holders: [{ owner: 'b' }] });
  });

  it.each(['redis:7', digestOf('redis', 'sha256:a')])(
    'IC-16 a look at %s that came before the removal, and its bind after it: looked for again',
    async (name) => {
      const { clock, source, images } = await takenAndReleased();
      source.registry.set(name, 'sha256:a');
      const removal = source.hold('remove redis:7');
      await clock.advance(3 * MINUTE);
      const look = source.hold(`find ${name}`);
      const again = images.acquire(name, { owner: 'b' });
      await look.reached;
      look.go();
      await clock.advance(0);
      removal.go();
      const lease = await again;
      await clock.advance(0);
      expect(source.artifact(lease.imageId)).toBeDefined();
    },
  );

  it('IC-16 case C28 no removal of a name while a flight of it is in the air; it comes after the flight', async () => {
    const { clock, source, images } = await takenAndReleased();
    source.registry.set('redis:7', 'sha256:c');
    const held = source.hold('fetch redis:7');
    const moving = images.acquire('redis:7', { owner: 'b', policy: 'always' });
    await held.reached;
    await clock.advance(4 * MINUTE);
    expect(changes(source.calls)).toEqual([]);
    expect(images.explain('sha256:a')).toMatchObject({ state: 'idle', kept: { code: 'pull-in-progress' } });
    held.go();
    await moving;
    await clock.advance(0);
    expect(source.artifact('sha256:a')).toBeUndefined();
    expect(source.names.get('redis:7')).toBe('sha256:c');
    expect(images.explain('redis:7')).toMatchObject({ state: 'held', imageId: 'sha256:c' });
  });

  it('IC-16 a flight of a name that is being taken away waits for the end of that', async () => {
    const { clock, source, images } = await takenAndReleased();
    const held = source.hold('remove redis:7');
    await clock.advance(3 * MINUTE);
    const forced = images.acquire('redis:7', { owner: 'b', policy: 'always' });
    await clock.advance(SECOND);
    expect(source.count('fetch redis:7')).toBe(0);
    held.go();
    await expect(forced).resolves.toMatchObject({ imageId: 'sha256:a' });
    expect(source.names.get('redis:7')).toBe('sha256:a');
  });
});

it('IC-15 IC-16 a removal that waits its turn is off once the image was taken, and after the next release it has its full delay', async () => {
  const { clock, source, images } = fixture();
  const names = ['a:1', 'b:1', 'c:1', 'd:1', 'e:1'];
  names.forEach((name) => source.registry.set(name, `sha256:${name[0]!}`));
  const leases = await Promise.all(names.map((name) => images.acquire(name, { owner: 'o' })));
  for (const lease of leases.slice(0, 4)) await lease.release();
  await clock.advance(1);
  await leases[4]!.release();
  const held = names.slice(0, 4).map((name) => source.hold(`remove ${name}`));
  await clock.advance(3 * MINUTE);
  await (await images.acquire('e:1', { owner: 'p' })).release();
  held.forEach((one) => one.go());
  await clock.advance(3 * MINUTE - 1);
  expect([...source.names.keys()]).toContain('e:1');
  await clock.advance(1);
  expect(source.names.size).toBe(0);
});

describe('IC-17 what and how', () => {
  it('IC-17 the calls of a removal: look, users, look at the name, take it away, look', async () => {
    const { clock, source, told } = await takenAndReleased();
    await clock.advance(3 * MINUTE);
    expect(source.calls).toEqual([
      'find sha256:a',
      'users sha256:a',
      'find redis:7',
      'remove redis:7',
      'find sha256:a',
    ]);
    expect(told().slice(-3)).toEqual(['changed:idle', 'changed:removing', 'changed:absent']);
  });

  it('case C31 IC-17 content that others brought is left alone, and so is a name of theirs', async () => {
    const { clock, source, images, told } = fixture();
    source.put('redis:7', 'sha256:a');
    await (await images.acquire('redis:7', { owner: 'a' })).release();
    await clock.advance(HOUR);
    expect(changes(source.calls)).toEqual([]);
    expect(source.names.get('redis:7')).toBe('sha256:a');
    expect(told().slice(-2)).toEqual(['changed:absent', 'kept:not-ours']);
    expect(images.snapshot()).toEqual([]);
  });

  it('IC-17 IC-21 a forced pull that brought nothing new does not make content ours', async () => {
    const { clock, source, images } = fixture();
    source.put('redis:7', 'sha256:a');
    await (await images.acquire('redis:7', { owner: 'a', policy: 'always' })).release();
    await clock.advance(HOUR);
    expect(source.count('fetch redis:7')).toBe(1);
    expect(source.names.get('redis:7')).toBe('sha256:a');
  });

  it("IC-17 scope 'any' also takes what was found there", async () => {
    const { clock, source, images } = fixture({ removal: { scope: 'any' } });
    source.put('redis:7', 'sha256:a');
    source.put('other:1', 'sha256:a');
    await (await images.acquire('redis:7', { owner: 'a' })).release();
    await clock.advance(HOUR);
    expect(source.names.size).toBe(0);
  });

  it('S27 two tags of one id: what a stranger named stays, and its digest with it', async () => {
    const { clock, source, images } = await takenAndReleased();
    source.put('redis:stable', 'sha256:a');
    await clock.advance(HOUR);
    expect([...source.names.keys()].sort()).toEqual([digestOf('redis', 'sha256:a'), 'redis:stable'].sort());
    expect(images.snapshot()).toEqual([]);
  });

  it('S27 a digest that a stranger’s tag had brought before ours stays when that tag goes', async () => {
    const { clock, source, images } = fixture();
    source.put('redis:stable', 'sha256:a');
    await (await images.acquire('redis:7', { owner: 'a' })).release();
    source.names.delete('redis:stable');
    source.names.set('redis:7', 'sha256:theirs');
    await clock.advance(HOUR);
    expect(source.artifact('sha256:a')?.references).toEqual([digestOf('redis', 'sha256:a')]);
    expect(changes(source.calls)).toEqual([]);
  });

  it('S27 IC-2 two tags of one id that we brought: the content stays until the last is released', async () => {
    const { clock, source, images } = fixture();
    source.registry.set('redis:stable', 'sha256:a');
    const one = await images.acquire('redis:7', { owner: 'a' });
    const two = await images.acquire('redis:stable', { owner: 'b' });
    await one.release();
    await clock.advance(HOUR);
    expect(changes(source.calls)).toEqual([]);
    await two.release();
    await clock.advance(3 * MINUTE);
    expect(source.names.size).toBe(0);
  });

  it('S28 a tag that moved while held: the old content stays until released, then goes by its digest', async () => {
    const { clock, source, images } = fixture();
    const old = await images.acquire('redis:7', { owner: 'a' });
    source.registry.set('redis:7', 'sha256:c');
    const young = await images.acquire('redis:7', { owner: 'b', policy: 'always' });
    expect([old.imageId, young.imageId]).toEqual(['sha256:a', 'sha256:c']);
    expect(images.explain('redis:7').imageId).toBe('sha256:c');
    expect(images.explain('sha256:a').holders).toMatchObject([{ owner: 'a' }]);
    await clock.advance(HOUR);
    expect(source.artifact('sha256:a')).toBeDefined();
    await old.release();
    await clock.advance(3 * MINUTE);
    expect(changes(source.calls)).toEqual([`remove ${digestOf('redis', 'sha256:a')}`]);
    expect(source.names.get('redis:7')).toBe('sha256:c');
  });

  it('IC-17 a tag that a stranger moved to other content is not taken away', async () => {
    const { clock, source } = await takenAndReleased();
    source.names.set('redis:7', 'sha256:theirs');
    await clock.advance(HOUR);
    expect(source.names.get('redis:7')).toBe('sha256:theirs');
    expect(source.artifact('sha256:a')).toBeUndefined();
  });

  it('IC-17 a tag that moves while its removal is on the way is looked at once more, and left', async () => {
    const { clock, source } = await takenAndReleased();
    const held = source.hold('users sha256:a');
    await clock.advance(3 * MINUTE);
    source.names.set('redis:7', 'sha256:theirs');
    held.go();
    await clock.advance(0);
    expect(source.names.get('redis:7')).toBe('sha256:theirs');
    expect(changes(source.calls)).toEqual([`remove ${digestOf('redis', 'sha256:a')}`]);
  });

  it('S29 S30 case C27 somebody uses it: kept, with the name, tried again with growing gaps, and gone in the end', async () => {
    const { clock, source, images } = await takenAndReleased();
    source.usersOf.set('sha256:a', ['created-by-hand']);
    await clock.advance(3 * MINUTE);
    expect(images.explain('redis:7')).toMatchObject({
      state: 'idle',
      kept: { code: 'image-in-use', message: expect.stringContaining('created-by-hand') as string },
      removeAt: clock.wall() + 10 * SECOND,
    });
    await clock.advance(30 * SECOND);
    expect(source.count('users sha256:a')).toBe(3);
    expect(changes(source.calls)).toEqual([]);
    source.usersOf.clear();
    await clock.advance(40 * SECOND);
    expect(source.names.size).toBe(0);
    expect(clock.pending).toBe(0);
  });

  it('case C25 case C29 the engine says in use: kept, no tight retry, never more than every 10 s', async () => {
    const { clock, source, images, told } = await takenAndReleased();
    source.remove = async (name) => {
      source.calls.push(`remove ${name}`);
      return 'in-use';
    };
    await clock.advance(3 * MINUTE + 9 * SECOND);
    expect(changes(source.calls)).toHaveLength(1);
    expect(images.explain('redis:7').kept?.code).toBe('image-in-use');
    expect(told()).toContain('kept:image-in-use');
    await clock.advance(24 * HOUR);
    expect(changes(source.calls).length).toBeLessThan(24 * 12 + 10);
  });

  it('S31 gone already is a success', async () => {
    const { clock, source, images, told } = await takenAndReleased();
    source.wipe('sha256:a');
    await clock.advance(3 * MINUTE);
    expect(changes(source.calls)).toEqual([]);
    expect(images.snapshot()).toEqual([]);
    expect(told().at(-1)).toBe('changed:absent');
  });

  it('S32 IC-17 one name that fails does not stop the others, and is tried again', async () => {
    const { clock, source, images } = fixture();
    source.registry.set('redis:stable', 'sha256:a');
    const leases = [
      await images.acquire('redis:7', { owner: 'a' }),
      await images.acquire('redis:stable', { owner: 'a' }),
    ];
    for (const lease of leases) await lease.release();
    source.before = ({ line }) => {
      if (line === 'remove redis:7') throw new Error('HTTP 500');
    };
    await clock.advance(3 * MINUTE);
    expect(source.names.has('redis:stable')).toBe(false);
    expect(images.explain('redis:7').kept?.message).toContain('HTTP 500');
    source.before = () => undefined;
    source.put('redis:stable', 'sha256:a');
    await clock.advance(10 * SECOND);
    expect(source.names.has('redis:7')).toBe(false);
    expect(source.names.has('redis:stable'), 'what a stranger named meanwhile is not ours').toBe(true);
  });

  it('IC-17 a removal of unknown outcome is no removal: looked at again before it is said', async () => {
    const { clock, source, images, told } = await takenAndReleased();
    let lost = 1;
    source.before = ({ line }) => {
      if (line === 'remove redis:7' && lost-- > 0) {
        source.drop('redis:7');
        throw new Error('socket closed');
      }
    };
    await clock.advance(3 * MINUTE);
    expect(told().at(-1)).toBe('changed:absent');
    expect(images.snapshot()).toEqual([]);
  });

  it('IC-17 G-8 a name that was lost with a removal of unknown outcome, and that a stranger brings back, is theirs', async () => {
    const { clock, source, images } = fixture();
    source.registry.set('redis:stable', 'sha256:a');
    for (const name of ['redis:7', 'redis:stable']) await images.acquire(name, { owner: 'a' });
    await images.release('a');
    source.before = ({ line }) => {
      if (!line.startsWith('remove')) return;
      if (line === 'remove redis:7') source.drop('redis:7');
      throw new Error('socket closed');
    };
    await clock.advance(3 * MINUTE);
    source.put('redis:7', 'sha256:a');
    source.before = () => undefined;
    await clock.advance(HOUR);
    expect(source.count('remove redis:7')).toBe(1);
    expect(source.names.has('redis:7')).toBe(true);
    expect(source.names.has('redis:stable')).toBe(false);
  });

  it('IC-17 a name that was taken away is not ours any more, even if the look after it fails', async () => {
    const { clock, source } = await takenAndReleased();
    source.put('other:1', 'sha256:a');
    let looks = 0;
    source.before = ({ line }) => {
      if (line === 'find sha256:a' && ++looks === 2) throw new Error('HTTP 500');
    };
    await clock.advance(3 * MINUTE);
    source.put('redis:7', 'sha256:a');
    await clock.advance(HOUR);
    expect(source.count('remove redis:7')).toBe(1);
  });

  it('IC-17 content that is gone took all its names along: a digest that a stranger brings back is theirs', async () => {
    const { clock, source } = await takenAndReleased();
    let looks = 0;
    source.before = ({ line }) => {
      if (line === 'find sha256:a' && ++looks === 2) throw new Error('HTTP 500');
    };
    await clock.advance(3 * MINUTE);
    source.names.set(digestOf('redis', 'sha256:a'), 'sha256:a');
    await clock.advance(HOUR);
    expect(changes(source.calls)).toEqual(['remove redis:7']);
  });

  it('IC-16 IC-17 a name that a stranger moves while it is being taken away is not handed out meanwhile', async () => {
    const { clock, source, images } = await takenAndReleased();
    const held = source.hold('remove redis:7');
    await clock.advance(3 * MINUTE);
    source.put('redis:7', 'sha256:c');
    source.registry.set('redis:7', 'sha256:c');
    const again = images.acquire('redis:7', { owner: 'b' });
    await clock.advance(SECOND);
    held.go();
    const lease = await again;
    await clock.advance(0);
    expect(source.artifact(lease.imageId)).toBeDefined();
  });

  it('IC-17 a foreign name that comes back after we took ours away is not ours', async () => {
    const { clock, source, images } = await takenAndReleased();
    source.put('other:1', 'sha256:a');
    await clock.advance(3 * MINUTE);
    expect(source.names.has('redis:7')).toBe(false);
    source.put('redis:7', 'sha256:a');
    await (await images.acquire('redis:7', { owner: 'b' })).release();
    await clock.advance(HOUR);
    expect(source.names.has('redis:7')).toBe(true);
  });
});
