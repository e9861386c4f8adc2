import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { type AllocPeer, PrevAllocWatcher, memoryFeed, peer } from 'handover';
import { FakeClock } from 'handover/testing';
import { type Step, scriptedPeer, turn, view } from './scripted-peer.js';
import { outcomeOf } from './world.js';

type Options = ConstructorParameters<typeof PrevAllocWatcher>[1];

function watch(previous: AllocPeer, o: Options = {}) {
  const clock = new FakeClock();
  const control = new AbortController();
  const watcher = new PrevAllocWatcher(previous, o, { clock });
  const settled = { yes: false };
  const done = outcomeOf(watcher.wait({ signal: control.signal })).then((outcome) => {
    settled.yes = true;
    return outcome;
  });
  return {
    ...{ clock, control, done, settled },
    /** Nothing is armed and nobody listens any more. */
    left: () => clock.pending + getEventListeners(control.signal, 'abort').length,
  };
}

describe('PrevAllocWatcher', () => {
  it.each([
    { end: 'complete', why: 'exits 0' },
    { end: 'failed', why: 'exits non-zero' },
    { end: 'stopped', why: 'is stopped' },
    { end: 'lost', why: 'is lost' },
    { end: 'discarded', why: 'was never started' },
    { end: 'rejected', why: 'could not be prepared' },
  ] as const)('AL-2 S52 N-W2: the previous $why, and that releases', async ({ end }) => {
    const script = scriptedPeer([view('running'), view(end)]);
    const { done, settled, left } = watch(script.peer);
    await turn();
    expect(settled.yes).toBe(false);
    await script.next();
    expect((await done).value).toMatchObject({ outcome: 'ended', last: { state: end } });
    expect([left(), script.state.open]).toEqual([0, 0]);
  });

  it.each(['running', 'held', 'draining', 'stopping', 'unkillable'] as const)(
    'AL-2 N-W2: %s does not release',
    async (state) => {
      const script = scriptedPeer([view(state, { stopBudget: 'never' }), view(state, { stopBudget: 'never' })]);
      const { clock, settled, control, done, left } = watch(script.peer);
      await script.next();
      await clock.advance('30d');
      expect(settled.yes).toBe(false);
      control.abort(new Error('enough'));
      expect((await done).error).toEqual(new Error('enough'));
      expect([left(), script.state.open]).toEqual([0, 0]);
    },
  );

  it.each([
    { what: 'had ended before anybody looked (N-W3)', steps: [view('stopped')] as Step[], outcome: 'ended' },
    { what: 'is not known to an authority', steps: ['absent'] as Step[], outcome: 'absent' },
  ])('case C46 AL-2: a previous that $what releases at once', async ({ steps, outcome }) => {
    const { clock, done, left } = watch(scriptedPeer(steps).peer);
    expect((await done).value).toMatchObject({ outcome, waited: 0 });
    expect([left(), clock.now()]).toEqual([0, 0]);
  });

  it('AL-2: unreachable does not release; unreachable and then absent does', async () => {
    const script = scriptedPeer(['unreachable', 'unreachable', 'absent']);
    const { clock, settled, done } = watch(script.peer);
    await script.next();
    await clock.advance('10d');
    expect(settled.yes).toBe(false);
    await script.next();
    expect((await done).value?.outcome).toBe('absent');
  });

  it('AL-2: not knowing is taken for gone only by choice', async () => {
    const { done, left } = watch(scriptedPeer(['unreachable']).peer, { onUnreachable: 'proceed' });
    expect((await done).value?.outcome).toBe('absent');
    expect(left()).toBe(0);
  });

  it.each(['throw', 'end'] as const)('AL-12: a feed that breaks (%s) is read again, with backoff', async (fault) => {
    const script = scriptedPeer([view('running'), fault], [fault], [fault], [view('stopped')]);
    const { clock, done, settled, left } = watch(script.peer);
    await script.next();
    expect([script.state.watched, settled.yes]).toEqual([1, false]);
    expect(clock.pending).toBe(1);
    await clock.advance('1m');
    expect((await done).value?.outcome).toBe('ended');
    expect([script.state.watched, left(), script.state.open]).toEqual([4, 0, 0]);
  });

  it('AL-12: a feed that breaks now and then is always read again soon', async () => {
    const breaks = Array.from({ length: 20 }, (): Step[] => [view('running'), 'throw']);
    const script = scriptedPeer(...breaks, [view('stopped')]);
    const { clock, done } = watch(script.peer);
    for (let i = 0; i < breaks.length; i++) {
      await script.next();
      await clock.advance('100ms');
    }
    expect((await done).value?.outcome).toBe('ended');
  });

  it('AL-12: a feed that throws at once, and synchronously, is read again', async () => {
    let tries = 0;
    const broken: AllocPeer = {
      id: 'peer',
      watch: (call) => {
        if (++tries < 3) throw new Error('no');
        return scriptedPeer(['absent']).peer.watch(call);
      },
    };
    const { clock, done } = watch(broken);
    await clock.advance('1m');
    expect((await done).value?.outcome).toBe('absent');
  });

  it.each(['hang', 'deaf'] as const)(
    'case C46: the wait for a feed that says nothing (%s) can be aborted',
    async (how) => {
      const { done, control, left } = watch(scriptedPeer([how]).peer);
      await turn();
      control.abort(new Error('enough'));
      expect((await done).error).toEqual(new Error('enough'));
      expect(left()).toBe(0);
    },
  );

  it('case C46: an abort before the wait never looks', async () => {
    const script = scriptedPeer([view('running')]);
    const signal = AbortSignal.abort(new Error('too early'));
    await expect(new PrevAllocWatcher(script.peer, {}, {}).wait({ signal })).rejects.toThrow('too early');
    expect(script.state.open).toBe(0);
  });

  it.each([
    { options: {}, at: 20_000, why: 'its own stop budget' },
    { options: { deadline: '5s' }, at: 5_000, why: 'a deadline' },
  ] as const)(
    'AL-2 S53: bounded by $why, counted from when it is seen draining and not while it is held',
    async ({ options, at }) => {
      const script = scriptedPeer([view('held'), view('draining'), view('stopping')]);
      const { clock, settled, done, left } = watch(script.peer, options);
      await clock.advance('2h');
      await script.next();
      await clock.advance(at / 2);
      await script.next();
      await clock.advance(at / 2 - 1);
      expect(settled.yes).toBe(false);
      await clock.advance(1);
      const { error } = await done;
      expect(error).toMatchObject({
        code: 'ERR_PREVIOUS_RUNNING',
        retryable: true,
        details: { allocId: 'peer', state: 'stopping' },
      });
      expect([left(), script.state.open]).toEqual([0, 0]);
    },
  );

  it('AL-2 S53: unkillable is waited for like a stop, and never releases by itself', async () => {
    const script = scriptedPeer([view('unkillable')]);
    const { clock, done } = watch(script.peer);
    await clock.advance('20s');
    expect((await done).error).toMatchObject({ details: { state: 'unkillable' } });
  });

  it('AL-2: overlap by choice goes on beside it at the deadline', async () => {
    const { clock, done, left } = watch(scriptedPeer([view('draining')]).peer, { onExpired: 'overlap' });
    await clock.advance('20s');
    expect((await done).value).toMatchObject({ outcome: 'overlap', waited: 20_000, last: { state: 'draining' } });
    expect(left()).toBe(0);
  });

  it.each(['held', 'draining'] as const)('AL-2: rejects when it returns from %s to running', async (state) => {
    const script = scriptedPeer([view('running'), view(state), view('running')]);
    const { done, left } = watch(script.peer);
    await script.next();
    await script.next();
    expect((await done).error).toMatchObject({ code: 'ERR_PREVIOUS_RUNNING', details: { state: 'running' } });
    expect(left()).toBe(0);
  });

  it('G-1 G-2: its options are checked', () => {
    const it = scriptedPeer([]).peer;
    expect(() => new PrevAllocWatcher(it, { deadline: '5' })).toThrow('deadline');
    expect(() => new PrevAllocWatcher(it, { onExpired: 'wait' as never })).toThrow('onExpired');
    expect(() => new PrevAllocWatcher({ id: 'x' } as never)).toThrow('watch');
  });
});

describe('memoryFeed', () => {
  it('AL-12: an unknown id is unreachable until the feed is in sync, then absent', async () => {
    const feed = memoryFeed();
    const { settled, done } = watch(peer(feed, 'gone'));
    await turn();
    expect(settled.yes).toBe(false);
    feed.synced();
    expect((await done).value?.outcome).toBe('absent');
    expect((await watch(peer(feed, 'another')).done).value?.outcome).toBe('absent');
  });

  it('AL-12 S60 N-B1 N-B4: a new watcher gets the current value, a slow one only the latest', async () => {
    const feed = memoryFeed();
    feed.publish?.(view('running', { id: 'a' }));
    const seen = feed.watch('a', {})[Symbol.asyncIterator]();
    expect((await seen.next()).value).toMatchObject({ seen: { state: 'running' } });
    feed.publish?.(view('held', { id: 'a' }));
    feed.publish?.(view('draining', { id: 'a' }));
    expect((await seen.next()).value).toMatchObject({ seen: { state: 'draining' } });
    await seen.return?.(undefined);
  });

  it('AL-12 S60 N-B2: what is published between two looks is not lost', async () => {
    const feed = memoryFeed();
    feed.publish?.(view('running', { id: 'a' }));
    const { done, settled } = watch(peer(feed, 'a'));
    await turn();
    expect(settled.yes).toBe(false);
    feed.publish?.(view('draining', { id: 'a' }));
    feed.publish?.(view('stopped', { id: 'a' }));
    expect((await done).value).toMatchObject({ outcome: 'ended' });
  });

  it('AL-12 N-B3 N-B5: a watcher that leaves is forgotten', async () => {
    const feed = memoryFeed();
    const control = new AbortController();
    const seen = feed.watch('a', { signal: control.signal })[Symbol.asyncIterator]();
    await seen.next();
    const next = seen.next();
    control.abort(new Error('enough'));
    await expect(next).rejects.toThrow('enough');
    expect(getEventListeners(control.signal, 'abort')).toEqual([]);
  });
});
