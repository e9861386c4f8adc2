/* Inputs that an outside look at the rules has broken the code with; each is kept. */
import { describe, expect, it } from 'vitest';
import { AllocLifecycle, type AllocSpec, type PrestartContext, type Progress, replace } from 'handover';
import { deferred } from '../../src/internal/deferred.js';
import { onAbort } from '../../src/internal/signals.js';
import { turn } from '../alloc/scripted-peer.js';
import { SERVED, outcomeOf, world } from '../alloc/world.js';

const PORT = { port: 8080 };
const LONG = { ...SERVED, shutdown: { shutdownDelay: '1m' } };

/** Whether a promise has settled, without waiting for it. */
function watched(promise: Promise<unknown>): { readonly settled: boolean } {
  const state = { settled: false };
  promise.then(
    () => (state.settled = true),
    () => (state.settled = true),
  );
  return state;
}

describe('a cancel by whoever is told of the drain', () => {
  it('RO-1 SS-9: before the first signal it is not too late', async () => {
    const w = world();
    const control = new AbortController();
    const a = await w.running('a', LONG, PORT);
    a.on('alloc:changed', ({ alloc }) => {
      if (alloc.state === 'draining') control.abort(new Error('changed my mind'));
    });
    const { outcome } = await w.clock.until(replace(a, w.alloc('b', SERVED, PORT), { signal: control.signal }));
    expect([outcome, a.state, w.host.running()]).toEqual(['kept-previous', 'running', ['a/web']]);
    expect(w.host.calls).not.toContain('signal a/web SIGTERM');
  });

  it('SS-9: nor is it for a plain stop', async () => {
    const w = world();
    const a = await w.running('a', LONG);
    const answers: string[] = [];
    a.on('alloc:changed', ({ alloc }) => {
      if (alloc.state === 'draining') void a.stopping!.cancel().then((answer) => answers.push(answer));
    });
    expect((await w.clock.until(a.stop({ reason: 'operator' }).result)).outcome).toBe('cancelled');
    await turn();
    expect(answers).toEqual(['cancelled']);
  });
});

describe('what an earlier process has registered', () => {
  it('SS-1 SS-3: is taken off by a stop that comes before the first passing check', async () => {
    let passes = true;
    const w = world({ checks: { ok: async () => passes } });
    const settings = { ...SERVED, health: { checks: [{ type: 'custom', name: 'ok' }] } } as const;
    const before = await w.running('a', settings);
    await w.clock.until(before.until('healthy'));
    await before.detach();
    passes = false;
    const after = await AllocLifecycle.open(before.spec, before.env);
    const from = w.sequence().length;
    await w.clock.until(after.stop({ reason: 'operator' }).result);
    expect(w.registered()).toEqual([]);
    expect(w.sequence().slice(from)[0]).toContain('deregister');
  });
});

describe('one that cannot be killed', () => {
  it('AL-5: can be stopped again, and then ends', async () => {
    const w = world();
    w.host.script('a', { ignores: ['SIGTERM', 'SIGKILL'] });
    const a = await w.running('a');
    expect((await w.clock.until(a.stop({ reason: 'operator' }).result)).outcome).toBe('unkillable');
    w.host.script('a', {});
    expect((await w.clock.until(a.stop({ reason: 'operator' }).result)).outcome).toBe('stopped');
    expect(a.state).toBe('stopped');
  });

  it('AL-5: an operator stops it while its successor waits: the successor goes with it', async () => {
    const w = world();
    const a = await w.running('a', SERVED, PORT);
    w.host.script('a', { ignores: ['SIGTERM', 'SIGKILL'] });
    const b = w.alloc('b', SERVED, PORT);
    const done = replace(a, b);
    await w.clock.advance('5m');
    expect([a.state, b.state]).toEqual(['unkillable', 'waiting']);
    a.stop({ reason: 'operator' });
    await w.clock.until(done, '1h');
    expect(b.state).toBe('discarded');
  });
});

describe('a driver that hangs', () => {
  it('SS-8 G-9: killNow() calls a start off; until then the wait is shown', async () => {
    const w = world();
    w.host.script('a', { start: 'never' });
    const a = w.alloc('a');
    const started = outcomeOf(a.start());
    await turn();
    const stop = a.stop({ reason: 'operator' });
    await turn();
    expect([a.state, stop.wait?.why]).toEqual(['starting', 'It is being started, and is stopped once that is over']);
    stop.killNow();
    expect((await w.clock.until(stop.result)).outcome).toBe('stopped');
    expect([a.state, w.host.remains()]).toEqual(['discarded', []]);
    expect((await started).error).toMatchObject({ code: 'ERR_ALLOC_ENDED' });
  });

  it('G-4: in an undo does not hold up a cancelled replacement for ever', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    const prestart = w.driver.prestart.bind(w.driver);
    w.driver.prestart = async (ctx) =>
      Object.assign(await prestart(ctx), { discard: () => new Promise(() => undefined) });
    w.host.script('b', { start: 'never' });
    const control = new AbortController();
    const done = replace(a, w.alloc('b', SERVED), { order: 'start-first', signal: control.signal });
    await w.clock.advance('1s');
    control.abort(new Error('enough'));
    expect((await w.clock.until(done, '1h')).outcome).toBe('kept-previous');
    expect(a.state).toBe('running');
  });
});

describe('the patience of a gate', () => {
  /** A driver whose preparation tells `beat()` every 10 s and never ends. */
  function beating(w: ReturnType<typeof world>, beat: () => Progress): AllocLifecycle {
    const driver = w.driver;
    driver.prestart = async (ctx: PrestartContext<unknown>) => {
      let cancel: () => void = () => undefined;
      const tell = (): void => {
        ctx.report(beat());
        cancel = w.clock.timer(10_000, tell);
      };
      tell();
      const calledOff = deferred<never>();
      onAbort(ctx.signal, calledOff.reject);
      return calledOff.promise.finally(() => cancel());
    };
    return new AllocLifecycle({ id: 'b', tasks: [{ name: 'web', driver, spec: { version: 'b' } }] }, w.env);
  }

  it('AL-4: the same progress told again is none', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    const b = beating(w, () => ({ phase: 'downloading', attempt: 1, bytes: { done: 5, total: 10 } }));
    const { outcome, stop } = await w.clock.until(replace(a, b, { gateDeadline: '1m' }), '1h');
    expect([outcome, stop?.gate?.outcome]).toEqual(['kept-previous', 'deadline']);
  });

  it('AL-4 G-9: a byte more is progress, and moves the deadline that is shown', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    let done = 0;
    const b = beating(w, () => ({ phase: 'downloading', attempt: 1, bytes: { done: done++ } }));
    const state = watched(replace(a, b, { gateDeadline: '1m' }));
    await w.clock.advance('1h');
    expect([state.settled, a.state]).toEqual([false, 'held']);
    expect(a.status().wait!.until! - w.clock.wall()).toBe(60_000);
    await b.discard();
  });
});

describe('the successor', () => {
  it('RO-1: cannot be that of two replacements', async () => {
    const w = world();
    const [first, second] = [await w.running('a1', SERVED), await w.running('a2', SERVED)];
    const b = w.alloc('b', SERVED);
    const one = replace(first, b);
    expect((await outcomeOf(replace(second, b))).error).toMatchObject({ details: { path: 'next' } });
    expect((await w.clock.until(one)).outcome).toBe('replaced');
    expect(w.host.running()).toEqual(['a2/web', 'b/web']);
  });

  it('G-4: let go of before a replacement that was called off: still a value', async () => {
    const w = world();
    const a = await w.running('a', SERVED);
    const b = w.alloc('b', SERVED);
    await b.detach();
    const { outcome } = await replace(a, b, { signal: AbortSignal.abort(new Error('off')) });
    expect(outcome).toBe('detached');
  });

  it('AL-5: does not come up when an operator stops the previous one while a cancel is restoring it', async () => {
    const w = world();
    const a = await w.running('a', LONG, PORT);
    const control = new AbortController();
    const done = replace(a, w.alloc('b', SERVED, PORT), { signal: control.signal });
    await w.clock.advance('10s');
    w.registrar.hangNext(1);
    control.abort(new Error('off'));
    await turn();
    a.stop({ reason: 'operator' });
    await turn();
    w.host.die('a/web');
    await w.clock.until(done);
    expect(w.host.running()).toEqual([]);
  });
});

describe('a spec that is none', () => {
  it.each([{}, { spec: undefined }, { spec: { version: 'x', port: 1n } }])('G-2: %o is refused by name', (more) => {
    const w = world();
    const task = { name: 'web', driver: w.driver, ...more };
    const spec = { id: 'a', tasks: [task] } as unknown as AllocSpec;
    expect(() => new AllocLifecycle(spec, w.env)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_OPTION' }));
  });
});
