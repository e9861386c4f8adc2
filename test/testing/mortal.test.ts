import { describe, expect, it, vi } from 'vitest';
import { type Env, ShutdownSequencer, memoryFeed, systemClock } from 'handover';
import { FakeClock, FakeRegistrar, eventLog, memoryStore, mortal } from 'handover/testing';

/** Whether the promise has settled, after all that can run has run. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const mark = (): void => {
    settled = true;
  };
  promise.then(mark, mark);
  await new Promise((resolve) => setImmediate(resolve));
  return settled;
}

const instance = { id: 'a1/web', service: 'web', address: '127.0.0.1', port: 80 };

function world() {
  const clock = new FakeClock();
  const env = { clock, store: memoryStore(), registrar: new FakeRegistrar(), feed: memoryFeed(), ...eventLog() };
  return { ...env, life: mortal(env) };
}

describe('mortal', () => {
  it('while it lives, every port answers as before', async () => {
    const { clock, store, registrar, events, life } = world();
    const { env } = life;
    expect(env.clock.now()).toBe(clock.now());
    await env.store.batch([{ put: 'a', value: 1 }]);
    expect(await env.store.list('')).toEqual([['a', 1]]);
    expect(env.store.batches).toBe(1);
    await env.registrar.register(instance, {});
    expect([...registrar.registered.keys()]).toEqual(['a1/web']);
    registrar.failNext(1, new Error('no'));
    await expect(env.registrar.deregister(instance, {})).rejects.toThrow('no');
    env.onEvent({ type: 'x' } as never);
    expect(events).toHaveLength(1);
    let fired = 0;
    env.clock.timer(5, () => fired++);
    env.clock.timer(5, () => fired++)();
    await env.clock.advance(10);
    expect([fired, clock.now(), clock.pending]).toEqual([1, 10, 0]);
    expect(store.batches).toBe(1);
    expect(await isSettled(life.dead)).toBe(false);
  });

  it('once dead, no call reaches a port and nothing is answered', async () => {
    const { store, registrar, events, life } = world();
    life.kill();
    await life.dead;
    const asked = [
      life.env.store.batch([{ put: 'a', value: 1 }]),
      life.env.store.list(''),
      life.env.registrar.register(instance, {}),
    ];
    life.env.onEvent({ type: 'x' } as never);
    expect(await Promise.all(asked.map(isSettled))).toEqual([false, false, false]);
    expect([store.batches, registrar.calls, events]).toEqual([0, [], []]);
    life.kill();
  });

  it('what was asked before the death is done and not answered', async () => {
    const { registrar, life } = world();
    const asked = [life.env.store.list(''), life.env.registrar.register(instance, {})];
    registrar.failNext(1);
    asked.push(life.env.registrar.deregister(instance, {}));
    life.kill();
    expect(await Promise.all(asked.map(isSettled))).toEqual([false, false, false]);
    expect(registrar.calls).toEqual(['register a1/web', 'deregister a1/web']);
  });

  it('its timers go with it, and no later one fires', async () => {
    const { clock, life } = world();
    let fired = 0;
    life.env.clock.timer(5, () => fired++);
    clock.timer(5, () => (fired += 100));
    life.kill();
    expect(clock.pending).toBe(1);
    life.env.clock.timer(5, () => fired++);
    life.env.clock.timer(5, () => fired++)();
    expect(clock.pending).toBe(1);
    await clock.advance(10);
    expect([fired, clock.pending, life.env.clock.now()]).toEqual([100, 0, 10]);
  });

  it('what a port would call back, and what it would tell one after the other, ends too', async () => {
    const { clock } = world();
    const told: string[] = [];
    const listeners: ((text: string) => void)[] = [];
    const bus = { on: (listener: (text: string) => void) => void listeners.push(listener) };
    const feed = memoryFeed();
    const life = mortal({ clock, bus, feed });
    life.env.bus.on((text) => told.push(text));
    listeners[0]!('before');
    const watching = life.env.feed.watch('a1', {})[Symbol.asyncIterator]();
    expect(await watching.next()).toEqual({ done: false, value: { seen: 'unreachable' } });
    const next = watching.next();
    life.kill();
    listeners[0]!('after');
    feed.synced();
    expect(told).toEqual(['before']);
    expect(await isSettled(next)).toBe(false);
    const late = life.env.feed.watch('a1', {})[Symbol.asyncIterator]();
    expect(await isSettled(late.next())).toBe(false);
  });

  it('a shutdown of a dead process never signals', async () => {
    const { clock, registrar, life } = world();
    const signals: string[] = [];
    const target = {
      id: 'a1/web',
      isRunning: async () => true,
      wait: () => new Promise<never>(() => undefined),
      signal: async (name: string) => void signals.push(name),
      kill: async () => void signals.push('SIGKILL'),
    };
    await registrar.register(instance, {});
    const run = new ShutdownSequencer({ shutdownDelay: '5s' }, life.env).run(target, { services: [instance] });
    await clock.advance('1s');
    life.kill();
    await clock.advance('1h');
    expect(registrar.registered.size).toBe(0);
    expect([signals, clock.pending]).toEqual([[], 0]);
    expect(await isSettled(run.result)).toBe(false);
  });

  it('an env without a clock has the system’s, whose timers can die', () => {
    const cancel = vi.fn();
    const timer = vi.spyOn(systemClock, 'timer').mockReturnValue(cancel);
    const life = mortal<Env>({});
    for (let i = 0; i < 2; i++) life.env.clock?.timer(1_000, () => undefined);
    timer.mock.calls[0]?.[1]();
    expect(cancel).not.toHaveBeenCalled();
    life.kill();
    // The other one has fired.
    expect(cancel).toHaveBeenCalledOnce();
  });
});

describe('killAtBatch', () => {
  it.each([
    { n: 0, written: undefined, keys: [] },
    { n: 0, written: true, keys: ['0'] },
    { n: 2, written: false, keys: ['0', '1'] },
    { n: 2, written: true, keys: ['0', '1', '2'] },
  ])('IC-21 n=$n written=$written: the store has $keys, and batch $n is not answered', async ({ n, written, keys }) => {
    const { store, life } = world();
    await life.env.store.batch([]);
    life.killAtBatch(n, written === undefined ? {} : { written });
    for (let i = 0; i < n; i++) await life.env.store.batch([{ put: `${i}`, value: i }]);
    expect(await isSettled(life.dead)).toBe(false);
    const last = life.env.store.batch([{ put: `${n}`, value: n }]);
    expect(await isSettled(life.dead)).toBe(true);
    expect(await isSettled(last)).toBe(false);
    expect((await store.list('')).map(([key]) => key)).toEqual(keys);
  });

  it('the next life goes on with the same ports', async () => {
    const { clock, store, life } = world();
    life.killAtBatch(0);
    void life.env.store.batch([{ put: 'a', value: 1 }]);
    await life.dead;
    const next = mortal({ clock, store });
    await next.env.store.batch([{ put: 'a', value: 2 }]);
    expect(await store.list('')).toEqual([['a', 2]]);
  });

  it.each([-1, 0.5, NaN, '1' as never])('G-2 refuses n=%s', (n) => {
    expect(() => world().life.killAtBatch(n)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_OPTION' }));
  });

  it('G-2 refuses an env without a store', () => {
    expect(() => mortal({}).killAtBatch(0)).toThrow('Option env.store: is missing');
  });
});
