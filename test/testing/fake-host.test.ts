import { describe, expect, it } from 'vitest';
import { HandoverError, type PrestartContext } from 'handover';
import { FakeClock, FakeHost, type FakeSpec } from 'handover/testing';

function world() {
  const clock = new FakeClock();
  const host = new FakeHost({ clock });
  const reported: string[] = [];
  const context = (allocId: string, more: Partial<PrestartContext<FakeSpec>> = {}): PrestartContext<FakeSpec> => ({
    owner: `${allocId}/web`,
    allocId,
    task: 'web',
    spec: { version: 'v1' },
    specHash: 'h1',
    report: ({ phase }) => reported.push(phase),
    ...more,
  });
  const driver = host.driver();
  const started = async (allocId: string, spec: FakeSpec = { version: 'v1' }) =>
    driver.start(await driver.prestart(context(allocId, { spec })), {});
  return { clock, host, driver, context, started, reported };
}

describe('the life of a task', () => {
  it('DP-1 DP-5 is prepared, started, signalled and destroyed, each on record', async () => {
    const { host, driver, context, clock, reported } = world();
    const prepared = await driver.prestart(context('a1'));
    expect([host.running(), host.remains(), reported]).toEqual([[], ['a1/web'], ['downloading', 'done']]);
    const handle = await driver.start(prepared, {});
    expect([host.running(), await handle.isRunning({})]).toEqual([['a1/web'], true]);
    await handle.signal('SIGTERM', {});
    expect(host.running()).toEqual(['a1/web']);
    const exit = await clock.until(handle.wait({}));
    expect(exit).toEqual({ code: 0, signal: null, oom: false, by: 'signal', at: clock.wall() });
    expect([host.running(), host.remains()]).toEqual([[], ['a1/web']]);
    await handle.destroy();
    await handle.destroy();
    expect(host.remains()).toEqual([]);
    expect(host.calls).toEqual([
      ...['prestart a1/web', 'start a1/web', 'signal a1/web SIGTERM', 'exit a1/web', 'destroy a1/web'],
    ]);
    expect(clock.pending).toBe(0);
  });

  it('DP-1 discard undoes once, and nothing after the start', async () => {
    const { host, driver, context } = world();
    const first = await driver.prestart(context('a1'));
    await first.discard();
    await first.discard();
    expect(host.remains()).toEqual([]);
    const second = await driver.prestart(context('a1'));
    await driver.start(second, {});
    await second.discard();
    expect(host.running()).toEqual(['a1/web']);
    expect(host.calls.filter((call) => call.startsWith('discard'))).toEqual(['discard a1/web']);
  });

  it('DP-2 the same spec joins, another discards first; a new driver adopts what is prepared', async () => {
    const { host, driver, context, clock } = world();
    host.script('a1', { prestart: '10s' });
    const [one, two] = await clock.until(Promise.all([context('a1'), context('a1')].map((c) => driver.prestart(c))));
    expect(one).toBe(two);
    await host.driver().prestart(context('a1'));
    expect([host.remains(), clock.now()]).toEqual([['a1/web'], 10_000]);
    await clock.until(host.driver().prestart(context('a1', { specHash: 'h2' })));
    expect([host.remains(), clock.now()]).toEqual([['a1/web'], 20_000]);
    expect(host.calls.filter((call) => call.startsWith('discard'))).toEqual(['discard a1/web']);
  });

  it('DP-2 refuses to prepare beside what runs, and replaces what has ended', async () => {
    const { host, driver, context, started } = world();
    await started('a1');
    await expect(driver.prestart(context('a1'))).rejects.toMatchObject({ code: 'ERR_DRIVER' });
    host.die('a1/web');
    await driver.prestart(context('a1'));
    expect(host.remains()).toEqual(['a1/web']);
    expect((await driver.list({})).map((task) => task.started)).toEqual([false]);
  });

  it('DP-3 an aborted prestart rejects with the reason and leaves nothing', async () => {
    const { host, driver, context, clock } = world();
    host.script('a1/web', { prestart: 'hang' });
    const abort = new AbortController();
    const hanging = driver.prestart(context('a1', { signal: abort.signal }));
    await clock.advance('30d');
    const reason = new Error('called off');
    abort.abort(reason);
    await expect(hanging).rejects.toBe(reason);
    expect([host.remains(), clock.pending]).toEqual([[], 0]);
  });

  it('AL-3 what somebody pruned is not intact and does not start', async () => {
    const { host, driver, context } = world();
    const prepared = await driver.prestart(context('a1'));
    expect(await prepared.intact({})).toBe(true);
    host.prune('a1/web');
    expect(await prepared.intact({})).toBe(false);
    await expect(driver.start(prepared, {})).rejects.toMatchObject({ code: 'ERR_START_FAILED' });
    expect(() => host.prune('a1/web')).toThrow('not prepared');
  });

  it('DP-7 one running task holds a fixed port; the other is prepared but does not start', async () => {
    const { host, driver, context, started } = world();
    const spec = { version: 'v1', port: 8080 };
    expect(driver.exclusive(spec)).toEqual([{ kind: 'port', key: '8080/tcp', scope: 'host', needed: 'start' }]);
    expect(driver.exclusive({ version: 'v1' })).toEqual([]);
    const first = await started('a1', spec);
    const second = await driver.prestart(context('a2', { spec }));
    await expect(driver.start(second, {})).rejects.toThrow('a2/web did not start: port 8080/tcp is held by a1/web');
    host.die('a1/web');
    const handle = await driver.start(second, {});
    expect([first.endpoints, handle.endpoints]).toEqual([
      { http: { address: '127.0.0.1', port: 8080 } },
      { http: { address: '127.0.0.1', port: 8080 } },
    ]);
  });

  it('DP-7 tasks without a fixed port get one each', async () => {
    const { started } = world();
    const ports = [await started('a1'), await started('a2')].map((handle) => handle.endpoints['http']?.port);
    expect(new Set(ports).size).toBe(2);
  });

  it('DP-8 is found again by its state, by a driver of the same name only', async () => {
    const { host, started, clock } = world();
    const handle = await started('a1');
    const state = JSON.parse(JSON.stringify(handle.state)) as { id: string };
    const again = await host.driver().recover(state, { owner: 'a1/web' });
    expect(await again?.isRunning({})).toBe(true);
    expect(await host.driver('other').recover(state, { owner: 'a1/web' })).toBeUndefined();
    expect(await host.driver('other').list({})).toEqual([]);
    host.die('a1/web', { oom: true });
    expect(await clock.until(again!.wait({}))).toMatchObject({ code: 1, oom: true, by: 'self' });
    await again?.destroy();
    expect(await host.driver().recover(state, { owner: 'a1/web' })).toBeUndefined();
  });

  it('destroy refuses what runs', async () => {
    const { host, started } = world();
    const handle = await started('a1');
    await expect(handle.destroy()).rejects.toMatchObject({ code: 'ERR_DRIVER' });
    expect(host.running()).toEqual(['a1/web']);
  });
});

describe('scripts', () => {
  it('a task may end by itself, slowly, unwillingly or not at all', async () => {
    const { host, clock, started } = world();
    host.script('self', { exitAfter: '5s', exit: { code: 3 } });
    host.script('slow', { exitDelay: '7s' });
    host.script('deaf', { ignores: ['SIGTERM'] });
    host.script('stuck', { ignores: ['SIGTERM', 'SIGKILL'] });
    const handles = await Promise.all(['self', 'slow', 'deaf', 'stuck'].map((id) => started(id)));
    for (const handle of handles.slice(1)) await handle.signal('SIGTERM', {});
    await clock.advance(4_999);
    expect(host.running()).toEqual(['self/web', 'slow/web', 'deaf/web', 'stuck/web']);
    await clock.advance(1);
    expect(await handles[0]?.wait({})).toMatchObject({ code: 3, by: 'self', at: clock.wall() });
    await handles[1]?.signal('SIGTERM', {});
    await clock.advance(2_000);
    expect(host.running()).toEqual(['deaf/web', 'stuck/web']);
    for (const handle of handles) await handle.kill({});
    await clock.advance(0);
    expect(host.running()).toEqual(['stuck/web']);
    expect(await handles[2]?.wait({})).toMatchObject({ code: null, signal: 'SIGKILL', by: 'kill' });
    expect(host.calls.filter((call) => call.startsWith('exit'))).toEqual([
      'exit self/web',
      'exit slow/web',
      'exit deaf/web',
    ]);
  });

  it('a kill ends what is still thinking about its SIGTERM', async () => {
    const { host, clock, started } = world();
    host.script('a1', { exitDelay: '1h' });
    const handle = await started('a1');
    await handle.signal('SIGTERM', {});
    await handle.kill({});
    expect(await clock.until(handle.wait({}))).toMatchObject({ by: 'kill' });
    expect([clock.now(), clock.pending]).toEqual([0, 0]);
  });

  it('prestart and start take their time, or fail, and a retry may go well', async () => {
    const { host, driver, context, clock } = world();
    const typo = new HandoverError('ERR_PULL_FAILED', 'no such tag', {
      details: { reference: 'app:v9', reason: 'not-found-or-denied', attempts: 1 },
    });
    host.script('a1', { prestart: typo });
    await expect(driver.prestart(context('a1'))).rejects.toBe(typo);
    expect(host.remains()).toEqual([]);
    host.script('a1', { prestart: '3s', start: '2s' });
    const prepared = await clock.until(driver.prestart(context('a1')));
    expect(clock.now()).toBe(3_000);
    const handle = await clock.until(driver.start(prepared, {}));
    expect([clock.now(), await handle.isRunning({})]).toEqual([5_000, true]);
    host.script('a2', { start: typo });
    await expect(driver.start(await driver.prestart(context('a2')), {})).rejects.toBe(typo);
    expect(host.running()).toEqual(['a1/web']);
  });

  it("a task's script goes before its alloc's", async () => {
    const { host, clock, started } = world();
    host.script('a1/web', { exitDelay: '1s' });
    host.script('a1', { exitDelay: '9s', exit: { code: 4 } });
    const handle = await started('a1');
    await handle.signal('SIGTERM', {});
    expect(await clock.until(handle.wait({}))).toMatchObject({ code: 4 });
    expect(clock.now()).toBe(1_000);
  });

  it.each([
    { script: { exit: null }, path: 'script.exit' },
    { script: { exit: new Map() }, path: 'script.exit' },
    { script: { exitafter: '1s' }, path: 'script.exitafter' },
    { script: { exitAfter: '1' }, path: 'script.exitAfter' },
    { script: { prestart: 'hung' }, path: 'script.prestart' },
    { script: { ignores: 'SIGTERM' }, path: 'script.ignores' },
  ])('G-2 refuses a script that says nothing it knows: $path', ({ script, path }) => {
    expect(() => world().host.script('a1', script as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }),
    );
  });

  it('die() of what does not run is a mistake of the test', () => {
    expect(() => world().host.die('a1/web')).toThrow('FakeHost: a1/web is not running; it is not there');
  });
});

describe('the spec', () => {
  it.each([
    [{}, 'version'],
    [{ version: '' }, 'version'],
    [{ version: 'v1', port: 0 }, 'port'],
    [{ version: 'v1', port: 65_536 }, 'port'],
    [{ version: 'v1', prot: 1 }, 'prot'],
    ['v1', '(options)'],
  ])('G-2 %j is refused, naming %s', (input, path) => {
    expect(() => world().driver.parse(input)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }),
    );
  });

  it('G-2 a good spec comes out as it went in', () => {
    expect(world().driver.parse({ version: 'v1', port: 80 })).toEqual({ version: 'v1', port: 80 });
    expect(world().driver.parse({ version: 'v1', port: undefined })).toEqual({ version: 'v1' });
  });
});
