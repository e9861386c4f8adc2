import { getEventListeners } from 'node:events';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Cell } from '../../src/internal/cell.js';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('Cell.until', () => {
  it('AL-12 answers from the current value, synchronously looked at', async () => {
    const cell = new Cell('running');
    const found = cell.until((value) => (value === 'running' ? 'yes' : undefined));
    cell.set('gone');
    expect(await found).toBe('yes');
  });

  it('AL-12 sees a value that lasts no longer than the set', async () => {
    const cell = new Cell(0);
    const found = cell.until((value) => (value === 1 ? `saw ${value}` : undefined));
    cell.set(1);
    cell.set(2);
    expect(await found).toBe('saw 1');
    expect([cell.value, cell.watchers]).toEqual([2, 0]);
  });

  it('takes falsy answers other than undefined', async () => {
    expect(await new Cell(0).until((value) => value)).toBe(0);
    expect(await new Cell(0).until(() => null)).toBe(null);
  });

  it.each([0, 1])('rejects with what pick throws, on value %i', async (bad) => {
    const cell = new Cell(0);
    const found = cell.until((value) => {
      if (value === bad) throw new Error('no more');
      return undefined;
    });
    cell.set(1);
    await expect(found).rejects.toThrow('no more');
    expect(cell.watchers).toBe(0);
  });

  it('G-4 the signal ends the wait with its reason, and goes before the value', async () => {
    const cell = new Cell(0);
    const controller = new AbortController();
    const waiting = cell.until(() => undefined, controller.signal);
    controller.abort('off');
    await expect(waiting).rejects.toBe('off');
    await expect(cell.until((value) => value, controller.signal)).rejects.toBe('off');
    expect(cell.watchers).toBe(0);
  });
});

describe('Cell.watch', () => {
  it('AL-12 gives the current value first, then the latest; what came in between may be skipped', async () => {
    const cell = new Cell(0);
    const watch = cell.watch();
    cell.set(1);
    expect((await watch.next()).value).toBe(1);
    cell.set(2);
    cell.set(3);
    expect((await watch.next()).value).toBe(3);
    const next = watch.next();
    cell.set(4);
    expect((await next).value).toBe(4);
    await watch.return();
    expect(cell.watchers).toBe(0);
  });

  it('says nothing when nothing has changed', async () => {
    const cell = new Cell(0);
    const watch = cell.watch();
    await watch.next();
    let told = false;
    const next = watch.next().then(() => (told = true));
    await turn();
    expect(told).toBe(false);
    cell.set(1);
    await next;
    let again = false;
    void watch.next().then(() => (again = true));
    await turn();
    expect(again).toBe(false);
  });

  it('AL-12 a slow or a fast reader never misses the last value', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.nat(20), fc.nat(20)), { minLength: 1, maxLength: 12 }), async (steps) => {
        const cell = new Cell(0);
        const seen: number[] = [];
        const pause = async (turns: number) => {
          for (let n = 0; n < turns; n++) await Promise.resolve();
        };
        const reader = (async () => {
          for await (const value of cell.watch()) {
            seen.push(value);
            if (value === steps.length) return;
            await pause(steps[value]![1]);
          }
        })();
        for (const [n, [before]] of steps.entries()) {
          await pause(before);
          cell.set(n + 1);
        }
        await reader;
        expect(seen.at(-1)).toBe(steps.length);
        expect(seen).toEqual([...new Set(seen)].sort((a, b) => a - b));
        expect(cell.watchers).toBe(0);
      }),
    );
  });

  it.each(['while it waits', 'while its reader is busy'])('G-4 the signal ends it with its reason %s', async (when) => {
    const cell = new Cell(0);
    const controller = new AbortController();
    const watch = cell.watch(controller.signal);
    await watch.next();
    if (when === 'while it waits') {
      const next = watch.next();
      controller.abort('off');
      await expect(next).rejects.toBe('off');
    } else {
      cell.set(1);
      controller.abort('off');
      await expect(watch.next()).rejects.toBe('off');
    }
    expect([cell.watchers, getEventListeners(controller.signal, 'abort').length]).toEqual([0, 0]);
  });

  it('G-4 an abort that nobody reads is not left unhandled', async () => {
    const controller = new AbortController();
    const cell = new Cell(0);
    const watch = cell.watch(controller.signal);
    await watch.next();
    cell.set(1);
    await watch.next();
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => unhandled.push(reason);
    process.on('unhandledRejection', note);
    try {
      controller.abort('off');
      await turn();
      await turn();
      expect(unhandled).toEqual([]);
    } finally {
      process.off('unhandledRejection', note);
    }
  });
});
