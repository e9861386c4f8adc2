import { describe, expect, it } from 'vitest';
import { AllocLifecycle, type PreparedTask, type TaskDriver } from 'handover';
import type { FakeSpec } from 'handover/testing';
import { turn } from './scripted-peer.js';
import { outcomeOf, world } from './world.js';

/** A driver whose calls are what the test says, over the fake's. */
function strange(w: ReturnType<typeof world>, more: Partial<TaskDriver<FakeSpec>>): TaskDriver<FakeSpec> {
  const { driver } = w;
  return {
    name: 'strange',
    parse: (input) => driver.parse(input),
    exclusive: (spec) => driver.exclusive(spec),
    prestart: (ctx) => driver.prestart(ctx),
    start: (prepared, call) => driver.start(prepared, call),
    recover: (state, call) => driver.recover(state as { id: string }, call),
    list: (call) => driver.list(call),
    ...more,
  };
}

function allocOn(w: ReturnType<typeof world>, driver: TaskDriver<FakeSpec>): AllocLifecycle {
  return new AllocLifecycle({ id: 'a', tasks: [{ name: 'web', driver, spec: { version: 'v1' } }] }, w.env);
}

describe('a driver that does not listen', () => {
  it('G-4: one that ignores the abort of its prestart is left after its bound, and undone when it comes', async () => {
    const w = world();
    const driver = strange(w, {
      prestart: async ({ signal: _, ...ctx }) => {
        await new Promise<void>((resolve) => w.clock.timer(3_600_000, resolve));
        return w.driver.prestart(ctx);
      },
    });
    const a = allocOn(w, driver);
    const control = new AbortController();
    const done = outcomeOf(a.prestart({ signal: control.signal }));
    await turn();
    control.abort(new Error('enough'));
    expect((await w.clock.until(done)).error).toEqual(new Error('enough'));
    expect([a.state, w.clock.now()]).toEqual(['discarded', 60_000]);
    await w.clock.advance('2h');
    expect(w.host.calls).toEqual(['prestart a/web', 'discard a/web']);
    expect(w.host.remains()).toEqual([]);
  });

  it('DP-1: one that prepared in spite of the abort is undone before the caller is told', async () => {
    const w = world();
    const driver = strange(w, {
      prestart: async ({ signal: _, ...ctx }) => {
        await new Promise<void>((resolve) => w.clock.timer(1_000, resolve));
        return w.driver.prestart(ctx);
      },
    });
    const a = allocOn(w, driver);
    const control = new AbortController();
    const done = outcomeOf(a.prestart({ signal: control.signal }));
    await turn();
    control.abort(new Error('enough'));
    expect((await w.clock.until(done)).error).toEqual(new Error('enough'));
    expect([w.host.remains(), w.host.calls]).toEqual([[], ['prestart a/web', 'discard a/web']]);
  });

  it('G-4: who comes while a preparation is being undone is told that it ends, not the reason of the other', async () => {
    const w = world();
    const driver = strange(w, {
      prestart: async (ctx) => {
        try {
          return await w.driver.prestart(ctx);
        } finally {
          await new Promise<void>((resolve) => w.clock.timer(5_000, resolve));
        }
      },
    });
    w.host.script('a', { prestart: 'hang' });
    const a = allocOn(w, driver);
    const control = new AbortController();
    const first = outcomeOf(a.prestart({ signal: control.signal }));
    await turn();
    control.abort(new Error('enough'));
    await turn();
    const second = outcomeOf(a.prestart());
    expect((await w.clock.until(first)).error).toEqual(new Error('enough'));
    expect((await second).error).toMatchObject({ code: 'ERR_ALLOC_ENDED', details: { state: 'discarded' } });
  });

  it('AL-3: who looks while it is discarded does not take it for pruned', async () => {
    const w = world();
    const driver = strange(w, {
      prestart: async (ctx) => {
        const prepared = await w.driver.prestart(ctx);
        const discard = prepared.discard.bind(prepared);
        prepared.discard = async () => {
          await discard();
          await new Promise<void>((resolve) => w.clock.timer(5_000, resolve));
        };
        return prepared;
      },
    });
    const a = allocOn(w, driver);
    await a.prestart();
    const gone = a.discard();
    await turn();
    expect((await a.watch()[Symbol.asyncIterator]().next()).value).toMatchObject({ seen: { state: 'prepared' } });
    await w.clock.until(gone);
    expect(a.state).toBe('discarded');
  });

  it('G-8: a wait that always breaks: the end is learnt from the stop, and nothing goes on', async () => {
    const w = world();
    const driver = strange(w, {
      start: async (prepared, call) => {
        const handle = await w.driver.start(prepared, call);
        handle.wait = () => Promise.reject(new Error('the connection broke'));
        return handle;
      },
    });
    const a = allocOn(w, driver);
    await a.start();
    const { outcome } = await w.clock.until(a.stop({ reason: 'operator' }).result);
    expect([outcome, a.state, a.status().tasks['web']?.phase, w.clock.pending]).toEqual([
      'stopped',
      'stopped',
      'dead',
      0,
    ]);
  });

  it('DP-1: a start that comes after it was given up is ended', async () => {
    const w = world();
    const driver = strange(w, {
      start: async (prepared) => {
        await new Promise<void>((resolve) => w.clock.timer(3_600_000, resolve));
        return w.driver.start(prepared, {});
      },
      prestart: async (ctx): Promise<PreparedTask> => {
        const prepared = await w.driver.prestart(ctx);
        prepared.discard = async () => undefined;
        return prepared;
      },
    });
    const a = allocOn(w, driver);
    const control = new AbortController();
    const done = outcomeOf(a.start({ signal: control.signal }));
    await turn();
    control.abort(new Error('enough'));
    expect((await w.clock.until(done)).error).toEqual(new Error('enough'));
    expect(a.state).toBe('discarded');
    await w.clock.advance('2h');
    expect(w.host.calls.slice(-3)).toEqual(['kill a/web', 'exit a/web', 'destroy a/web']);
  });

  it('DP-1: an undo that cannot be confirmed is told and tried on, at last in the background', async () => {
    const w = world();
    let tries = 0;
    const driver = strange(w, {
      prestart: async (ctx) => {
        const prepared = await w.driver.prestart(ctx);
        const discard = prepared.discard.bind(prepared);
        prepared.discard = async () => {
          if (++tries < 6) throw new Error('the engine does not answer');
          await discard();
        };
        return prepared;
      },
    });
    const a = allocOn(w, driver);
    await a.prestart();
    await w.clock.until(a.discard());
    expect([a.state, tries, w.host.remains()]).toEqual(['discarded', 3, ['a/web']]);
    expect(w.log.types().filter((type) => type === 'warning')).toHaveLength(3);
    await w.clock.advance('10m');
    expect([tries, w.host.remains(), w.clock.pending]).toEqual([6, [], 0]);
  });

  it('G-4: after a detach nothing is undone or tried again', async () => {
    const w = world();
    const driver = strange(w, {
      prestart: async (ctx) => {
        const prepared = await w.driver.prestart(ctx);
        prepared.discard = () => Promise.reject(new Error('the engine does not answer'));
        return prepared;
      },
    });
    const a = allocOn(w, driver);
    await a.prestart();
    const gone = outcomeOf(a.discard());
    await turn();
    expect(w.clock.pending).toBe(1);
    await a.detach();
    await gone;
    expect(w.clock.pending).toBe(0);
  });

  it.each(['prestart', 'start'] as const)(
    'G-6: a driver that throws at once (%s) fails like one that rejects',
    async (call) => {
      const w = world();
      const driver = strange(w, {
        [call]: () => {
          throw new Error('a slip');
        },
      });
      const a = allocOn(w, driver);
      const { error } = await outcomeOf(a.start());
      expect(error).toMatchObject({ code: call === 'start' ? 'ERR_START_FAILED' : 'ERR_PRESTART_FAILED' });
      expect([w.host.remains(), w.clock.pending]).toEqual([[], 0]);
    },
  );

  it('DP-8: progress that comes too late is no step back', async () => {
    const w = world();
    let report: (() => void) | undefined;
    const driver = strange(w, {
      prestart: (ctx) => {
        report = () => ctx.report({ phase: 'downloading', attempt: 1, bytes: { done: 1 } });
        return w.driver.prestart(ctx);
      },
    });
    const a = allocOn(w, driver);
    await a.prestart();
    report?.();
    expect(a.status().tasks['web']).toEqual({ phase: 'prepared' });
  });
});
