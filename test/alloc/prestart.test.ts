import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { PrevAllocWatcher } from 'handover';
import { turn } from './scripted-peer.js';
import { noSuchTag, outcomeOf, world } from './world.js';

describe('prestart', () => {
  it('S44: callers join one preparation; more calls find it done', async () => {
    const w = world();
    w.host.script('a', { prestart: '1m' });
    const a = w.alloc('a');
    await w.clock.until(Promise.all([a.prestart(), a.prestart()]));
    await a.prestart();
    expect(w.host.calls).toEqual(['prestart a/web']);
    expect(w.states('a')).toEqual(['prestarting', 'prepared']);
    expect(a.status()).toMatchObject({ reached: 'prepared', wait: null, tasks: { web: { phase: 'prepared' } } });
    expect(w.clock.pending).toBe(0);
  });

  it('DP-5 G-9: shows what it waits for, and how far it is', async () => {
    const w = world();
    w.host.script('a', { prestart: '1m' });
    const a = w.alloc('a', { prestart: { timeout: '5m' } });
    const done = a.prestart();
    await turn();
    expect(a.status()).toMatchObject({
      wait: { for: 'pull', until: w.clock.wall() + 300_000 },
      tasks: { web: { phase: 'preparing', progress: { phase: 'downloading' } } },
    });
    expect(w.log.types()).toContain('alloc:task');
    await w.clock.until(done);
  });

  it('G-4 case C10: the only caller cancels: undone, rejected with its reason, discarded', async () => {
    const w = world();
    w.host.script('a', { prestart: 'hang' });
    const a = w.alloc('a');
    const control = new AbortController();
    const done = outcomeOf(a.prestart({ signal: control.signal }));
    await turn();
    control.abort(new Error('changed my mind'));
    expect((await done).error).toEqual(new Error('changed my mind'));
    expect([a.state, w.host.remains()]).toEqual(['discarded', []]);
    expect(w.states('a')).toEqual(['prestarting', 'discarded']);
    expect([w.clock.pending, getEventListeners(control.signal, 'abort').length]).toEqual([0, 0]);
  });

  it('G-4: one of two callers cancels, the other gets it', async () => {
    const w = world();
    w.host.script('a', { prestart: '1m' });
    const a = w.alloc('a');
    const control = new AbortController();
    const first = outcomeOf(a.prestart({ signal: control.signal }));
    const second = a.prestart();
    await turn();
    control.abort(new Error('changed my mind'));
    expect((await first).error).toEqual(new Error('changed my mind'));
    await w.clock.until(second);
    expect(a.state).toBe('prepared');
  });

  it('DP-5 S43: its timeout rejects it', async () => {
    const w = world();
    w.host.script('a', { prestart: 'hang' });
    const a = w.alloc('a', { prestart: { timeout: '5m' } });
    const { error } = await outcomeOf(w.clock.until(a.prestart()));
    expect(error).toMatchObject({ code: 'ERR_PRESTART_FAILED', retryable: true });
    expect((error as Error).message).toContain('5m');
    expect([a.state, w.clock.now(), w.clock.pending]).toEqual(['rejected', 300_000, 0]);
  });

  it('DP-3 G-6: a failure rejects the alloc, with the cause; nothing can be done with it any more', async () => {
    const w = world();
    w.host.script('a', { prestart: noSuchTag() });
    const a = w.alloc('a');
    const { error } = await outcomeOf(a.prestart());
    expect(error).toMatchObject({ code: 'ERR_PRESTART_FAILED', cause: { code: 'ERR_PULL_FAILED' } });
    expect(a.status().reason).toMatchObject({ code: 'prestart-failed', error });
    for (const again of [a.prestart(), a.start()]) {
      expect((await outcomeOf(again)).error).toMatchObject({ code: 'ERR_ALLOC_ENDED', cause: error });
    }
    await a.discard();
    expect((await a.stop({ reason: 'operator' }).result).outcome).toBe('stopped');
    await a.destroy();
    expect(a.state).toBe('rejected');
  });

  it('AL-1: an alloc that has run is not prepared again', async () => {
    const w = world();
    const a = await w.running('a');
    await a.prestart();
    await w.clock.until(a.stop({ reason: 'operator' }).result);
    expect((await outcomeOf(a.prestart())).error).toMatchObject({
      code: 'ERR_ALLOC_ENDED',
      details: { state: 'stopped' },
    });
    expect((await outcomeOf(a.start())).error).toMatchObject({ code: 'ERR_ALLOC_ENDED' });
  });

  it('G-7: a listener that acts on the first event finds the work begun', async () => {
    const w = world();
    w.host.script('a', { prestart: '1m' });
    const a = w.alloc('a');
    const inner: Promise<unknown>[] = [];
    a.on('alloc:changed', ({ alloc }) => {
      if (alloc.state === 'prestarting') inner.push(outcomeOf(a.prestart()), outcomeOf(a.discard()));
    });
    const { error } = await outcomeOf(w.clock.until(a.prestart()));
    expect(error).toMatchObject({ code: 'ERR_ALLOC_ENDED' });
    await Promise.allSettled(inner);
    expect([a.state, w.host.remains(), w.clock.pending]).toEqual(['discarded', [], 0]);
  });
});

describe('discard', () => {
  it.each([
    { state: 'pending', prestart: undefined },
    { state: 'prestarting', prestart: 'hang' },
    { state: 'prepared', prestart: undefined },
    { state: 'waiting', prestart: undefined },
  ] as const)(
    'DP-1 DP-3: in state $state it undoes what there is, and whoever waits is told',
    async ({ state, prestart }) => {
      const w = world();
      const previous = await w.running('p');
      w.host.script('a', { prestart });
      const a = w.alloc('a');
      let pending: Promise<{ error?: unknown }> | undefined;
      if (state === 'prestarting') pending = outcomeOf(a.prestart());
      if (state === 'prepared') await a.prestart();
      if (state === 'waiting') pending = outcomeOf(a.start({ after: new PrevAllocWatcher(previous, {}, w.env) }));
      await turn();
      expect(a.state).toBe(state);
      await Promise.all([a.discard(), a.discard()]);
      expect([a.state, w.host.remains()]).toEqual(['discarded', ['p/web']]);
      if (pending)
        expect((await pending).error).toMatchObject({ code: 'ERR_ALLOC_ENDED', details: { state: 'discarded' } });
      expect(w.states('a').filter((one) => one === 'discarded')).toHaveLength(1);
      await previous.detach();
      expect(w.clock.pending).toBe(0);
    },
  );

  it('AL-1: a start that comes while it is discarded is refused, and nothing runs', async () => {
    const w = world();
    const a = w.alloc('a');
    await a.prestart();
    const gone = a.discard();
    const { error } = await outcomeOf(a.start());
    expect(error).toMatchObject({ code: 'ERR_ALLOC_ENDED', details: { state: 'discarded' } });
    await gone;
    expect(w.host.calls).toEqual(['prestart a/web', 'discard a/web']);
  });

  it('AL-1: the previous ends in the very moment of the discard: nothing is started', async () => {
    const w = world();
    const previous = await w.running('p');
    const a = w.alloc('a');
    const started = outcomeOf(a.start({ after: new PrevAllocWatcher(previous, {}, w.env) }));
    await turn();
    w.host.die('p/web');
    const gone = a.discard();
    expect((await started).error).toMatchObject({ code: 'ERR_ALLOC_ENDED' });
    await gone;
    expect(w.host.calls).not.toContain('start a/web');
  });

  it('DP-1: a started one has to be stopped instead', async () => {
    const w = world();
    const a = await w.running('a');
    expect((await outcomeOf(a.discard())).error).toMatchObject({
      code: 'ERR_PREVIOUS_RUNNING',
      details: { state: 'running' },
    });
    expect(w.host.running()).toEqual(['a/web']);
  });
});
