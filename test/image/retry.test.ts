import { HandoverError, type PullReason } from 'handover';
import { FakeClock } from 'handover/testing';
import { describe, expect, it } from 'vitest';
import { Gates } from '../../src/image/gates.js';
import { type Fixture, fixture, HOUR, MINUTE, SECOND } from './fixture.js';
import { pullError, type Step } from './scripted-source.js';

/** Every fetch fails like this. */
function failing(reason: PullReason, retryable: boolean): (step: Step) => void {
  return ({ line }) => {
    if (line.startsWith('fetch')) throw pullError(line, reason, retryable);
  };
}

/** When each fetch of redis:7 came, in ms of the clock. */
function fetchTimes({ source, clock }: Fixture): number[] {
  const times: number[] = [];
  const { before } = source;
  source.before = (step) => {
    if (step.line === 'fetch redis:7') times.push(clock.now());
    return before(step);
  };
  return times;
}

describe('IC-9 retries', () => {
  it.each<PullReason>(['not-found-or-denied', 'unauthorized', 'no-platform', 'invalid-reference'])(
    'IC-9 cases C12 C13 %s is permanent: one attempt, no gate',
    async (reason) => {
      const { images, source, clock } = fixture();
      source.before = failing(reason, false);
      for (const times of [1, 2]) {
        await expect(images.acquire('redis:7', { owner: 'a' })).rejects.toMatchObject({
          details: { reason, attempts: 1 },
        });
        expect(source.count('fetch redis:7')).toBe(times);
      }
      expect(clock.pending).toBe(0);
    },
  );

  it('IC-9 case C15 what may pass is tried 5 times, 1 s doubling with full jitter, and nothing is removed between', async () => {
    const all = fixture();
    all.source.before = failing('registry-unavailable', true);
    const times = fetchTimes(all);
    await expect(all.clock.until(all.images.acquire('redis:7', { owner: 'a' }))).rejects.toMatchObject({
      details: { reason: 'registry-unavailable', attempts: 5 },
      retryable: true,
    });
    expect(times).toHaveLength(5);
    times.slice(1).forEach((at, i) => {
      expect(at - times[i]!).toBeGreaterThan(0);
      expect(at - times[i]!).toBeLessThanOrEqual(SECOND * 2 ** i);
    });
    expect(all.source.calls.filter((call) => call.startsWith('remove'))).toEqual([]);
  });

  it('IC-9 IC-10 case C14 rate-limited waits a minute, doubling; a time that the registry named is kept to', async () => {
    const all = fixture({ pull: { attempts: 3 } });
    all.source.before = failing('rate-limited', true);
    const times = fetchTimes(all);
    await expect(all.clock.until(all.images.acquire('redis:7', { owner: 'a' }))).rejects.toBeDefined();
    expect(times).toEqual([0, MINUTE, 3 * MINUTE]);
  });

  it('IC-9 what is not classified may pass: it is tried again', async () => {
    const { images, source, clock } = fixture();
    let calls = 0;
    source.before = ({ line }) => {
      if (line.startsWith('fetch') && ++calls === 1) throw new Error('ECONNRESET');
    };
    await expect(clock.until(images.acquire('redis:7', { owner: 'a' }))).resolves.toMatchObject({
      imageId: 'sha256:a',
    });
    expect(calls).toBe(2);
  });

  it('IC-12 while it waits for the next attempt the progress says why and until when', async () => {
    const { images, source, clock } = fixture();
    source.before = failing('rate-limited', true);
    const asked = images.acquire('redis:7', { owner: 'a' });
    await clock.advance(SECOND);
    expect(images.explain('redis:7')).toMatchObject({
      state: 'pulling',
      waiters: ['a'],
      progress: {
        phase: 'retrying',
        attempt: 1,
        retryAt: clock.wall() + 59 * SECOND,
        lastError: { code: 'ERR_PULL_FAILED' },
      },
      lastError: { code: 'ERR_PULL_FAILED' },
    });
    source.before = () => undefined;
    await clock.until(asked);
  });

  it('IC-9 retryNow ends the wait between attempts', async () => {
    const { images, source, clock } = fixture();
    source.before = failing('rate-limited', true);
    const asked = images.acquire('redis:7', { owner: 'a' });
    await clock.advance(0);
    source.before = () => undefined;
    images.retryNow('redis:7');
    await expect(asked).resolves.toBeDefined();
    expect(clock.now()).toBe(0);
    expect(clock.pending).toBe(0);
  });

  it('IC-9 a place in the queue is not kept while it waits for the next attempt', async () => {
    const { images, source, clock } = fixture({ pull: { concurrency: 1 } });
    source.before = ({ line }) => {
      if (line === 'fetch redis:7') throw pullError(line, 'rate-limited', true);
    };
    const stuck = images.acquire('redis:7', { owner: 'a', timeout: '1s' });
    await clock.advance(0);
    await expect(images.acquire('redis:8', { owner: 'b' })).resolves.toBeDefined();
    await expect(clock.until(stuck)).rejects.toBeDefined();
  });
});

describe('IC-9 the gate', () => {
  async function failed() {
    const all = fixture({ pull: { attempts: 2 } });
    all.source.before = failing('registry-unavailable', true);
    await expect(all.clock.until(all.images.acquire('redis:7', { owner: 'a' }))).rejects.toBeDefined();
    all.source.calls.length = 0;
    return all;
  }

  it('S16 closed after the attempts: the answer carries the last cause and the time, without a fetch', async () => {
    const { images, source, clock } = await failed();
    await expect(images.acquire('redis:7', { owner: 'a' })).rejects.toMatchObject({
      code: 'ERR_PULL_FAILED',
      details: { reason: 'registry-unavailable', retryAt: clock.wall() + 10 * SECOND },
      retryable: true,
    });
    expect(source.count('fetch redis:7')).toBe(0);
    expect(images.explain('redis:7')).toMatchObject({ state: 'absent', lastError: { code: 'ERR_PULL_FAILED' } });
  });

  it('S16 it lets one attempt through, then closes for twice as long, at most 5 minutes', async () => {
    const { images, source, clock } = await failed();
    const waits: number[] = [];
    for (let i = 0; i < 7; i += 1) {
      const error = await images.acquire('redis:7', { owner: 'a' }).catch((caught: unknown) => caught);
      const { retryAt } = (error as { details: { retryAt: number } }).details;
      waits.push((retryAt - clock.wall()) / SECOND);
      await clock.advance(retryAt - clock.wall());
      await expect(images.acquire('redis:7', { owner: 'a' })).rejects.toMatchObject({ details: { attempts: 1 } });
    }
    expect(waits).toEqual([10, 20, 40, 80, 160, 300, 300]);
    expect(source.count('fetch redis:7')).toBe(7);
  });

  it('IC-9 retryNow opens the gate of its reference alone, however alike another one is', async () => {
    const { images, source, clock } = await failed();
    await expect(clock.until(images.acquire('redis:72', { owner: 'a' }))).rejects.toBeDefined();
    source.calls.length = 0;
    images.retryNow('redis:7');
    for (const name of ['redis:7', 'redis:72']) {
      await expect(clock.until(images.acquire(name, { owner: 'a' }))).rejects.toBeDefined();
    }
    expect([source.count('fetch redis:7'), source.count('fetch redis:72')]).toEqual([2, 0]);
    expect(images.explain('redis:73').lastError).toBeUndefined();
  });

  it('S17 success and retryNow clear it', async () => {
    const { images, source, clock } = await failed();
    images.retryNow('redis:7');
    await expect(clock.until(images.acquire('redis:7', { owner: 'a' }))).rejects.toMatchObject({
      details: { attempts: 2 },
    });
    await clock.advance(10 * SECOND);
    source.before = () => undefined;
    await images.acquire('redis:7', { owner: 'a' });
    source.wipe('sha256:a');
    source.before = failing('registry-unavailable', true);
    await expect(clock.until(images.acquire('redis:7', { owner: 'a' }))).rejects.toMatchObject({
      details: { attempts: 2 },
    });
  });

  it('IC-9 what is present is not gated, nor is another reference', async () => {
    const { images, source } = await failed();
    source.before = () => undefined;
    await expect(images.acquire('redis:8', { owner: 'a' })).resolves.toBeDefined();
    source.put('redis:7', 'sha256:a');
    await expect(images.acquire('redis:7', { owner: 'a' })).resolves.toBeDefined();
  });

  it('IC-9 whoever holds a deadline keeps trying through the gate until it', async () => {
    const { images, source, clock } = await failed();
    const patient = images.acquire('redis:7', { owner: 'a', timeout: '10m' });
    await clock.advance(MINUTE);
    expect(source.count('fetch redis:7')).toBe(2);
    source.before = () => undefined;
    await expect(clock.until(patient)).resolves.toMatchObject({ imageId: 'sha256:a' });
    expect(clock.pending).toBe(0);
  });

  it('IC-9 a deadline that passes names the last cause; a permanent failure ends the wait at once', async () => {
    const { images, source, clock } = await failed();
    await expect(clock.until(images.acquire('redis:7', { owner: 'a', timeout: '25s' }))).rejects.toMatchObject({
      details: { reason: 'timed-out' },
      cause: { details: { reason: 'registry-unavailable' } },
    });
    expect(clock.now()).toBeLessThan(MINUTE);
    source.before = failing('unauthorized', false);
    await expect(clock.until(images.acquire('redis:7', { owner: 'a', timeout: '10m' }))).rejects.toMatchObject({
      details: { reason: 'unauthorized' },
    });
    expect(clock.pending).toBe(0);
  });

  it('IC-9 retryNow wakes a caller who waits at the gate', async () => {
    const { images, source, clock } = await failed();
    const patient = images.acquire('redis:7', { owner: 'a', timeout: '10m' });
    await clock.advance(SECOND);
    source.before = () => undefined;
    images.retryNow('redis:7');
    await expect(patient).resolves.toBeDefined();
  });

  it.each([
    { says: HOUR, first: HOUR },
    { says: SECOND, first: 10 * SECOND },
    { says: undefined, first: MINUTE },
  ])('IC-10 it is closed for as long as the registry wants ($says), or counts by', async ({ says, first }) => {
    const all = fixture({ pull: { attempts: 1 } });
    all.source.before = ({ line }) => {
      if (!line.startsWith('fetch')) return;
      const { message, details } = pullError('redis:7', 'rate-limited', true);
      const retryAt = says === undefined ? {} : { retryAt: all.clock.wall() + says };
      throw new HandoverError('ERR_PULL_FAILED', message, { details: { ...details, ...retryAt }, retryable: true });
    };
    const times = fetchTimes(all);
    await expect(all.clock.until(all.images.acquire('redis:7', { owner: 'a', timeout: '3h' }))).rejects.toBeDefined();
    expect(times.slice(0, 2)).toEqual([0, first]);
  });

  it('IC-9 a pull long after the last one failed has all its attempts', async () => {
    const { images, source, clock } = await failed();
    await clock.advance(10 * SECOND);
    await expect(images.acquire('redis:7', { owner: 'a' })).rejects.toMatchObject({ details: { attempts: 1 } });
    await clock.advance(20 * SECOND + 10 * MINUTE);
    source.calls.length = 0;
    await expect(clock.until(images.acquire('redis:7', { owner: 'a' }))).rejects.toMatchObject({
      details: { attempts: 2 },
    });
    await expect(images.acquire('redis:7', { owner: 'a' })).rejects.toMatchObject({
      details: { retryAt: clock.wall() + 10 * SECOND },
    });
  });

  it('IC-20 explain tells of what a pull failed for good, which closes nothing', async () => {
    const { images, source, clock } = fixture({ pull: { attempts: 2 } });
    await expect(images.acquire('gone:1', { owner: 'a' })).rejects.toBeDefined();
    const at = clock.wall();
    await clock.advance(HOUR);
    expect(images.explain('gone:1')).toMatchObject({
      state: 'absent',
      lastError: { code: 'ERR_PULL_FAILED', at, error: { details: { reason: 'not-found-or-denied' } } },
    });
    source.before = failing('registry-unavailable', true);
    await expect(clock.until(images.acquire('gone:1', { owner: 'a' }))).rejects.toMatchObject({
      details: { attempts: 2 },
    });
    source.before = () => undefined;
    source.registry.set('gone:1', 'sha256:c');
    await clock.advance(10 * SECOND);
    await images.acquire('gone:1', { owner: 'a' });
    expect(images.explain('gone:1').lastError).toBeUndefined();
  });

  it('IC-9 retryNow wakes who waits because the engine could not be asked; nothing is left behind', async () => {
    const { images, source, clock } = fixture();
    source.before = ({ line }) => {
      if (line.startsWith('find')) throw new Error('engine away');
    };
    const patient = images.acquire('redis:7', { owner: 'a', timeout: '1h' });
    await clock.advance(20 * SECOND);
    const now = clock.now();
    source.before = () => undefined;
    images.retryNow('redis:8');
    images.retryNow('redis:7');
    await expect(patient).resolves.toBeDefined();
    expect([clock.now(), clock.pending]).toEqual([now, 0]);
  });

  it('IC-9 who comes with credentials opens the gate of a scope that was anonymous until then', async () => {
    const { images, source } = fixture({ pull: { attempts: 1 } });
    source.before = failing('rate-limited', true);
    const anonymous = { owner: 'a', authScope: 'tenant' };
    await expect(images.acquire('redis:7', anonymous)).rejects.toBeDefined();
    await expect(images.acquire('redis:7', anonymous)).rejects.toBeDefined();
    await expect(images.acquire('redis:7', { ...anonymous, auth: async () => undefined })).rejects.toBeDefined();
    expect(source.count('fetch redis:7')).toBe(1);
    const auth = async () => ({ username: 'u', password: 'p' });
    await expect(images.acquire('redis:7', { ...anonymous, auth })).rejects.toBeDefined();
    await expect(images.acquire('redis:7', { ...anonymous, auth })).rejects.toBeDefined();
    expect(source.count('fetch redis:7')).toBe(2);
    source.before = () => undefined;
    const other = async () => ({ username: 'v', password: 'q' });
    await expect(images.acquire('redis:7', { ...anonymous, auth: other })).resolves.toBeDefined();
  });

  it('IC-9 who comes with credentials does not open the gate of what failed before it was fetched', async () => {
    const { images, source } = fixture({ pull: { attempts: 1 } });
    source.before = ({ line }) => {
      if (line.startsWith('find')) throw new Error('engine away');
    };
    const asked = { owner: 'a', policy: 'always', auth: async () => ({ username: 'u', password: 'p' }) } as const;
    await expect(images.acquire('redis:7', asked)).rejects.toBeDefined();
    const { length } = source.calls;
    await expect(images.acquire('redis:7', asked)).rejects.toMatchObject({ message: /not tried again before/ });
    expect(source.calls).toHaveLength(length);
  });

  it('G-4 IC-23 who leaves a closed gate leaves no timer', async () => {
    const { images, clock } = await failed();
    const caller = new AbortController();
    const asked = images.acquire('redis:7', { owner: 'a', timeout: '1h', signal: caller.signal });
    await clock.advance(SECOND);
    caller.abort('left');
    await expect(asked).rejects.toBe('left');
    expect(clock.pending).toBe(0);
  });

  it('IC-9 a thousand failures are kept; who waits for the gate that goes is not forgotten', async () => {
    const clock = new FakeClock();
    const gates = new Gates(clock);
    const error = pullError('x', 'registry-unavailable', true);
    const fail = (from: number, to: number): void => {
      for (let i = from; i <= to; i += 1) gates.failed(`r:${i} `, error, undefined);
    };
    fail(1, 1_000);
    fail(1, 1);
    const waiting = gates.opened('r:2 ', new AbortController().signal, 0);
    fail(1_001, 1_001);
    await waiting;
    expect([1, 2, 3, 1_001].map((i) => gates.get(`r:${i} `)?.failures)).toEqual([2, undefined, 1, 1]);
    expect(clock.pending).toBe(0);
  });
});
