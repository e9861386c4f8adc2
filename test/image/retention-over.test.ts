import { describe, expect, it } from 'vitest';
import { fixture, HOUR, SECOND } from './fixture.js';

/** Two idle contents of one repository that keepLast keeps for an hour. */
async function twoKept() {
  const all = fixture({ retention: { keepLast: 2, maxAge: '1h' } });
  all.source.registry.set('app:1', 'sha256:1').set('app:2', 'sha256:2');
  for (const name of ['app:1', 'app:2']) await (await all.images.acquire(name, { owner: 'o' })).release();
  return all;
}

describe('IC-18 once maxAge is over', () => {
  it('IC-17 IC-20 what is in the way is told, not what kept it before', async () => {
    const { images, source, clock } = await twoKept();
    for (const id of ['sha256:1', 'sha256:2']) source.usersOf.set(id, ['somebody']);
    expect(images.explain('app:1').kept?.code).toBe('keep-last');
    await clock.advance(HOUR + SECOND);
    expect(images.snapshot().map(({ kept }) => kept?.code)).toEqual(['image-in-use', 'image-in-use']);
  });

  it('IC-16 those that wait for a pull do not set each other going', async () => {
    const { images, source, clock } = await twoKept();
    await clock.advance(HOUR - SECOND);
    for (const name of ['app:1', 'app:2']) {
      source.hold(`fetch ${name}`);
      images.acquire(name, { owner: 'o', policy: 'always' }).catch(() => undefined);
    }
    await clock.advance(0);
    source.before = () => new Promise<void>((resolve) => void clock.timer(SECOND, resolve));
    await clock.advance(10 * SECOND);
    const codes = images.snapshot().flatMap(({ kept }) => (kept === undefined ? [] : [kept.code]));
    expect(codes).toEqual(['pull-in-progress', 'pull-in-progress']);
    expect(source.count('users sha256:1')).toBe(1);
  });
});
