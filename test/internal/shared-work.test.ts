import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { deferred } from '../../src/internal/deferred.js';
import { SharedWork } from '../../src/internal/shared-work.js';

function work() {
  const done = deferred<string>();
  const undone = deferred();
  const state = { begun: 0, aborted: undefined as unknown };
  const shared = new SharedWork((signal) => {
    state.begun++;
    signal.addEventListener('abort', () => {
      state.aborted = signal.reason;
      void undone.promise.then(() => done.reject(signal.reason));
    });
    return done.promise;
  });
  return { done, undone, state, shared };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('SharedWork', () => {
  it('G-4: begins once, with the first caller', async () => {
    const { shared, state, done } = work();
    expect(state.begun).toBe(0);
    const both = [shared.join(undefined), shared.join(undefined)];
    done.resolve('made');
    expect(await Promise.all(both)).toEqual(['made', 'made']);
    expect(await shared.join(undefined)).toBe('made');
    expect(state.begun).toBe(1);
  });

  it('G-4: work that brings in the next caller while it begins is not begun twice', async () => {
    let begun = 0;
    const inner: Promise<string>[] = [];
    const shared: SharedWork<string> = new SharedWork(async () => {
      if (++begun === 1) inner.push(shared.join(undefined));
      return Promise.resolve('made');
    });
    expect(await shared.join(undefined)).toBe('made');
    expect(await Promise.all(inner)).toEqual(['made']);
    expect(begun).toBe(1);
  });

  it('G-4: one who leaves harms nobody, the first one neither', async () => {
    const { shared, state, done } = work();
    const control = new AbortController();
    const first = shared.join(control.signal);
    const second = shared.join(undefined);
    control.abort(new Error('enough'));
    await expect(first).rejects.toThrow('enough');
    expect(state.aborted).toBeUndefined();
    done.resolve('made');
    expect(await second).toBe('made');
    expect(getEventListeners(control.signal, 'abort')).toEqual([]);
  });

  it('G-4: those who leave last call it off, and none of them is told before the undo', async () => {
    const { shared, state, undone } = work();
    const control = new AbortController();
    const told: unknown[] = [];
    const both = [shared.join(control.signal), shared.join(control.signal)].map((one) =>
      one.catch((error: unknown) => told.push(error)),
    );
    control.abort(new Error('enough'));
    await turn();
    expect(state.aborted).toEqual(new Error('enough'));
    expect(told).toEqual([]);
    undone.resolve();
    await Promise.all(both);
    expect(told).toEqual([new Error('enough'), new Error('enough')]);
    expect(getEventListeners(control.signal, 'abort')).toEqual([]);
  });

  it('G-4: an abort before the call neither begins nor calls off', async () => {
    const { shared, state } = work();
    await expect(shared.join(AbortSignal.abort(new Error('too early')))).rejects.toThrow('too early');
    expect(state.begun).toBe(0);
  });

  it('G-4: abort() calls it off for everybody, and waits', async () => {
    const { shared, undone } = work();
    const caller = shared.join(undefined).catch((error: unknown) => error);
    let over = false;
    const aborted = shared.abort(new Error('no')).then(() => (over = true));
    await turn();
    expect(over).toBe(false);
    undone.resolve();
    await aborted;
    expect(await caller).toEqual(new Error('no'));
  });

  it('G-4: what was never begun has nothing to wait for, and begins aborted', async () => {
    const seen: boolean[] = [];
    const shared = new SharedWork(async (signal) => {
      seen.push(signal.aborted);
      return Promise.resolve();
    });
    await shared.abort(new Error('no'));
    await shared.settled();
    await shared.join(undefined);
    expect(seen).toEqual([true]);
  });
});
