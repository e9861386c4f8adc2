import { describe, expect, it } from 'vitest';
import { changes, fixture, HOUR, MINUTE, SECOND, takenAndReleased } from './fixture.js';
import { digestOf } from './scripted-source.js';

describe('IC-17 which names go', () => {
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

describe('IC-13 a name that the grammar does not read', () => {
  it.each([{}, { keepLast: 1, maxAge: '1m' }, { pin: ['x:1'] }])(
    'IC-13 IC-17 is no trouble of those who want the content by another, retention %j',
    async (retention) => {
      const { images, source, clock } = fixture({ retention });
      source.before = ({ line }) => {
        if (line === 'fetch redis:7') source.names.set('BAD NAME', 'sha256:a');
      };
      const lease = await images.acquire('redis:7', { owner: 'a' });
      expect(images.explain('redis:7').state).toBe('held');
      await lease.release();
      await clock.advance(HOUR);
      expect([...source.names.keys()]).toEqual(['BAD NAME']);
    },
  );
});
