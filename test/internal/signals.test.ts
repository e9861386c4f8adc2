import { getEventListeners } from 'node:events';
import { describe, expect, it, vi } from 'vitest';
import { FakeClock } from 'handover/testing';
import { Cell } from '../../src/internal/cell.js';
import { deferred } from '../../src/internal/deferred.js';
import { KeyedLock } from '../../src/internal/keyed-lock.js';
import { abortable, linkSignals, onAbort, sleep, withDeadline } from '../../src/internal/signals.js';

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;
const late = () => new Error('late');
const never = <T>(): Promise<T> => deferred<T>().promise;

describe('G-4 case C61 nothing stays on a signal that a thousand calls shared', () => {
  const clock = new FakeClock();
  const lock = new KeyedLock();
  const calls: Record<string, (signal: AbortSignal, n: number) => Promise<unknown>> = {
    'abortable, resolved': (signal) => abortable(Promise.resolve(1), signal),
    'abortable, rejected': (signal) => abortable(Promise.reject(late()), signal),
    sleep: (signal, n) => sleep(clock, n, { signal }),
    'withDeadline, in time': (signal) => withDeadline(clock, 5_000, signal, late, async () => 1),
    'withDeadline, late': (signal) => withDeadline(clock, 5, signal, late, never),
    'withDeadline, failed': (signal) => withDeadline(clock, 5, signal, late, () => Promise.reject(late())),
    'KeyedLock.run': (signal, n) => lock.run(`key ${n % 7}`, () => sleep(clock, 1), signal),
    'Cell.until': async (signal, n) => {
      const cell = new Cell(0);
      const found = cell.until((value) => value === n || undefined, signal);
      cell.set(n);
      await found;
    },
    'Cell.until, thrown': async (signal) => {
      const cell = new Cell(0);
      const failing = cell.until((value) => {
        if (value === 1) throw late();
        return undefined;
      }, signal);
      cell.set(1);
      await failing;
    },
    'Cell.watch, left early': async (signal) => {
      for await (const _ of new Cell(0).watch(signal)) break;
    },
    linkSignals: async (signal) => {
      const link = linkSignals(signal, undefined, signal);
      await abortable(Promise.resolve(), link.signal);
      link.dispose();
      expect(listeners(link.signal)).toBe(0);
    },
    onAbort: async (signal) => onAbort(signal, () => undefined)(),
  };

  it.each(Object.keys(calls))('%s', async (name) => {
    const { signal } = new AbortController();
    const added = vi.spyOn(signal, 'addEventListener');
    for (let n = 1; n <= 10; n++) await clock.until(calls[name]!(signal, n).catch(() => undefined));
    expect([added.mock.calls.length >= 10, listeners(signal)]).toEqual([true, 0]);
    const all = Array.from({ length: 1_000 }, (_, n) => calls[name]!(signal, n + 1));
    expect(listeners(signal)).toBeLessThanOrEqual(1);
    await clock.until(Promise.allSettled(all));
    expect([listeners(signal), clock.pending]).toEqual([0, 0]);
  });

  it('and all let go, with its reason, when it aborts', async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const reason = new Error('called off');
    const cell = new Cell(0);
    void lock.run('held', never);
    const hanging = [
      abortable(never(), signal),
      sleep(clock, 1e9, { signal }),
      withDeadline(clock, Infinity, signal, late, never),
      lock.run('held', never, signal),
      cell.until(() => undefined, signal),
      cell
        .watch(signal)
        .next()
        .then(() => abortable(never(), signal)),
    ];
    await clock.advance(1_000);
    expect(listeners(signal)).toBe(1);
    controller.abort(reason);
    expect(await Promise.allSettled(hanging)).toEqual(hanging.map(() => ({ status: 'rejected', reason })));
    expect([clock.pending, cell.watchers]).toEqual([0, 1]);
  });
});

describe('onAbort', () => {
  it('G-4 tells once, with the reason, and at once if it is too late already', () => {
    const controller = new AbortController();
    const told: unknown[] = [];
    onAbort(controller.signal, (reason) => told.push(reason));
    const off = onAbort(controller.signal, () => told.push('taken off'));
    off();
    off();
    controller.abort('first');
    controller.abort('second');
    onAbort(controller.signal, (reason) => told.push(`again ${String(reason)}`));
    onAbort(undefined, () => told.push('no signal'))();
    expect(told).toEqual(['first', 'again first']);
  });

  it('G-4 case C61 hundreds may wait on one signal without Node warning of a leak', () => {
    const { signal } = new AbortController();
    const told = vi.fn();
    const offs = Array.from({ length: 500 }, () => onAbort(signal, told));
    expect(listeners(signal)).toBe(1);
    offs.slice(1).forEach((off) => off());
    expect(listeners(signal)).toBe(1);
    offs[0]?.();
    expect(listeners(signal)).toBe(0);
  });

  it('G-4 one function that waits twice is told twice, in order, and each end takes off one', () => {
    const controller = new AbortController();
    const told: string[] = [];
    const listener = () => told.push('twice');
    const first = onAbort(controller.signal, listener);
    onAbort(controller.signal, () => told.push('between'));
    onAbort(controller.signal, listener);
    first();
    first();
    controller.abort();
    expect(told).toEqual(['between', 'twice']);
  });

  it('G-4 a listener may take others off, or wait anew, while it is told', () => {
    const controller = new AbortController();
    const told: string[] = [];
    onAbort(controller.signal, () => {
      told.push('first');
      second();
      onAbort(controller.signal, () => told.push('at once'));
    });
    const second = onAbort(controller.signal, () => told.push('second'));
    onAbort(controller.signal, () => told.push('third'));
    controller.abort();
    expect([told, listeners(controller.signal)]).toEqual([['first', 'at once', 'third'], 0]);
  });
});

describe('linkSignals', () => {
  it('G-4 follows whichever parent aborts first, or its own abort', () => {
    const [one, two] = [new AbortController(), new AbortController()];
    const link = linkSignals(one.signal, undefined, two.signal);
    expect(link.signal.aborted).toBe(false);
    two.abort('two');
    one.abort('one');
    expect(link.signal.reason).toBe('two');
    const own = linkSignals(new AbortController().signal);
    own.abort('own');
    expect(own.signal.reason).toBe('own');
    expect(linkSignals(two.signal).signal.reason).toBe('two');
  });

  it('G-4 does not abort its parents, nor follow them after dispose', () => {
    const parent = new AbortController();
    const link = linkSignals(parent.signal);
    const other = linkSignals(parent.signal);
    link.abort('mine');
    expect(parent.signal.aborted).toBe(false);
    other.dispose();
    parent.abort('theirs');
    expect([link.signal.reason, other.signal.aborted]).toEqual(['mine', false]);
    link.dispose();
  });
});

describe('abortable', () => {
  it('G-4 settles like the promise', async () => {
    const { signal } = new AbortController();
    expect(await abortable(Promise.resolve(1), signal)).toBe(1);
    expect(await abortable(Promise.resolve(2), undefined)).toBe(2);
    await expect(abortable(Promise.reject(late()), signal)).rejects.toThrow('late');
  });

  it('G-4 rejects at once on a signal that is aborted already', async () => {
    await expect(abortable(never(), AbortSignal.abort('no'))).rejects.toBe('no');
  });

  it('G-4 a promise that rejects after the abort is not left unhandled', async () => {
    const unhandled = vi.fn();
    process.on('unhandledRejection', unhandled);
    try {
      const controller = new AbortController();
      const work = deferred();
      const call = abortable(work.promise, controller.signal);
      controller.abort('off');
      await expect(call).rejects.toBe('off');
      work.reject(late());
      await new Promise((resolve) => setImmediate(resolve));
      await new Promise((resolve) => setImmediate(resolve));
      expect(unhandled).not.toHaveBeenCalled();
    } finally {
      process.off('unhandledRejection', unhandled);
    }
  });
});

describe('withDeadline', () => {
  it('G-8 gives back what the work gives back, and leaves no timer', async () => {
    const clock = new FakeClock();
    expect(await withDeadline(clock, 100, undefined, late, async () => 'done')).toBe('done');
    await expect(withDeadline(clock, 100, undefined, late, () => Promise.reject(new Error('own')))).rejects.toThrow(
      'own',
    );
    expect(clock.pending).toBe(0);
  });

  it('G-8 work that ignores its signal cannot hold up the call', async () => {
    const clock = new FakeClock();
    let given: AbortSignal | undefined;
    const call = withDeadline(clock, 100, undefined, late, (signal) => {
      given = signal;
      return never();
    });
    const outcome = expect(call).rejects.toThrow('late');
    await clock.advance(99);
    expect(given?.aborted).toBe(false);
    await clock.advance(1);
    await outcome;
    expect(given?.reason).toMatchObject({ message: 'late' });
  });

  it("G-4 the caller's abort comes through with its reason; an aborted call does no work", async () => {
    const clock = new FakeClock();
    const controller = new AbortController();
    const call = withDeadline(clock, 100, controller.signal, late, (signal) => abortable(never(), signal));
    controller.abort('caller');
    await expect(call).rejects.toBe('caller');
    const work = vi.fn(never);
    await expect(withDeadline(clock, 100, controller.signal, late, work)).rejects.toBe('caller');
    expect(work).not.toHaveBeenCalled();
    expect(clock.pending).toBe(0);
  });

  it('G-8 Infinity is no deadline, and arms nothing', async () => {
    const clock = new FakeClock();
    const work = deferred<string>();
    const call = withDeadline(clock, Infinity, undefined, late, () => work.promise);
    await clock.advance('30d');
    expect(clock.pending).toBe(0);
    work.resolve('at last');
    expect(await call).toBe('at last');
  });
});

describe('sleep', () => {
  it('G-5 waits as long as it was told', async () => {
    const clock = new FakeClock();
    await clock.until(sleep(clock, 1_500));
    expect([clock.now(), clock.pending]).toEqual([1_500, 0]);
  });

  it('G-4 ends at once with the reason, and leaves no timer', async () => {
    const clock = new FakeClock();
    await expect(sleep(clock, 10, { signal: AbortSignal.abort('no') })).rejects.toBe('no');
    const controller = new AbortController();
    const sleeping = sleep(clock, 10, { signal: controller.signal });
    controller.abort('off');
    await expect(sleeping).rejects.toBe('off');
    expect(clock.pending).toBe(0);
  });

  it.each([
    [{}, true],
    [{ keepAlive: false }, false],
  ])('G-5 with %j its timer keeps the process alive: %s', async (options, keepAlive) => {
    const clock = new FakeClock();
    const timer = vi.spyOn(clock, 'timer');
    await clock.until(sleep(clock, 10, options));
    expect(timer).toHaveBeenCalledWith(10, expect.any(Function), { keepAlive });
  });
});
