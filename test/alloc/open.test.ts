import { describe, expect, it } from 'vitest';
import { AllocLifecycle, memoryFeed, replace } from 'handover';
import { turn } from './scripted-peer.js';
import { SERVED, type World, outcomeOf, world } from './world.js';

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

describe('open, with what was only prepared', () => {
  const leftover = async (version = 'a') => {
    const w = world();
    const before = w.alloc('a', {}, { version });
    await before.prestart();
    await before.detach();
    const driver = w.host.driver();
    const prestart = driver.prestart.bind(driver);
    const hashes: string[] = [];
    driver.prestart = (ctx) => {
      hashes.push(ctx.specHash);
      return prestart(ctx);
    };
    const [listed] = await driver.list({});
    const a = await AllocLifecycle.open({ id: 'a', tasks: [{ name: 'web', driver, spec: { version: 'a' } }] }, w.env);
    return { ...w, a, hashes, listed };
  };

  it.each(['a', 'another'])('DP-2 ST-2: shown, and removed by discard(): spec %s', async (version) => {
    const w = await leftover(version);
    expect(w.a.status()).toMatchObject({ state: 'pending', tasks: { web: { phase: 'prepared' } } });
    expect(w.host.remains()).toEqual(['a/web']);
    await w.a.discard();
    expect([w.a.state, w.host.remains(), w.clock.pending]).toEqual(['discarded', [], 0]);
    expect(w.host.calls.filter((call) => call.startsWith('start'))).toEqual([]);
    // Taken over as what it is, so that nothing is made in its place.
    expect(w.hashes).toEqual([w.listed?.specHash]);
  });

  it('ST-2: removed by stop() as well', async () => {
    const w = await leftover();
    await w.clock.until(w.a.stop({ reason: 'operator' }).result);
    expect([w.a.state, w.host.remains()]).toEqual(['discarded', []]);
  });

  it('ST-2: nothing is made or fetched for one that cannot be taken over', async () => {
    const w = await leftover();
    const driver = w.host.driver();
    let aborted = false;
    driver.prestart = async ({ signal, report }) => {
      w.host.prune('a/web');
      report({ phase: 'downloading', attempt: 1, bytes: { done: 0 } });
      aborted = signal?.aborted === true;
      throw signal?.reason;
    };
    const a = await AllocLifecycle.open(
      { id: 'a', tasks: [{ name: 'web', driver, spec: { version: 'a' } }] },
      { ...w.env },
    );
    await a.discard();
    expect([a.state, aborted, w.host.remains()]).toEqual(['discarded', true, []]);
  });

  it('ST-2: one whose removal cannot be confirmed is tried again', async () => {
    const w = await leftover();
    const driver = w.host.driver();
    const prestart = driver.prestart.bind(driver);
    let tries = 0;
    driver.prestart = async (ctx) => {
      if (++tries < 3) throw new Error('the engine does not answer');
      return prestart(ctx);
    };
    const a = await AllocLifecycle.open({ id: 'a', tasks: [{ name: 'web', driver, spec: { version: 'a' } }] }, w.env);
    await w.clock.until(a.discard());
    expect([tries, w.host.remains()]).toEqual([3, []]);
  });

  it('ST-2: destroy() removes what a prestart that failed early has left', async () => {
    const w = await leftover();
    const driver = w.host.driver();
    const prestart = driver.prestart.bind(driver);
    driver.prestart = () => Promise.reject(new Error('the engine does not answer'));
    const a = await AllocLifecycle.open({ id: 'a', tasks: [{ name: 'web', driver, spec: { version: 'a' } }] }, w.env);
    await outcomeOf(a.prestart());
    expect([a.state, w.host.remains()]).toEqual(['rejected', ['a/web']]);
    driver.prestart = prestart;
    await a.destroy();
    expect(w.host.remains()).toEqual([]);
  });

  it('DP-2: of a new one that was not opened nothing is asked', async () => {
    const w = world();
    await w.alloc('a').discard();
    expect(w.host.calls).toEqual([]);
  });
});

describe('open, with another spec', () => {
  const opened = async (end: boolean) => {
    const w = world();
    const before = await w.running('a', SERVED, { version: 'old' });
    await before.detach();
    if (end) w.host.die('a/web');
    const tasks = [{ name: 'web', driver: w.host.driver(), spec: { version: 'new' } }];
    const a = await AllocLifecycle.open({ id: 'a', tasks, ...SERVED }, w.env);
    return { ...w, a };
  };

  it('DP-2: what runs goes on, and it is told that it is another one', async () => {
    const w = await opened(false);
    expect(w.a.status()).toMatchObject({ state: 'running', reason: { code: 'spec-differs' } });
    expect(w.a.status().reason.message).toContain('runs from another spec');
    const warnings = w.log.events.flatMap((event) => (event.type === 'warning' ? [event.reason.code] : []));
    expect(warnings).toEqual(['spec-differs']);
    expect(w.host.calls).toEqual(['prestart a/web', 'start a/web']);
  });

  it('DP-2: the same spec is no warning', async () => {
    const w = world();
    await (await w.running('a', SERVED)).detach();
    const tasks = [{ name: 'web', driver: w.host.driver(), spec: { version: 'a' } }];
    const a = await AllocLifecycle.open({ id: 'a', tasks, ...SERVED }, w.env);
    expect(a.status().reason.code).toBe('recovered');
    expect(w.log.types()).not.toContain('warning');
  });

  it('DP-2: one that has ended meanwhile is told as well', async () => {
    const w = await opened(true);
    expect(w.a.state).toBe('failed');
    expect(JSON.stringify(w.log.events)).toContain('ran from another spec');
  });

  it('DP-2: and a replacement by a new alloc of that id is refused', async () => {
    const w = await opened(false);
    const same = w.alloc('a', {}, { version: 'new' });
    const { error } = await outcomeOf(replace(w.a, same));
    expect(error).toMatchObject({ code: 'ERR_INVALID_OPTION', details: { path: 'next.id' } });
    expect(w.host.running()).toEqual(['a/web']);
  });
});

describe('what others see of one that is opened', () => {
  it('AL-12: never that it is pending, if it runs', async () => {
    const feed = memoryFeed();
    const seen: string[] = [];
    const w = world({ feed: { ...feed, publish: (view) => void seen.push(`${view.state} ${view.reached}`) } });
    await (await w.running('a')).detach();
    seen.length = 0;
    const tasks = [{ name: 'web', driver: w.host.driver(), spec: { version: 'a' } }];
    await (await AllocLifecycle.open({ id: 'a', tasks }, w.env)).detach();
    expect([...new Set(seen)]).toEqual(['running prepared']);
    seen.length = 0;
    await AllocLifecycle.open({ id: 'c', tasks }, w.env);
    expect(seen).toEqual(['pending none']);
  });
});
