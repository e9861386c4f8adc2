import { type Clock, ImageCoordinator, type PrefetchLease } from 'handover';
import { FakeClock } from 'handover/testing';
import { describe, expect, it } from 'vitest';
import { fixture, MINUTE, SECOND } from './fixture.js';
import { digestOf, ScriptedSource, untilAborted } from './scripted-source.js';

const tick = () => new Promise((resolve) => setImmediate(resolve));
const HOUR = 60 * MINUTE;

describe('IC-19 S39 a prefetch lease', () => {
  it('S39 ends by itself at its ttl, like a release: from then on the delay counts', async () => {
    const { images, source, clock } = fixture();
    const lease = await images.prefetch('redis:7', { owner: 'a', ttl: '10m' });
    expect(lease.expiresAt).toBe(clock.wall() + 10 * MINUTE);
    expect(images.explain('redis:7').holders).toEqual([{ owner: 'a', since: clock.wall(), until: lease.expiresAt }]);
    await clock.advance(10 * MINUTE - 1);
    expect(images.explain('redis:7').state).toBe('held');
    await clock.advance(1);
    expect(images.explain('redis:7')).toMatchObject({ state: 'idle', removeAt: clock.wall() + 3 * MINUTE });
    await clock.advance(3 * MINUTE);
    expect(source.names.size).toBe(0);
    expect(clock.pending).toBe(0);
  });

  it('S39 renewed, it ends that long from then, be it later or earlier', async () => {
    const { images, clock } = fixture();
    const lease = await images.prefetch('redis:7', { owner: 'a', ttl: '10m' });
    await clock.advance('9m');
    lease.renew('10m');
    expect(lease.expiresAt).toBe(clock.wall() + 10 * MINUTE);
    expect(images.explain('redis:7').holders[0]!.until).toBe(lease.expiresAt);
    await clock.advance(10 * MINUTE - 1);
    expect(images.explain('redis:7').state).toBe('held');
    lease.renew(SECOND);
    await clock.advance(SECOND - 1);
    expect(images.explain('redis:7').state).toBe('held');
    await clock.advance(1);
    expect(images.explain('redis:7').state).toBe('idle');
  });

  it('S39 the ttl counts from when the lease was given, not from when it was asked for', async () => {
    const { images, source, clock } = fixture();
    const fetch = source.hold('fetch redis:7');
    const asked = images.prefetch('redis:7', { owner: 'a', ttl: '1m' });
    await fetch.reached;
    await clock.advance('2m');
    fetch.go();
    const lease = await asked;
    expect(lease.expiresAt).toBe(clock.wall() + MINUTE);
    expect(images.explain('redis:7').state).toBe('held');
  });

  it('IC-19 released before: nothing rings any more, and release stays idempotent', async () => {
    const { images, clock } = fixture({ removal: { enabled: false } });
    const lease = await images.prefetch('redis:7', { owner: 'a', ttl: '10m' });
    await lease.release();
    expect(clock.pending).toBe(0);
    await lease.release();
    expect(images.explain('redis:7').state).toBe('idle');
  });

  it('IC-2 IC-19 release(owner) ends it too', async () => {
    const { images, clock } = fixture({ removal: { enabled: false } });
    const lease = await images.prefetch('redis:7', { owner: 'a', ttl: '10m' });
    await images.release('a');
    expect(clock.pending).toBe(0);
    expect(() => lease.renew('1m')).toThrow(expect.objectContaining({ code: 'ERR_IMAGE_ABSENT' }) as Error);
  });

  it.each<[string, (lease: PrefetchLease, images: ImageCoordinator, clock: FakeClock) => Promise<unknown>]>([
    ['released', (lease) => lease.release()],
    ['run out', (_lease, _images, clock) => clock.advance('10m')],
    ['taken over', (_lease, images) => images.acquire('redis:7', { owner: 'a' })],
  ])('S39 one that was %s cannot be renewed; the error says what to do', async (_how, end) => {
    const { images, clock } = fixture();
    const lease = await images.prefetch('redis:7', { owner: 'a', ttl: '10m' });
    await end(lease, images, clock);
    expect(() => lease.renew('10m')).toThrow(
      expect.objectContaining({
        code: 'ERR_IMAGE_ABSENT',
        details: { reference: 'redis:7' },
        message: expect.stringContaining('prefetch or acquire it again') as string,
      }) as Error,
    );
    const { expiresAt } = lease;
    await clock.advance('1h');
    expect(lease.expiresAt).toBe(expiresAt);
  });

  it('IC-19 DP-4 its owner’s acquire of the same content takes its place, without an instant in between', async () => {
    const { images, clock, told } = fixture();
    await images.prefetch('redis:7', { owner: 'a', ttl: '10m' });
    await images.prefetch('redis:7', { owner: 'b', ttl: '10m' });
    const before = told().length;
    const lease = await images.acquire('redis:7', { owner: 'a' });
    expect(told().slice(before)).toEqual([]);
    expect(images.explain('redis:7').holders).toMatchObject([{ owner: 'a' }, { owner: 'b' }]);
    expect(images.explain('redis:7').holders[0]).not.toHaveProperty('until');
    await clock.advance(HOUR);
    expect(images.explain('redis:7').holders).toMatchObject([{ owner: 'a' }]);
    await lease.release();
    expect(images.explain('redis:7').state).toBe('idle');
  });

  it('IC-19 an acquire of other content takes nothing over', async () => {
    const { images, source } = fixture();
    await images.prefetch('redis:7', { owner: 'a', ttl: '10m' });
    source.registry.set('redis:7', 'sha256:c');
    await images.acquire('redis:7', { owner: 'a', policy: 'always' });
    expect(images.explain('sha256:a')).toMatchObject({ state: 'held', holders: [{ owner: 'a' }] });
  });

  it('IC-19 what is held in earnest already is held on when a prefetch of the same owner ends', async () => {
    const { images, clock } = fixture();
    const lease = await images.acquire('redis:7', { owner: 'a' });
    await images.prefetch('redis:7', { owner: 'a', ttl: '10m' });
    await lease.release();
    expect(images.explain('redis:7').state).toBe('held');
    await clock.advance('10m');
    expect(images.explain('redis:7').state).toBe('idle');
  });

  it('IC-2 IC-19 two of one owner: each has its own end', async () => {
    const { images, clock } = fixture();
    await images.prefetch('redis:7', { owner: 'a', ttl: '10m' });
    const second = await images.prefetch('redis:7', { owner: 'a', ttl: '5m' });
    expect(images.explain('redis:7').holders).toMatchObject([{ owner: 'a', until: clock.wall() + 10 * MINUTE }]);
    await clock.advance('5m');
    expect(images.explain('redis:7').state).toBe('held');
    expect(() => second.renew('1h')).toThrow('has ended');
    await clock.advance('5m');
    expect(images.explain('redis:7').state).toBe('idle');
  });

  it('IC-15 IC-19 a ttl of 0 brings the content and lets it go', async () => {
    const { images, source, clock } = fixture();
    await images.prefetch('redis:7', { owner: 'a', ttl: 0 });
    await clock.advance(0);
    expect(images.explain('redis:7').state).toBe('idle');
    expect(source.count('fetch redis:7')).toBe(1);
  });

  it('G-5 a wall clock that jumps does not move its end', async () => {
    const { images, clock } = fixture();
    await images.prefetch('redis:7', { owner: 'a', ttl: '10m' });
    clock.jump(HOUR);
    await clock.advance(10 * MINUTE - 1);
    expect(images.explain('redis:7').state).toBe('held');
    await clock.advance(1);
    expect(images.explain('redis:7').state).toBe('idle');
  });

  it('G-5 any number of them wait on one timer, which does not keep the process alive', async () => {
    const fake = new FakeClock();
    const source = new ScriptedSource();
    const kept: boolean[] = [];
    const clock: Clock = {
      now: () => fake.now(),
      wall: () => fake.wall(),
      random: () => fake.random(),
      timer: (ms, fire, o) => {
        if (ms === 10 * MINUTE) kept.push(o?.keepAlive ?? true);
        return fake.timer(ms, fire);
      },
    };
    const images = new ImageCoordinator({ source }, { clock });
    for (let i = 0; i < 20; i += 1) {
      source.put(`app:${i}`, `sha256:${i}`);
      await images.prefetch(`app:${i}`, { owner: 'a', ttl: '10m' });
    }
    expect(fake.pending).toBe(1);
    expect(kept).toEqual([false]);
  });

  it('S41 IC-19 verify brings lost content back, and the lease goes on as it was', async () => {
    const { images, source, clock } = fixture();
    source.registry.set(digestOf('redis', 'sha256:a'), 'sha256:a');
    const lease = await images.prefetch('redis:7', { owner: 'a', ttl: '10m' });
    source.wipe('sha256:a');
    await lease.verify();
    expect(source.artifact('sha256:a')).toBeDefined();
    expect(images.explain('sha256:a').holders).toMatchObject([{ owner: 'a', until: lease.expiresAt }]);
    lease.renew('20m');
    await clock.advance(20 * MINUTE - 1);
    expect(images.explain('sha256:a').state).toBe('held');
  });

  it('S41 IC-19 nor does the verify of another lease of the same owner end it', async () => {
    const { images, source } = fixture();
    source.registry.set(digestOf('redis', 'sha256:a'), 'sha256:a');
    const earnest = await images.acquire('redis:7', { owner: 'a' });
    const lease = await images.prefetch('redis:7', { owner: 'a', ttl: '10m' });
    source.wipe('sha256:a');
    await earnest.verify();
    await earnest.release();
    expect(images.explain('sha256:a').holders).toMatchObject([{ owner: 'a', until: lease.expiresAt }]);
  });

  it('IC-23 closed: no timer is left, and renewing says so', async () => {
    const { images, clock } = fixture();
    const lease = await images.prefetch('redis:7', { owner: 'a', ttl: '10m' });
    await images.close();
    expect(clock.pending).toBe(0);
    expect(() => lease.renew('1m')).toThrow(expect.objectContaining({ code: 'ERR_CLOSED' }) as Error);
    await lease.release();
    expect(clock.pending).toBe(0);
  });
});

describe('IC-3 IC-7 IC-19 in the queue', () => {
  it('IC-7 it comes after all who need theirs now', async () => {
    const { images, source } = fixture({ pull: { concurrency: 1 } });
    source.registry.set('a:1', 'sha256:1').set('b:1', 'sha256:2');
    const first = source.hold('fetch redis:7');
    const all = [images.acquire('redis:7', { owner: 'x' })];
    await first.reached;
    all.push(images.prefetch('a:1', { owner: 'x', ttl: '1h' }));
    await tick();
    all.push(images.acquire('b:1', { owner: 'x' }));
    await tick();
    first.go();
    await Promise.all(all);
    expect(source.calls.filter((call) => call.startsWith('fetch'))).toEqual([
      'fetch redis:7',
      'fetch b:1',
      'fetch a:1',
    ]);
  });

  it('IC-3 a start that joins it moves it to the front; both get their leases, each with its own end', async () => {
    const { images, source, clock } = fixture({ pull: { concurrency: 1 } });
    source.registry.set('a:1', 'sha256:1').set('b:1', 'sha256:2');
    const first = source.hold('fetch redis:7');
    const all = [images.acquire('redis:7', { owner: 'x' })];
    await first.reached;
    const prefetched = images.prefetch('a:1', { owner: 'x', ttl: '1h' });
    await tick();
    all.push(images.acquire('b:1', { owner: 'x' }));
    await tick();
    const place = () => images.explain('a:1').progress?.queuePosition;
    expect(place(), 'behind who came later, but needs it now').toBe(1);
    all.push(images.acquire('a:1', { owner: 'y' }));
    source.registry.set('c:1', 'sha256:3');
    all.push(images.acquire('c:1', { owner: 'x' }));
    await tick();
    expect(images.explain('c:1').progress?.queuePosition).toBe(2);
    expect(place(), 'behind who needed theirs before').toBe(1);
    first.go();
    await Promise.all([...all, prefetched]);
    expect(source.count('fetch a:1')).toBe(1);
    expect(images.explain('a:1').holders).toMatchObject([{ owner: 'x', until: clock.wall() + HOUR }, { owner: 'y' }]);
    expect(images.explain('a:1').holders[1]).not.toHaveProperty('until');
  });

  it('IC-4 its caller may leave by signal or timeout like any other', async () => {
    const { images, source, clock } = fixture();
    source.before = ({ line, call }) => (line.startsWith('fetch') ? untilAborted(call) : undefined);
    const caller = new AbortController();
    const [left, late] = [
      images.prefetch('redis:7', { owner: 'a', ttl: '1h', signal: caller.signal }),
      images.prefetch('redis:7', { owner: 'b', ttl: '1h', timeout: '5s' }),
    ];
    left.catch(() => undefined);
    late.catch(() => undefined);
    await tick();
    caller.abort(new Error('left'));
    await expect(left).rejects.toThrow('left');
    await clock.advance('5s');
    await expect(late).rejects.toMatchObject({ details: { reason: 'timed-out' } });
  });
});

it.each([
  [{ owner: 'a' }, 'ttl'],
  [{ owner: 'a', ttl: undefined }, 'ttl'],
  [{ owner: 'a', ttl: 'never' }, 'ttl'],
  [{ owner: 'a', ttl: Infinity }, 'ttl'],
  [{ owner: 'a', ttl: '10' }, 'ttl'],
  [{ owner: 'a', ttl: -1 }, 'ttl'],
  [{ owner: 'a', ttl: 1, priority: 'start' }, 'priority'],
  [{ ttl: 1 }, 'owner'],
])('G-1 %j is refused, naming %s', async (options, path) => {
  const { images, source } = fixture();
  await expect(images.prefetch('redis:7', options as never)).rejects.toMatchObject({
    code: 'ERR_INVALID_OPTION',
    details: { path },
  });
  const lease = await images.prefetch('redis:7', { owner: 'a', ttl: 1_000 });
  const { ttl } = options as { ttl?: never };
  if (path === 'ttl') {
    expect(() => lease.renew(ttl as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path: 'ttl' } }) as Error,
    );
  }
  expect(source.count('fetch redis:7')).toBe(1);
});
