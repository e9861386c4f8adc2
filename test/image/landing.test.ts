import { describe, expect, it } from 'vitest';
import { fixture, HOUR, MINUTE } from './fixture.js';
import { Lives } from './lives.js';
import { pullError, type ScriptedSource } from './scripted-source.js';

/** The first fetch brings its content and is cut; the engine is away for the look after it. */
function cutOnce(source: ScriptedSource): void {
  let cut = false;
  let away = false;
  source.before = ({ line }) => {
    if (line === 'fetch redis:7' && !cut) {
      source.put('redis:7', 'sha256:a');
      cut = away = true;
      throw pullError('redis:7', 'engine-unavailable', true);
    }
    if (line.startsWith('find') && away) {
      away = false;
      throw new Error('engine away');
    }
  };
}

describe('IC-17 G-8 what a pull brought without a good end is ours', () => {
  it.each([
    { policy: 'if-absent', fetches: 1, delay: MINUTE },
    { policy: 'always', fetches: 2, delay: MINUTE },
    { policy: 'if-absent', fetches: 1, delay: 0 },
  ] as const)('cut, and the look after it failed too: $policy, delay $delay', async ({ policy, fetches, delay }) => {
    const { images, source, clock } = fixture({ removal: { delay } });
    cutOnce(source);
    const lease = await clock.until(images.acquire('redis:7', { owner: 'a', policy }));
    expect(images.explain('redis:7').state).toBe('held');
    expect(source.count('fetch redis:7')).toBe(fetches);
    await lease.release();
    await clock.advance(HOUR);
    expect([...source.names.keys()]).toEqual([]);
  });

  it('IC-21 the same with a store: no intent is left behind', async () => {
    const lives = new Lives();
    const { source, clock } = lives;
    const { images, acquire } = lives.begin();
    await images.recover(() => true);
    cutOnce(source);
    const lease = await clock.until(acquire('redis:7', 'a'));
    expect(Object.keys(await lives.stored())).toEqual(['content/sha256:a']);
    await lease.release();
    await clock.advance(HOUR);
    expect([...source.names.keys()]).toEqual([]);
  });

  it('IC-7 what an aborted pull brings after its grace goes after the last release', async () => {
    const { images, source, clock } = fixture();
    const fetch = source.hold('fetch redis:7');
    const caller = new AbortController();
    const left = images.acquire('redis:7', { owner: 'a', signal: caller.signal }).catch(() => undefined);
    await fetch.reached;
    caller.abort();
    await left;
    await clock.advance(2 * MINUTE);
    fetch.go();
    await clock.advance(1);
    expect(images.explain('redis:7').state).toBe('idle');
    await (await images.acquire('redis:7', { owner: 'b' })).release();
    await clock.advance(HOUR);
    expect([...source.names.keys()]).toEqual([]);
  });

  it('IC-7 IC-17 nothing is claimed when such a pull ends with a failure, or after close()', async () => {
    const { images, source, clock } = fixture({ pull: { stallTimeout: '1s', beginTimeout: '1s', attempts: 1 } });
    const failing = source.hold('fetch redis:7');
    const closed = source.hold('fetch redis:8');
    const left = ['redis:7', 'redis:8'].map((name) => images.acquire(name, { owner: 'a' }).catch(() => undefined));
    await clock.until(Promise.all(left));
    source.put('redis:7', 'sha256:a');
    failing.fail(new Error('enough'));
    await clock.advance(1);
    expect(images.explain('redis:7').state).toBe('absent');
    await images.close();
    source.calls.length = 0;
    closed.go();
    await clock.advance(HOUR);
    expect(source.calls).toEqual([]);
    expect(source.names.has('redis:7')).toBe(true);
  });

  it('IC-21 a late one does not end what is written down of the pull that goes on', async () => {
    const lives = new Lives({ pull: { beginTimeout: '1s', abortGrace: '1s' } });
    const { source, clock } = lives;
    const { images, acquire } = lives.begin();
    await images.recover(() => true);
    const first = source.hold('fetch redis:7');
    const second = source.hold('fetch redis:7');
    const pending = acquire('redis:7', 'a');
    await clock.until(second.reached);
    first.go();
    await clock.advance(1);
    expect(Object.keys(await lives.stored()).filter((key) => key.startsWith('intent/'))).toHaveLength(1);
    second.go();
    await clock.until(pending);
    expect(Object.keys(await lives.stored())).toEqual(['content/sha256:a']);
  });
});

describe('IC-8 the look after the fetch', () => {
  it('IC-7 IC-8 pull.timeout ends a pull that hangs in it, and its slot is free after abortGrace', async () => {
    const { images, source, clock } = fixture({ pull: { timeout: '10s', abortGrace: '5s', concurrency: 1 } });
    let fetched = false;
    source.before = ({ line }) => {
      fetched ||= line === 'fetch redis:7';
      return fetched && line === 'find redis:7' ? new Promise(() => undefined) : undefined;
    };
    const pull = images.acquire('redis:7', { owner: 'a' });
    const failed = expect(pull).rejects.toMatchObject({ details: { reason: 'timed-out', limit: 'timeout' } });
    await clock.advance(15_000);
    await failed;
    await clock.until(images.acquire('redis:8', { owner: 'b' }));
    await images.close();
    expect(clock.pending).toBe(0);
  });
});
