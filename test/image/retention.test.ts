import type { RetentionOptions } from 'handover';
import { describe, expect, it } from 'vitest';
import { tags } from './collecting.js';
import { type Fixture, fixture, HOUR, MINUTE, SECOND } from './fixture.js';
import { digestOf } from './scripted-source.js';

const DELAY = 3 * MINUTE;

/** Takes `names` one after another, a second each, and lets each go at once. */
async function used({ images, clock, source }: Fixture, ...names: readonly string[]): Promise<void> {
  for (const name of names) {
    if (!source.registry.has(name)) source.registry.set(name, `sha256:${name.replace(/\W/g, '-')}`);
    await (await images.acquire(name, { owner: 'o' })).release();
    await clock.advance(SECOND);
  }
}

describe('IC-18 S36 pins', () => {
  it.each<{ pin: string | RegExp; kept: boolean }>([
    { pin: 'redis:7', kept: true },
    { pin: 'redis:8', kept: false },
    { pin: 'redis', kept: false },
    { pin: digestOf('redis', 'sha256:a'), kept: true },
    { pin: 'sha256:a', kept: true },
    { pin: 'sha256:b', kept: false },
    { pin: /^redis:/, kept: true },
    { pin: /redis:7/g, kept: true },
    { pin: /edis/y, kept: false },
    { pin: /nothing/, kept: false },
  ])('S36 pinned by $pin: kept=$kept', async ({ pin, kept }) => {
    const all = fixture({ retention: { pin: [pin] } });
    for (let times = 0; times < 3; times += 1) {
      await used(all, 'redis:7');
      await all.clock.advance(HOUR);
      expect(tags(all)).toEqual(kept ? ['redis:7'] : []);
    }
    if (!kept) return;
    expect(all.images.explain('redis:7')).toMatchObject({ state: 'idle', kept: { code: 'pinned' } });
    expect(all.images.explain('redis:7').removeAt).toBeUndefined();
    expect(all.clock.pending).toBe(0);
  });

  it('S36 an expression belongs to the caller: what he does with it changes nothing', async () => {
    const pin = /redis/g;
    const all = fixture({ retention: { pin: [pin] } });
    await used(all, 'redis:7');
    pin.lastIndex = 5;
    await all.clock.advance(HOUR);
    expect(tags(all)).toEqual(['redis:7']);
    expect(pin.lastIndex).toBe(5);
  });

  it('G-1 a text is written as the source spells it', async () => {
    const all = fixture({ retention: { pin: ['redis'] } });
    expect(all.images.options.retention.pin).toEqual(['redis:latest']);
    await used(all, 'redis:latest', 'redis:7');
    await all.clock.advance(HOUR);
    expect(tags(all)).toEqual(['redis:latest']);
  });

  it('S36 a pinned name that a stranger gave it meanwhile is seen before anything is taken away', async () => {
    const all = fixture({ retention: { pin: ['redis:stable'] } });
    await used(all, 'redis:7');
    all.source.put('redis:stable', 'sha256:a');
    await all.clock.advance(HOUR);
    expect(tags(all)).toEqual(['redis:7', 'redis:stable']);
    expect(all.images.explain('redis:7')).toMatchObject({ state: 'idle', kept: { code: 'pinned' } });
    expect(all.told().filter((line) => line.startsWith('kept'))).toEqual(['kept:pinned']);
  });

  it('S28 S36 the pin follows its name, without a look: what our own pull took it from goes in its time', async () => {
    const all = fixture({ retention: { pin: ['redis:7'] } });
    await used(all, 'redis:7');
    expect(all.images.explain('sha256:a').kept?.code).toBe('pinned');
    all.source.registry.set('redis:7', 'sha256:c');
    await all.images.acquire('redis:7', { owner: 'o', policy: 'always' });
    expect(all.images.explain('sha256:a').kept).toBeUndefined();
    await all.clock.advance(DELAY);
    expect(all.source.artifact('sha256:a')).toBeUndefined();
  });

  it('S28 S36 the pin follows its name: content that it has left goes', async () => {
    const all = fixture({ retention: { pin: ['redis:7'] } });
    await used(all, 'redis:7');
    all.source.registry.set('redis:7', 'sha256:c');
    await (await all.images.acquire('redis:7', { owner: 'o', policy: 'always' })).release();
    await all.images.collect();
    expect(all.source.artifact('sha256:a')).toBeUndefined();
    expect(all.source.artifact('sha256:c')).toBeDefined();
  });
});

describe('IC-18 S36 keepLast', () => {
  const keeping = (retention: RetentionOptions) => fixture({ retention });

  it('S36 case C31 the last two of each repository stay, the others go when their delay is over', async () => {
    const all = keeping({ keepLast: 2 });
    await used(all, 'app:1', 'app:2', 'app:3', 'lib:1');
    await all.clock.advance(DELAY);
    expect(tags(all)).toEqual(['app:2', 'app:3', 'lib:1']);
    expect(all.images.explain('app:2')).toMatchObject({ state: 'idle', kept: { code: 'keep-last' } });
    await all.clock.advance(9_000 * HOUR);
    expect(tags(all)).toEqual(['app:2', 'app:3', 'lib:1']);
  });

  it('S36 the last by use, not by when it was first seen', async () => {
    const all = keeping({ keepLast: 1 });
    await used(all, 'app:1', 'app:2', 'app:1');
    await all.clock.advance(HOUR);
    expect(tags(all)).toEqual(['app:1']);
  });

  it('IC-18 what is held is used now, and takes a place', async () => {
    const all = keeping({ keepLast: 1 });
    all.source.registry.set('app:1', 'sha256:1');
    const lease = await all.images.acquire('app:1', { owner: 'a' });
    await used(all, 'app:2');
    expect(all.images.explain('app:2').kept).toBeUndefined();
    await all.clock.advance(HOUR);
    expect(tags(all)).toEqual(['app:1']);
    await lease.release();
    await all.clock.advance(HOUR);
    expect(tags(all)).toEqual(['app:1']);
  });

  it('IC-18 one that is pushed out by another has what is left of its delay from its own last use', async () => {
    const all = keeping({ keepLast: 1 });
    await used(all, 'app:1');
    await all.clock.advance(MINUTE);
    expect(all.images.explain('app:1').kept?.code).toBe('keep-last');
    const released = all.clock.wall() - MINUTE - SECOND;
    all.source.registry.set('app:2', 'sha256:2');
    await all.images.acquire('app:2', { owner: 'a' });
    expect(all.images.explain('app:1')).toMatchObject({ removeAt: released + DELAY });
    expect(all.images.explain('app:1').kept).toBeUndefined();
    expect(all.events.filter(({ type }) => type === 'image:changed').at(-1)).toMatchObject({
      image: { reference: 'app:1', state: 'idle', removeAt: released + DELAY },
    });
    await all.clock.advance(released + DELAY - all.clock.wall() - 1);
    expect(tags(all)).toEqual(['app:1', 'app:2']);
    await all.clock.advance(1);
    expect(tags(all)).toEqual(['app:2']);
  });

  it('IC-18 one that was due long ago goes at once when it is pushed out', async () => {
    const all = keeping({ keepLast: 1 });
    await used(all, 'app:1');
    await all.clock.advance(HOUR);
    all.source.registry.set('app:2', 'sha256:2');
    await all.images.acquire('app:2', { owner: 'a' });
    await all.clock.advance(0);
    expect(tags(all)).toEqual(['app:2']);
  });

  it('IC-18 one that moves up, because another has gone, stays', async () => {
    const all = keeping({ keepLast: 1 });
    await used(all, 'app:1', 'app:2');
    expect(all.images.explain('app:1').removeAt).toBeDefined();
    all.source.wipe('sha256:app-2');
    await all.clock.advance(HOUR);
    expect(tags(all)).toEqual(['app:1']);
    expect(all.images.explain('app:1')).toMatchObject({ state: 'idle', kept: { code: 'keep-last' } });
    expect(all.images.explain('app:2').state).toBe('absent');
  });

  it('IC-18 maxAge ends that, counted from the last use', async () => {
    const all = keeping({ keepLast: 1, maxAge: '7d' });
    await used(all, 'app:1');
    const removeAt = all.clock.wall() - SECOND + 7 * 24 * HOUR;
    expect(all.images.explain('app:1')).toMatchObject({ kept: { code: 'keep-last' }, removeAt });
    await all.clock.advance(7 * 24 * HOUR - SECOND - 1);
    expect(tags(all)).toEqual(['app:1']);
    await all.clock.advance(1);
    expect(tags(all)).toEqual([]);
    expect(all.clock.pending).toBe(0);
  });

  it('IC-18 maxAge alone shortens the delay', async () => {
    const all = fixture({ removal: { delay: 'never' }, retention: { maxAge: '1h' } });
    await used(all, 'app:1');
    await all.clock.advance(HOUR - SECOND - 1);
    expect(tags(all)).toEqual(['app:1']);
    await all.clock.advance(1);
    expect(tags(all)).toEqual([]);
  });

  it('IC-18 with another name it is of another repository too', async () => {
    const all = keeping({ keepLast: 1 });
    await used(all, 'lib:1');
    await all.clock.advance(HOUR);
    all.source.registry.set('app:1', 'sha256:x').set('lib:2', 'sha256:x');
    await all.images.acquire('app:1', { owner: 'a' });
    expect(tags(all)).toEqual(['app:1', 'lib:1']);
    await all.images.acquire('lib:2', { owner: 'a' });
    await all.clock.advance(0);
    expect(tags(all)).toEqual(['app:1', 'lib:2']);
  });

  it('IC-18 so it is when the other name was there already', async () => {
    const all = keeping({ keepLast: 1 });
    await used(all, 'lib:1');
    await all.clock.advance(HOUR);
    all.source.registry.set('app:1', 'sha256:x');
    await all.images.acquire('app:1', { owner: 'a' });
    all.source.put('lib:2', 'sha256:x');
    await all.images.acquire('lib:2', { owner: 'a' });
    await all.clock.advance(0);
    expect(tags(all)).toEqual(['app:1', 'lib:2']);
  });

  it('IC-17 IC-18 one that could not be removed and then moves up is left alone', async () => {
    const all = keeping({ keepLast: 1 });
    await used(all, 'app:1', 'app:2');
    all.source.usersOf.set('sha256:app-1', ['stranger']);
    await all.clock.advance(DELAY);
    expect(all.images.explain('app:1').kept?.code).toBe('image-in-use');
    all.source.usersOf.clear();
    all.source.wipe('sha256:app-2');
    await all.clock.advance(HOUR);
    expect(tags(all)).toEqual(['app:1']);
    expect(all.images.explain('app:1').kept?.code).toBe('keep-last');
  });

  it('G-5 a wall clock that jumps moves neither the order nor the delay', async () => {
    const all = keeping({ keepLast: 1 });
    await used(all, 'app:1');
    all.clock.jump(-24 * HOUR);
    await used(all, 'app:2');
    all.clock.jump(48 * HOUR);
    await all.clock.advance(DELAY - 2 * SECOND - 1);
    expect(tags(all)).toEqual(['app:1', 'app:2']);
    await all.clock.advance(1);
    expect(tags(all)).toEqual(['app:2']);
  });

  it('C24 S36 removal that is off stays off', async () => {
    const all = fixture({ removal: { enabled: false }, retention: { keepLast: 1, maxAge: 0 } });
    await used(all, 'app:1', 'app:2');
    await all.clock.advance(HOUR);
    expect(tags(all)).toEqual(['app:1', 'app:2']);
    expect(all.images.explain('app:2').kept?.code).toBe('removal-disabled');
  });
});
