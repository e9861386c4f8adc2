import { describe, expect, it } from 'vitest';
import { AllocLifecycle, NextAllocWatcher, PrevAllocWatcher, memoryFeed } from 'handover';
import { scriptedPeer, turn, view } from './scripted-peer.js';
import { SERVED, type World, outcomeOf, world } from './world.js';

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
    const a = w.alloc('a', { ...SERVED, health: { checks: [{ name: 'up', type: 'tcp', port: 'none' }] } });
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
});

describe('open', () => {
  const spec = (w: World) => ({
    id: 'a',
    tasks: [{ name: 'web', driver: w.host.driver(), spec: { version: 'a' } }],
    ...SERVED,
  });

  it('AL-1: new, if the driver does not know it', async () => {
    const w = world();
    await w.running('b');
    const a = await AllocLifecycle.open(spec(w), w.env);
    expect([a.state, w.host.calls]).toEqual(['pending', ['prestart b/web', 'start b/web']]);
  });

  it('DP-2: what is only prepared is new, and adopted by its prestart', async () => {
    const w = world();
    const before = w.alloc('a');
    await before.prestart();
    await before.detach();
    const a = await AllocLifecycle.open(spec(w), w.env);
    expect(a.state).toBe('pending');
    await a.prestart();
    expect(w.host.remains()).toEqual(['a/web']);
  });

  it('AL-1: a running one is taken up again: watched, checked, registered, stopped', async () => {
    const w = world();
    await (await w.running('a', SERVED)).detach();
    await w.registrar.deregister(w.registrar.registered.get('web-a-web-http')!, {});
    const a = await AllocLifecycle.open(spec(w), w.env);
    expect(a.status()).toMatchObject({ state: 'running', tasks: { web: { phase: 'running' } }, health: 'passing' });
    await w.clock.until(a.until('healthy'));
    expect(w.registered()).toEqual(['web-a-web-http']);
    await a.start();
    expect(w.host.calls).toEqual(['prestart a/web', 'start a/web']);
    const { outcome } = await w.clock.until(a.stop({ reason: 'operator' }).result);
    expect([outcome, a.state, w.registered(), w.clock.pending]).toEqual(['stopped', 'stopped', [], 0]);
    await a.destroy();
    expect(w.host.remains()).toEqual([]);
  });

  it.each([
    { exit: { code: 0 }, state: 'complete' },
    { exit: { code: 1 }, state: 'failed' },
  ])('AL-1: one that ended meanwhile is $state, and taken off the registry, never on', async ({ exit, state }) => {
    const w = world();
    await (await w.running('a', SERVED)).detach();
    w.host.die('a/web', exit);
    const from = w.registrar.calls.length;
    const a = await AllocLifecycle.open(spec(w), w.env);
    await turn();
    expect([a.state, w.registered()]).toEqual([state, []]);
    expect(w.registrar.calls.slice(from)).toEqual(['deregister web-a-web-http']);
    expect(w.clock.pending).toBe(0);
    await a.destroy();
    expect(w.host.remains()).toEqual([]);
  });

  it('G-4: an open that fails leaves nothing going on', async () => {
    const w = world();
    await (await w.running('a', SERVED)).detach();
    const driver = w.host.driver();
    const recover = driver.recover.bind(driver);
    driver.recover = async (state, call) => {
      const handle = (await recover(state, call))!;
      handle.isRunning = () => Promise.reject(new Error('the engine does not answer'));
      return handle;
    };
    const opened = AllocLifecycle.open({ ...spec(w), tasks: [{ name: 'web', driver, spec: { version: 'a' } }] }, w.env);
    expect((await outcomeOf(opened)).error).toEqual(new Error('the engine does not answer'));
    expect(w.clock.pending).toBe(0);
  });
});

describe('open, cancelled', () => {
  it('G-4: while the end of one that does not run any more is waited for', async () => {
    const w = world();
    await (await w.running('a')).detach();
    w.host.die('a/web');
    const driver = w.host.driver();
    const recover = driver.recover.bind(driver);
    driver.recover = async (state, call) => {
      const handle = (await recover(state, call))!;
      handle.wait = () => Promise.reject(new Error('the connection broke'));
      return handle;
    };
    const control = new AbortController();
    const tasks = [{ name: 'web', driver, spec: { version: 'a' } }];
    const opened = outcomeOf(AllocLifecycle.open({ id: 'a', tasks }, w.env, { signal: control.signal }));
    await w.clock.advance('10s');
    expect(w.clock.pending).toBe(1);
    control.abort(new Error('enough'));
    expect((await opened).error).toEqual(new Error('enough'));
    expect(w.clock.pending).toBe(0);
  });
});

describe('the feed', () => {
  it('AL-12: an alloc with a feed publishes each change, readable before it is told', async () => {
    const feed = memoryFeed();
    const w = world();
    const seen: string[] = [];
    const publish = feed.publish?.bind(feed);
    const alloc = w.alloc(
      'a',
      {},
      {},
      {
        feed: {
          ...feed,
          publish: (view) => {
            seen.push(`${view.state}${view.revision === alloc.status().revision ? '' : ' (not readable)'}`);
            publish?.(view);
          },
        },
      },
    );
    await w.clock.until(alloc.start());
    expect([...new Set(seen)]).toEqual(['prestarting', 'prepared', 'starting', 'running']);
    const first = await feed.watch('a', {})[Symbol.asyncIterator]().next();
    expect(first.value).toMatchObject({ seen: { id: 'a', state: 'running', reached: 'prepared', terminal: false } });
    expect(Object.keys((first.value as { seen: object }).seen).sort()).toEqual([
      ...['exclusive', 'id', 'reached', 'revision', 'state', 'stopBudget', 'terminal'],
    ]);
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-12: a feed that throws is a warning, and in nobody’s way', async () => {
    const w = world();
    const publish = (): void => {
      throw new Error('the bus is down');
    };
    const a = w.alloc('a', {}, {}, { feed: { ...memoryFeed(), publish } });
    await w.clock.until(a.start());
    expect(a.state).toBe('running');
    expect(JSON.stringify(w.log.events)).toContain('the bus is down');
    expect(await w.leftovers()).toBe(0);
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
