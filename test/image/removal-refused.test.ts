import { describe, expect, it } from 'vitest';
import { changes, fixture, HOUR, MINUTE, SECOND, takenAndReleased } from './fixture.js';

describe('IC-17 what could not be removed', () => {
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

  it('case C26 children that block their parent: told once each time, no storm of retries, nothing forced', async () => {
    const { clock, source, told } = await takenAndReleased();
    source.remove = async (name) => {
      source.calls.push(`remove ${name}`);
      return 'in-use';
    };
    await clock.advance(3 * MINUTE + HOUR);
    // 10 s doubling to 5 minutes.
    expect(changes(source.calls)).toHaveLength(16);
    expect(told().filter((line) => line === 'kept:image-in-use')).toHaveLength(16);
    expect(told().filter((line) => line.startsWith('warning'))).toEqual([]);
  });

  it('case C30 released while the container is still stopping: no delete is sent before that is gone', async () => {
    const { clock, source, images } = fixture({ removal: { delay: 0 } });
    const lease = await images.acquire('redis:7', { owner: 'a' });
    source.usersOf.set('sha256:a', ['stopping']);
    await lease.release();
    await clock.advance(5 * SECOND);
    expect(changes(source.calls)).toEqual([]);
    expect(images.explain('redis:7').kept?.message).toBe('In use by stopping');
    source.usersOf.clear();
    await clock.advance(5 * SECOND);
    expect(source.names.size).toBe(0);
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
});
