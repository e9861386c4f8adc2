import { describe, expect, it } from 'vitest';
import { AllocLifecycle, type Call, type Duration, NextAllocWatcher, PrevAllocWatcher } from 'handover';
import { deferred } from '../../src/internal/deferred.js';
import { after } from '../shutdown/stage.js';
import { scriptedPeer, turn, view } from './scripted-peer.js';
import { SERVED, type World, outcomeOf, world } from './world.js';

const UNDECIDED = { ...SERVED, health: { checks: [{ name: 'up', type: 'custom' }] } } as const;

/** How to bring an alloc `a` into each state. */
const BRING: Readonly<Record<string, (w: World) => Promise<AllocLifecycle>>> = {
  pending: async (w) => w.alloc('a'),
  prestarting: async (w) => {
    w.host.script('a', { prestart: 'hang' });
    const a = w.alloc('a');
    void outcomeOf(a.prestart());
    return a;
  },
  prepared: async (w) => {
    const a = w.alloc('a');
    await a.prestart();
    return a;
  },
  waiting: async (w) => {
    const a = w.alloc('a');
    void outcomeOf(a.start({ after: new PrevAllocWatcher(scriptedPeer([view('draining')]).peer, {}, w.env) }));
    return a;
  },
  starting: async (w) => {
    w.host.script('a', { start: '1h' });
    const a = w.alloc('a');
    void outcomeOf(a.start());
    return a;
  },
  running: async (w) => {
    const a = w.alloc('a', UNDECIDED, {}, { checks: { up: async () => false } });
    await a.start();
    return a;
  },
  held: async (w) => {
    const a = await w.running('a', SERVED);
    const after = new NextAllocWatcher(scriptedPeer([view('prestarting')]).peer, {}, w.env);
    a.stop({ reason: 'replaced', after });
    return a;
  },
  draining: async (w) => {
    const a = await w.running('a', { ...SERVED, shutdown: { shutdownDelay: '1h' } });
    a.stop({ reason: 'operator' });
    return a;
  },
  stopping: async (w) => {
    w.host.script('a', { exitDelay: '1h' });
    const a = await w.running('a', { ...SERVED, shutdown: { killTimeout: '2h' } });
    a.stop({ reason: 'operator' });
    return a;
  },
  unkillable: async (w) => {
    w.host.script('a', { ignores: ['SIGTERM', 'SIGKILL'] });
    const a = await w.running('a', SERVED);
    await w.clock.until(a.stop({ reason: 'operator' }).result);
    return a;
  },
  failed: async (w) => {
    const a = await w.running('a', SERVED);
    w.registrar.failNext(100);
    w.host.die('a/web');
    return a;
  },
};

/** Lets go of an alloc around the moment in which its start lands, and tells whether its handle was told. */
async function detachedAfterStart(landed: (a: AllocLifecycle) => unknown, late: Duration = 0) {
  const w = world();
  w.host.script('a', { start: late });
  const start = w.driver.start.bind(w.driver);
  const signals: (AbortSignal | undefined)[] = [];
  w.driver.start = async (prepared, call) => {
    const handle = await start(prepared, call);
    const wait = handle.wait.bind(handle);
    Object.assign(handle, {
      wait: (wanted: Call) => {
        signals.push(wanted.signal);
        return wait(wanted);
      },
    });
    void landed(a);
    return handle;
  };
  const a = w.alloc('a');
  const started = outcomeOf(a.start());
  await turn();
  if (late !== 0) await a.detach();
  await w.clock.until(started);
  await w.clock.advance(late);
  await turn();
  return { w, released: signals.length > 0 && signals.every((signal) => signal?.aborted === true) };
}

describe('detach', () => {
  it.each(Object.keys(BRING))('G-4 SS-14: in state %s: no timer is left, nothing is sent or undone', async (state) => {
    const w = world();
    const a = await BRING[state]!(w);
    await turn();
    expect(a.state).toBe(state);
    // What the fake host itself has armed (an exit or a start that is on its way) is the world's, not the alloc's.
    const theWorlds = state === 'stopping' || state === 'starting' ? 1 : 0;
    const { stopping } = a;
    const [calls, remains, registered] = [w.host.calls, w.host.remains(), w.registered()];
    await a.detach();
    await a.detach();
    expect(w.clock.pending).toBe(theWorlds);
    if (stopping !== undefined && state !== 'unkillable') expect((await stopping.result).outcome).toBe('detached');
    await w.clock.advance('30m');
    expect([w.host.calls, w.host.remains(), w.registered()]).toEqual([calls, remains, registered]);
    expect(a.state).toBe(state);
    expect(w.log.events.filter((event) => event.type === 'replace:ended')).toEqual([]);
  });

  it('G-4: whoever waits is told, and nothing more can be done with it', async () => {
    const w = world();
    w.host.script('a', { prestart: 'hang' });
    const a = w.alloc('a');
    const waits = [a.prestart(), a.start(), a.until('running')].map(async (one) => outcomeOf<unknown>(one));
    await turn();
    await a.detach();
    for (const wait of waits) expect((await wait).error).toMatchObject({ code: 'ERR_DETACHED' });
    for (const more of [a.prestart(), a.start(), a.discard(), a.until('terminal')]) {
      expect((await outcomeOf<unknown>(more)).error).toMatchObject({ code: 'ERR_DETACHED' });
    }
    expect(await a.stop({ reason: 'operator' }).result).toEqual({ outcome: 'detached', tasks: [] });
  });

  it('G-4: at whatever moment it comes, nothing goes on or is undone after it', async () => {
    const seen = new Set<string>();
    for (let turns = 0; turns < 60; turns++) {
      const w = world();
      const a = w.alloc('a', SERVED);
      void outcomeOf(a.start());
      for (let i = 0; i < turns; i++) await Promise.resolve();
      await a.detach();
      const { calls } = w.host;
      await turn();
      await w.clock.advance('1m');
      if (a.state !== 'prestarting') expect(w.host.calls.slice(calls.length)).toEqual([]);
      // Half of a preparation is the driver's own to undo.
      if (a.state !== 'prestarting') expect(w.host.calls.join()).not.toContain('discard');
      expect(w.clock.pending, `${turns} turns`).toBe(0);
      seen.add(a.state);
    }
    expect([...seen]).toEqual(['prestarting', 'prepared', 'starting', 'running'].filter((state) => seen.has(state)));
    expect(seen.size).toBeGreaterThan(2);
  });

  it('G-4: a prepared one stays prepared, a running one is not stopped', async () => {
    const w = world();
    const [a, b] = [w.alloc('a'), await w.running('b', SERVED)];
    await a.prestart();
    await Promise.all([a.detach(), b.detach()]);
    expect((await outcomeOf(a.start())).error).toMatchObject({ code: 'ERR_DETACHED' });
    expect(await b.stop({ reason: 'operator' }).result).toMatchObject({ outcome: 'detached' });
    expect([w.host.remains(), w.host.running(), w.registered()]).toEqual([
      ['b/web', 'a/web'],
      ['b/web'],
      ['web-b-web-http'],
    ]);
  });

  it.each(['alloc:changed', 'alloc:health'] as const)(
    'G-4: in a listener of %s, as it comes to run: no timer is left',
    async (type) => {
      const w = world();
      const a = w.alloc('a', SERVED);
      a.on(type, ({ alloc }) => {
        if (alloc.state === 'running') void a.detach();
      });
      await w.clock.until(outcomeOf(a.start()));
      await turn();
      expect([a.state, w.clock.pending, w.registered()]).toEqual(['running', 0, []]);
    },
  );

  it('G-4: at whatever moment after its start has landed, its handle is let go of', async () => {
    for (let turns = 0; turns < 25; turns++) {
      const { released } = await detachedAfterStart((a) => after(turns, () => void a.detach()));
      expect([turns, released]).toEqual([turns, true]);
    }
  });

  it('G-4: so is that of a start which lands after it', async () => {
    const { released, w } = await detachedAfterStart(() => undefined, '1m');
    expect([released, w.host.running()]).toEqual([true, ['a/web']]);
  });

  it('G-4: while its discard hangs: it is still prepared, whoever discards it is told, and nothing is warned of', async () => {
    const w = world();
    const prestart = w.driver.prestart.bind(w.driver);
    w.driver.prestart = async (ctx) =>
      Object.assign(await prestart(ctx), { discard: () => new Promise<never>(() => undefined) });
    const a = w.alloc('a');
    await a.prestart();
    const done = outcomeOf(a.discard());
    await turn();
    await a.detach();
    expect((await done).error).toMatchObject({ code: 'ERR_DETACHED' });
    expect([a.state, w.host.remains(), w.clock.pending]).toEqual(['prepared', ['a/web'], 0]);
    expect(w.log.types()).not.toContain('warning');
  });

  it('G-4 AL-3: while it is looked at whether what it prepared is still there: nothing is told of it any more', async () => {
    const w = world();
    const gate = deferred<boolean>();
    const prestart = w.driver.prestart.bind(w.driver);
    w.driver.prestart = async (ctx) => Object.assign(await prestart(ctx), { intact: () => gate.promise });
    const a = w.alloc('a');
    await a.prestart();
    const looked = outcomeOf(a.watch()[Symbol.asyncIterator]().next());
    await turn();
    gate.resolve(false);
    await a.detach();
    expect((await looked).error).toMatchObject({ code: 'ERR_DETACHED' });
    expect(a.state).toBe('prepared');
  });

  it('G-7: an end stays true', async () => {
    const w = world();
    const a = await w.running('a');
    await w.clock.until(a.stop({ reason: 'operator' }).result);
    await a.detach();
    expect(await a.until('terminal')).toMatchObject({ state: 'stopped' });
    expect((await outcomeOf(a.until('healthy'))).error).toMatchObject({ code: 'ERR_ALLOC_ENDED' });
    expect((await outcomeOf(a.start())).error).toMatchObject({ code: 'ERR_ALLOC_ENDED' });
    expect((await a.stop({ reason: 'operator' }).result).outcome).toBe('stopped');
  });

  it('G-4: a start that is on its way lands, and is found again', async () => {
    const w = world();
    w.host.script('a', { start: '1m' });
    const a = w.alloc('a');
    const started = outcomeOf(a.start());
    await turn();
    await a.detach();
    expect((await started).error).toMatchObject({ code: 'ERR_DETACHED' });
    await w.clock.advance('2m');
    expect(w.host.running()).toEqual(['a/web']);
    expect(w.host.calls.filter((call) => /^(signal|kill|discard|destroy)/.test(call))).toEqual([]);
    expect((await AllocLifecycle.open(a.spec, a.env)).state).toBe('running');
  });
});
