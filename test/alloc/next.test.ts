import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { type AllocPeer, NextAllocWatcher } from 'handover';
import { FakeClock } from 'handover/testing';
import { type Step, scriptedPeer, turn, view } from './scripted-peer.js';
import { outcomeOf } from './world.js';

type Options = ConstructorParameters<typeof NextAllocWatcher>[1];

function watch(next: AllocPeer, o: Options = {}) {
  const clock = new FakeClock();
  const control = new AbortController();
  const watcher = new NextAllocWatcher(next, o, { clock });
  const settled = { yes: false };
  const done = outcomeOf(watcher.wait({ signal: control.signal })).then((outcome) => {
    settled.yes = true;
    return outcome;
  });
  return {
    ...{ clock, control, done, settled, watcher },
    left: () => clock.pending + getEventListeners(control.signal, 'abort').length,
  };
}

describe('NextAllocWatcher.wait', () => {
  it('AL-3 N-W1: gate none does not wait, and does not look', async () => {
    const script = scriptedPeer(['unreachable']);
    const { done, left } = watch(script.peer, { gate: 'none' });
    expect((await done).value).toEqual({ outcome: 'reached', waited: 0 });
    expect([left(), script.state.watched]).toEqual([0, 0]);
  });

  it.each([
    { gate: 'prepared', reached: 'prepared', released: true },
    { gate: 'prepared', reached: 'healthy', released: true },
    { gate: 'healthy', reached: 'prepared', released: false },
    { gate: 'healthy', reached: 'healthy', released: true },
  ] as const)('AL-3 N-W3: gate $gate and a successor that is already $reached: released=$released', async (row) => {
    const script = scriptedPeer([view('running', { reached: row.reached })]);
    const { clock, settled, control, done, left } = watch(script.peer, { gate: row.gate });
    await turn();
    expect(settled.yes).toBe(row.released);
    control.abort(new Error('enough'));
    await done;
    expect([left(), script.state.open, clock.now()]).toEqual([0, 0, 0]);
  });

  it('AL-3 S60: goes by every sighting, not only the first', async () => {
    const script = scriptedPeer([view('pending'), view('prestarting'), view('prepared', { reached: 'prepared' })]);
    const { settled, done, left } = watch(script.peer);
    await script.next();
    expect(settled.yes).toBe(false);
    await script.next();
    expect((await done).value).toMatchObject({ outcome: 'reached', last: { state: 'prepared' } });
    expect([left(), script.state.open]).toEqual([0, 0]);
  });

  it.each([
    { what: 'ends', steps: [view('prestarting'), view('rejected')] as Step[], state: 'rejected' },
    { what: 'is gone', steps: [view('prestarting'), 'absent'] as Step[], state: 'prestarting' },
    { what: 'is told to stop', steps: [view('running'), view('stopping')] as Step[], state: 'stopping' },
    { what: 'cannot be killed', steps: [view('running'), view('unkillable')] as Step[], state: 'unkillable' },
  ])('AL-4: a successor that $what has missed the gate', async ({ steps, state }) => {
    const script = scriptedPeer(steps);
    const { done, left } = watch(script.peer, { gate: 'healthy' });
    await script.next();
    const { value } = await done;
    expect(value).toMatchObject({
      outcome: 'failed',
      cause: { code: 'ERR_GATE_MISSED', details: { allocId: 'peer', gate: 'healthy', state } },
    });
    expect([left(), script.state.open]).toEqual([0, 0]);
  });

  it('AL-4: 30 minutes without progress are the default patience', async () => {
    const script = scriptedPeer([view('prestarting')]);
    const { clock, settled, done, left } = watch(script.peer);
    await clock.advance(30 * 60_000 - 1);
    expect(settled.yes).toBe(false);
    await clock.advance(1);
    expect((await done).value).toMatchObject({
      outcome: 'deadline',
      waited: 30 * 60_000,
      cause: { code: 'ERR_GATE_MISSED', details: { state: 'prestarting' } },
    });
    expect([left(), script.state.open]).toEqual([0, 0]);
  });

  it('AL-4: slow progress is progress: each change starts the patience anew', async () => {
    const script = scriptedPeer([view('prestarting'), view('prestarting'), view('prestarting'), view('prestarting')]);
    const { clock, settled, done } = watch(script.peer, { deadline: '10m' });
    for (let i = 0; i < 3; i++) {
      await clock.advance(10 * 60_000 - 1);
      await script.next();
    }
    await clock.advance(10 * 60_000 - 1);
    expect(settled.yes).toBe(false);
    await clock.advance(1);
    expect((await done).value).toMatchObject({ outcome: 'deadline', waited: 4 * 10 * 60_000 - 3 });
  });

  it('AL-4: the same view again is no progress, nor is not knowing', async () => {
    const same = view('prestarting');
    const script = scriptedPeer([same, 'unreachable', same, 'throw'], [same]);
    const { clock, done } = watch(script.peer, { deadline: '10m' });
    for (let i = 0; i < 3; i++) {
      await clock.advance('3m');
      await script.next();
    }
    await clock.advance('1m');
    expect((await done).value).toMatchObject({ outcome: 'deadline', waited: 600_000 });
  });

  it('AL-12: a feed that breaks is read again, and is no failure of the successor', async () => {
    const script = scriptedPeer([view('prestarting'), 'throw'], ['end'], [view('prepared', { reached: 'prepared' })]);
    const { clock, done, left } = watch(script.peer);
    await script.next();
    await clock.advance('10s');
    expect((await done).value?.outcome).toBe('reached');
    expect([left(), script.state.watched]).toEqual([0, 3]);
  });

  it.each(['hang', 'deaf'] as const)('G-4: the wait for a feed that says nothing (%s) can be aborted', async (how) => {
    const { done, control, left } = watch(scriptedPeer([how]).peer);
    await turn();
    control.abort(new Error('enough'));
    expect((await done).error).toEqual(new Error('enough'));
    expect(left()).toBe(0);
  });

  it('AL-4: patience never is never', async () => {
    const { clock, settled, control, done } = watch(scriptedPeer([view('prestarting')]).peer, { deadline: 'never' });
    await clock.advance('365d');
    expect(settled.yes).toBe(false);
    control.abort();
    await done;
  });

  it('G-1 G-2: its options are checked', () => {
    const it = scriptedPeer([]).peer;
    expect(() => new NextAllocWatcher(it, { gate: 'ready' as never })).toThrow('gate');
    expect(() => new NextAllocWatcher(it, { deadline: -1 })).toThrow('deadline');
    expect(() => new NextAllocWatcher(it, { onFailed: 'stop' as never })).toThrow('onFailed');
    expect(() => new NextAllocWatcher({ id: 'x' } as never)).toThrow('watch');
    expect(new NextAllocWatcher(it, { gate: undefined, onFailed: undefined })).toMatchObject({
      gate: 'prepared',
      onFailed: 'keep',
    });
  });
});

describe('NextAllocWatcher.lost', () => {
  it.each([
    { steps: [view('prepared', { reached: 'prepared' })] as Step[], lost: false, why: 'it holds' },
    { steps: [view('rejected')] as Step[], lost: true, why: 'it ended' },
    { steps: [view('prestarting')] as Step[], lost: true, why: 'it is below the gate' },
    { steps: ['absent'] as Step[], lost: true, why: 'it is gone' },
    { steps: ['unreachable'] as Step[], lost: true, why: 'it cannot be seen' },
    { steps: ['throw'] as Step[], lost: true, why: 'the feed is broken' },
  ])('AL-3: the gate is a level: lost=$lost, since $why', async ({ steps, lost }) => {
    const clock = new FakeClock();
    const script = scriptedPeer(steps);
    const watcher = new NextAllocWatcher(script.peer, {}, { clock });
    const cause = await clock.until(watcher.lost());
    expect(cause?.code).toBe(lost ? 'ERR_GATE_MISSED' : undefined);
    await turn();
    expect([clock.pending, script.state.open]).toEqual([0, 0]);
  });

  it.each(['hang', 'deaf'] as const)('AL-3: a look that gets no answer (%s) is not waited for long', async (how) => {
    const clock = new FakeClock();
    const watcher = new NextAllocWatcher(scriptedPeer([how]).peer, {}, { clock });
    const { value } = await outcomeOf(clock.until(watcher.lost()));
    expect(value?.code).toBe('ERR_GATE_MISSED');
    // The whole of what comes before a signal has 10 s, of which a look at the target may take 5 s.
    expect(clock.now()).toBeLessThan(5_000);
    expect(clock.pending).toBe(0);
  });
});
