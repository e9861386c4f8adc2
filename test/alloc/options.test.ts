import { describe, expect, it } from 'vitest';
import { AllocLifecycle, type AllocSettings, NextAllocWatcher, PrevAllocWatcher, memoryFeed } from 'handover';
import { SERVED, outcomeOf, world } from './world.js';

describe('options', () => {
  const make = (spec: object): (() => AllocLifecycle) => {
    const w = world();
    const tasks = [{ name: 'web', driver: w.driver, spec: { version: 'v1' } }];
    return () => new AllocLifecycle({ id: 'a', tasks, ...spec } as never, w.env);
  };
  const { driver } = world();
  const task = { name: 'web', driver, spec: { version: 'v1' } };

  it.each([
    { spec: { id: '' }, path: 'id' },
    { spec: { id: 'a/b' }, path: 'id' },
    { spec: { tasks: [] }, path: 'tasks' },
    { spec: { tasks: [task, { ...task, name: 'two' }] }, path: 'tasks' },
    { spec: { tasks: [{ ...task, spec: { verion: 'v1' } }] }, path: /^tasks\.0\.spec\./ },
    { spec: { tasks: [{ ...task, driver: {} }] }, path: 'tasks.0.driver' },
    { spec: { services: [{ service: 'web', task: 'db', port: 'http' }] }, path: 'services.0.task' },
    {
      spec: { services: [1, 2].map(() => ({ service: 'web', task: 'web', port: 'http' })) },
      path: 'services.1',
    },
    { spec: { shutdown: { killTimeout: '5' } }, path: 'shutdown.killTimeout' },
    { spec: { shutdown: { killTimout: '5s' } }, path: 'shutdown.killTimout' },
    { spec: { prestart: { timeout: 'soon' } }, path: 'prestart.timeout' },
    { spec: { restart: {} }, path: 'restart' },
  ])('G-2 $path is refused at construction', ({ spec, path }) => {
    const details = { path: typeof path === 'string' ? path : (expect.stringMatching(path) as string) };
    expect(make(spec)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_OPTION', details }));
  });

  it('G-2: nothing is touched by making one, and absent, {} and undefined give the same', async () => {
    const w = world();
    const a = w.alloc('a', { health: {}, shutdown: undefined, prestart: {} });
    expect([a.state, w.host.calls, w.clock.pending]).toEqual(['pending', [], 0]);
    expect(a.status()).toMatchObject({ reached: 'none', terminal: false, health: 'none', registered: [], wait: null });
    expect(a.status().stopBudget).toBe(w.alloc('b').status().stopBudget);
    expect(JSON.parse(JSON.stringify(a))).toEqual(JSON.parse(JSON.stringify(a.status())));
  });
});

describe('AL-9 options', () => {
  const make = (health: unknown): (() => AllocLifecycle) => {
    const w = world();
    return () => w.alloc('a', { health } as AllocSettings);
  };

  it.each([
    { health: { checks: [{ name: 'up', type: 'custom' }] }, path: 'health.checks.0', why: 'no function' },
    { health: { checks: [{ name: 'up', type: 'ping' }] }, path: 'health.checks.0.type', why: 'no such type' },
    { health: { checks: [{ name: 'up', type: 'http', port: 'http' }] }, path: 'health.checks.0.path', why: 'no path' },
    {
      health: { checks: [{ name: 'up', type: 'http', port: 'http', path: 'health' }] },
      path: 'health.checks.0.path',
      why: 'no slash',
    },
    {
      health: { checks: [{ name: 'up', type: 'tcp', port: 'http', interval: 0 }] },
      path: 'health.checks.0.interval',
      why: 'no pause',
    },
    {
      health: { checks: ['up', 'up'].map((name) => ({ name, type: 'tcp', port: 'http' })) },
      path: 'health.checks.1.name',
      why: 'the same name twice',
    },
    { health: { minHealthyTime: '10' }, path: 'health.minHealthyTime', why: 'no unit' },
    { health: { minHealthyTime: '10m' }, path: 'health.healthyDeadline', why: 'shorter than the window' },
    { health: { minHealthy: 1 }, path: 'health.minHealthy', why: 'unknown' },
  ])('G-2 $path is refused: $why', ({ health, path }) => {
    expect(make(health)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }));
  });
});

describe('ports that the task does not have', () => {
  const checks = [{ name: 'up', type: 'tcp', port: 'admin' }] as const;

  it.each([
    {
      path: 'services.1.port',
      settings: { services: [...SERVED.services!, { service: 'b', task: 'web', port: 'b' }] },
    },
    { path: 'health.checks.0.port', settings: { health: { checks } } },
  ])('G-2: $path is refused at construction', ({ path, settings }) => {
    const w = world();
    expect(() => w.alloc('a', settings)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }),
    );
    expect(() => w.alloc('a', settings)).toThrow(/it has http/);
  });

  it('AL-9: of a driver that cannot tell, a check of such a port is a verdict as soon as it runs', async () => {
    const w = world();
    w.hidePorts();
    const a = w.alloc('a', { health: { checks } });
    await w.clock.until(a.start());
    const { error } = await outcomeOf(a.until('healthy'));
    expect(error).toMatchObject({ code: 'ERR_UNHEALTHY', details: { checks: ['up'] } });
    expect((error as Error).message).toContain('has no port admin');
    expect(await w.leftovers()).toBe(0);
  });
});

describe('what is no argument', () => {
  const refused = async (path: string, call: (a: AllocLifecycle) => unknown) => {
    const w = world();
    const a = w.alloc('a');
    const { error } = await outcomeOf(Promise.resolve().then(() => call(a)));
    expect(error).toMatchObject({ code: 'ERR_INVALID_OPTION', details: { path } });
    expect([a.state, w.host.calls, w.clock.pending]).toEqual(['pending', [], 0]);
  };
  const spec = { id: 'a', tasks: [{ name: 'web', driver: world().driver, spec: { version: 'v1' } }] };
  const seen = { id: 'b', watch: () => memoryFeed().watch('b', {}) };

  it.each([
    ['env', () => new AllocLifecycle(spec, null as never)],
    ['env', () => new AllocLifecycle(spec, 5 as never)],
    ['env', () => AllocLifecycle.open(spec, null as never)],
    ['env.feed', () => new AllocLifecycle(spec, { feed: {} as never })],
    ['env.feed.publish', () => new AllocLifecycle(spec, { feed: { ...memoryFeed(), publish: 5 as never } })],
    ['env.checks.a', () => new AllocLifecycle(spec, { checks: { a: 5 as never } })],
    ['env.checks', () => new AllocLifecycle(spec, { checks: null as never })],
    ['env.hooks.preStop', () => new AllocLifecycle(spec, { hooks: { preStop: 1 as never } })],
    ['(options)', () => new AllocLifecycle(undefined as never)],
    ['signal', () => AllocLifecycle.open(spec, {}, { signal: 5 as never })],
    ['goal', (a: AllocLifecycle) => a.until(undefined as never)],
    ['goal', (a: AllocLifecycle) => a.until('toString' as never)],
    ['signal', (a: AllocLifecycle) => a.until('healthy', { signal: {} as never })],
    ['timeout', (a: AllocLifecycle) => a.until('healthy', { timeout: 5 } as never)],
    ['(options)', (a: AllocLifecycle) => a.prestart(null as never)],
    ['signal', (a: AllocLifecycle) => a.start({ signal: 'x' as never })],
    ['after', (a: AllocLifecycle) => a.start({ after: {} as never })],
    ['signal', (a: AllocLifecycle) => a.destroy({ signal: 5 as never })],
    ['signal', (a: AllocLifecycle) => a.watch({ signal: 5 as never }).next()],
    ['(options)', (a: AllocLifecycle) => a.stop(undefined as never)],
    ['reason', (a: AllocLifecycle) => a.stop({} as never)],
    ['reason', (a: AllocLifecycle) => a.stop({ reason: '' })],
    ['after', (a: AllocLifecycle) => a.stop({ reason: 'replaced', after: seen as never })],
    ['force', (a: AllocLifecycle) => a.stop({ reason: 'replaced', force: 'yes' as never })],
    ['previous', () => new PrevAllocWatcher(undefined as never)],
    ['previous', () => new PrevAllocWatcher(null as never)],
    ['previous.id', () => new PrevAllocWatcher({ ...seen, id: '' })],
    ['(options)', () => new PrevAllocWatcher(seen, null as never)],
    ['env', () => new PrevAllocWatcher(seen, {}, null as never)],
    ['signal', () => new PrevAllocWatcher(seen).wait({ signal: 5 as never })],
    ['next', () => new NextAllocWatcher(undefined as never)],
    ['next', () => new NextAllocWatcher('b' as never)],
    ['env', () => new NextAllocWatcher(seen, {}, 5 as never)],
    ['signal', () => new NextAllocWatcher(seen).wait({ signal: 5 as never })],
  ] as const)('G-2: %s', async (path, call) => refused(path, call));
});
