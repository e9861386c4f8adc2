import type { RemovalOptions } from 'handover';
import { describe, expect, it } from 'vitest';
import { changes, fixture, HOUR, MINUTE, SECOND, takenAndReleased } from './fixture.js';
import { digestOf } from './scripted-source.js';

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
