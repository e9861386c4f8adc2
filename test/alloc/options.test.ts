import { describe, expect, it } from 'vitest';
import { AllocLifecycle } from 'handover';
import { world } from './world.js';

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
