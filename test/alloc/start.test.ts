import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { PrevAllocWatcher } from 'handover';
import { turn } from './scripted-peer.js';
import { outcomeOf, refusedStart, world } from './world.js';

describe('start', () => {
  it('AL-1: prepares, starts, and resolves when the task runs; more calls join or find it running', async () => {
    const w = world();
    w.host.script('a', { start: '10s' });
    const a = w.alloc('a');
    await w.clock.until(Promise.all([a.start(), a.start()]));
    await a.start();
    expect(w.host.calls).toEqual(['prestart a/web', 'start a/web']);
    expect(a.handle('web')?.id).toBe('a/web');
    expect(a.handle('other')).toBeUndefined();
    expect(await w.leftovers()).toBe(0);
  });

  it('DP-1: a start that fails leaves nothing behind', async () => {
    const w = world();
    w.host.script('a', { start: refusedStart() });
    const a = w.alloc('a');
    const { error } = await outcomeOf(a.start());
    expect(error).toMatchObject({
      code: 'ERR_START_FAILED',
      details: { allocId: 'a', task: 'web' },
      cause: { code: 'ERR_DRIVER' },
    });
    expect([a.state, w.host.remains(), w.clock.pending]).toEqual(['failed', [], 0]);
    expect(a.status().reason).toMatchObject({ code: 'start-failed', error });
  });

  it('G-4: a cancelled start is undone', async () => {
    const w = world();
    w.host.script('a', { start: '1h' });
    const a = w.alloc('a');
    const control = new AbortController();
    const done = outcomeOf(a.start({ signal: control.signal }));
    await turn();
    expect(a.state).toBe('starting');
    control.abort(new Error('changed my mind'));
    expect((await done).error).toEqual(new Error('changed my mind'));
    expect([a.state, w.host.remains(), w.clock.pending]).toEqual(['discarded', [], 0]);
    expect(getEventListeners(control.signal, 'abort')).toEqual([]);
  });

  it('G-4: one of two callers leaves a start, the other gets it', async () => {
    const w = world();
    w.host.script('a', { start: '1m' });
    const a = w.alloc('a');
    const control = new AbortController();
    const first = outcomeOf(a.start({ signal: control.signal }));
    const second = a.start();
    await turn();
    control.abort(new Error('changed my mind'));
    expect((await first).error).toEqual(new Error('changed my mind'));
    await w.clock.until(second);
    expect(a.state).toBe('running');
  });

  it.each([
    { at: 'prestarting', script: { prestart: 'hang' } },
    { at: 'starting', script: { start: 'never' } },
  ] as const)('G-4: an abort in state $at ends in discarded', async ({ at, script }) => {
    const w = world();
    w.host.script('a', script);
    const a = w.alloc('a');
    const control = new AbortController();
    const done = outcomeOf(a.start({ signal: control.signal }));
    await turn();
    expect(a.state).toBe(at);
    control.abort(new Error('changed my mind'));
    await done;
    expect([a.state, w.host.remains()]).toEqual(['discarded', []]);
  });

  it('AL-2: waits for the previous; an abort ends the wait and leaves it waiting; start() may be called again', async () => {
    const w = world();
    const previous = await w.running('p');
    const a = w.alloc('a');
    const after = new PrevAllocWatcher(previous, {}, w.env);
    const control = new AbortController();
    const done = outcomeOf(a.start({ after, signal: control.signal }));
    await turn();
    expect(a.status()).toMatchObject({
      state: 'waiting',
      wait: { for: 'previous', on: 'p' },
      peers: { previous: 'p' },
    });
    control.abort(new Error('enough'));
    expect((await done).error).toEqual(new Error('enough'));
    expect(a.status()).toMatchObject({ state: 'waiting', wait: null });
    expect(getEventListeners(control.signal, 'abort')).toEqual([]);

    const again = a.start({ after });
    await turn();
    expect(a.status().wait).toMatchObject({ for: 'previous' });
    previous.stop({ reason: 'operator' });
    await w.clock.until(again);
    expect(w.states('a')).toEqual(['prestarting', 'prepared', 'waiting', 'starting', 'running']);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-1: at whatever moment a discard comes while the previous ends, either it runs or it is discarded', async () => {
    const seen = new Set<string>();
    for (let turns = 0; turns < 40; turns++) {
      const w = world();
      const previous = await w.running('p');
      const a = w.alloc('a');
      const started = outcomeOf(a.start({ after: new PrevAllocWatcher(previous, {}, w.env) }));
      await turn();
      w.host.die('p/web');
      for (let i = 0; i < turns; i++) await Promise.resolve();
      const discarded = (await outcomeOf(a.discard())).error === undefined;
      await started;
      expect([a.state, w.host.running()]).toEqual(discarded ? ['discarded', []] : ['running', ['a/web']]);
      expect(w.host.calls.includes('start a/web')).toBe(!discarded);
      seen.add(a.state);
    }
    expect([...seen].toSorted()).toEqual(['discarded', 'running']);
  });

  it('AL-2: the previous returns to running: rejected, still waiting', async () => {
    const w = world();
    const previous = await w.running('p', { shutdown: { shutdownDelay: '1h' } });
    const a = w.alloc('a');
    const started = outcomeOf(a.start({ after: new PrevAllocWatcher(previous, {}, w.env) }));
    await turn();
    const stop = previous.stop({ reason: 'operator' });
    await turn();
    expect(await w.clock.until(stop.cancel())).toBe('cancelled');
    expect((await started).error).toMatchObject({ code: 'ERR_PREVIOUS_RUNNING', details: { state: 'running' } });
    expect([a.state, w.host.running()]).toEqual(['waiting', ['p/web']]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-2 S53: overlap with a shared exclusive resource is refused', async () => {
    const w = world();
    w.host.script('p', { ignores: ['SIGTERM', 'SIGKILL'] });
    const previous = await w.running('p', {}, { port: 8080 });
    const a = w.alloc('a', {}, { port: 8080 });
    const after = new PrevAllocWatcher(previous, { onExpired: 'overlap', deadline: '10s' }, w.env);
    const started = outcomeOf(a.start({ after }));
    previous.stop({ reason: 'operator' });
    await w.clock.advance('10s');
    expect((await started).error).toMatchObject({
      code: 'ERR_OVERLAP_IMPOSSIBLE',
      details: { resources: [{ key: '8080/tcp' }] },
    });
    expect([a.state, w.host.calls.includes('start a/web')]).toEqual(['waiting', false]);
  });

  it('AL-2 S53: overlap without one goes on beside it', async () => {
    const w = world();
    w.host.script('p', { ignores: ['SIGTERM', 'SIGKILL'] });
    const previous = await w.running('p');
    const a = w.alloc('a');
    const started = a.start({ after: new PrevAllocWatcher(previous, { onExpired: 'overlap' }, w.env) });
    previous.stop({ reason: 'operator' });
    await w.clock.until(started);
    expect(w.host.running()).toEqual(['p/web', 'a/web']);
    expect(await w.leftovers()).toBe(0);
  });
});

describe('until', () => {
  it('AL-1: each goal, from the current state and from a later one', async () => {
    const w = world();
    w.host.script('a', { prestart: '1m', start: '1m' });
    const a = w.alloc('a');
    const goals = ['prepared', 'running', 'healthy', 'terminal'] as const;
    const waits = goals.map(async (goal) => [goal, (await a.until(goal)).state, w.clock.now()]);
    await w.clock.until(a.start());
    await w.clock.until(a.until('healthy'));
    await w.clock.until(a.stop({ reason: 'operator' }).result);
    expect(await Promise.all(waits)).toEqual([
      ['prepared', 'prepared', 60_000],
      ['running', 'running', 120_000],
      ['healthy', 'running', 130_000],
      ['terminal', 'stopped', 130_000],
    ]);
    expect((await a.until('terminal')).state).toBe('stopped');
    for (const goal of ['prepared', 'running', 'healthy'] as const) {
      expect((await outcomeOf(a.until(goal))).error).toMatchObject({ code: 'ERR_ALLOC_ENDED' });
    }
  });

  it.each(['prepared', 'running', 'healthy'] as const)(
    'AL-1: %s cannot come any more once it was told to stop',
    async (goal) => {
      const w = world();
      w.host.script('a', { ignores: ['SIGTERM', 'SIGKILL'] });
      const a = await w.running('a', { shutdown: { shutdownDelay: '1m' } });
      a.stop({ reason: 'operator' });
      await turn();
      const waits = outcomeOf(a.until(goal));
      await w.clock.advance('59s');
      expect(a.state).toBe('draining');
      const { error } = await w.clock.until(waits);
      expect(error).toMatchObject({ code: 'ERR_ALLOC_ENDED', details: { state: 'stopping' } });
      expect((error as Error).message).toContain('is being stopped');
      expect(w.clock.now()).toBe(70_000);
      expect(await w.leftovers()).toBe(0);
    },
  );

  it('G-4: an abort leaves no listener; a detach rejects', async () => {
    const w = world();
    const a = w.alloc('a');
    const control = new AbortController();
    const aborted = outcomeOf(a.until('running', { signal: control.signal }));
    const let_go = outcomeOf(a.until('running'));
    control.abort(new Error('enough'));
    expect((await aborted).error).toEqual(new Error('enough'));
    expect(getEventListeners(control.signal, 'abort')).toEqual([]);
    await a.detach();
    expect((await let_go).error).toMatchObject({ code: 'ERR_DETACHED' });
    expect((await outcomeOf(a.until('running'))).error).toMatchObject({ code: 'ERR_DETACHED' });
  });
});
