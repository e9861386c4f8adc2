import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FakeClock } from 'handover/testing';
import { deferred } from '../../src/internal/deferred.js';
import { KeyedLock } from '../../src/internal/keyed-lock.js';
import { sleep } from '../../src/internal/signals.js';

describe('KeyedLock', () => {
  it('first come, first served; other keys do not wait', async () => {
    const clock = new FakeClock();
    const lock = new KeyedLock();
    const order: string[] = [];
    const job = (key: string, name: string, ms: number) =>
      lock.run(key, async () => {
        order.push(`${name} in`);
        await sleep(clock, ms);
        order.push(`${name} out`);
        return name;
      });
    const all = Promise.all([job('a', 'a1', 30), job('a', 'a2', 10), job('b', 'b1', 20), job('a', 'a3', 5)]);
    await clock.advance(0);
    expect(lock.size).toBe(2);
    expect(await clock.until(all)).toEqual(['a1', 'a2', 'b1', 'a3']);
    expect(order).toEqual(['a1 in', 'b1 in', 'b1 out', 'a1 out', 'a2 in', 'a2 out', 'a3 in', 'a3 out']);
    expect(lock.size).toBe(0);
  });

  it('work that fails lets the next one in', async () => {
    const lock = new KeyedLock();
    const failing = lock.run('k', () => Promise.reject(new Error('oops')));
    const next = lock.run('k', async () => 'in');
    await expect(failing).rejects.toThrow('oops');
    expect(await next).toBe('in');
  });

  it('G-4 who leaves the line early does not run, and lets nobody pass the holder', async () => {
    const clock = new FakeClock();
    const lock = new KeyedLock();
    const order: string[] = [];
    const held = deferred();
    const holder = lock.run('k', async () => {
      order.push('holder in');
      await held.promise;
      order.push('holder out');
    });
    const controller = new AbortController();
    const leaver = lock.run('k', async () => order.push('leaver in'), controller.signal);
    const next = lock.run('k', async () => order.push('next in'));
    controller.abort('off');
    await expect(leaver).rejects.toBe('off');
    await clock.advance(0);
    expect(order).toEqual(['holder in']);
    held.resolve();
    await Promise.all([holder, next]);
    expect(order).toEqual(['holder in', 'holder out', 'next in']);
    await clock.advance(0);
    expect(lock.size).toBe(0);
  });

  it('G-4 an aborted call takes no place in the line; work that runs is not interrupted', async () => {
    const lock = new KeyedLock();
    await expect(lock.run('k', async () => 1, AbortSignal.abort('no'))).rejects.toBe('no');
    expect(lock.size).toBe(0);
    const controller = new AbortController();
    const running = lock.run(
      'k',
      async () => {
        controller.abort('too late');
        return 'done';
      },
      controller.signal,
    );
    expect(await running).toBe('done');
  });

  const visit = fc.record({
    key: fc.constantFrom('a', 'b'),
    arrives: fc.nat(20),
    holds: fc.nat(10),
    leaves: fc.option(fc.nat(30), { nil: Infinity }),
    fails: fc.boolean(),
  });

  it('IC-16 under random arrivals, failures and aborts: one holder a key, in order, nobody forgotten, nothing kept', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(visit, { maxLength: 12 }), async (visits) => {
        const clock = new FakeClock();
        const lock = new KeyedLock();
        const inside = new Map<string, number>();
        const arrived: string[] = [];
        const entered: string[] = [];
        const all = visits.map(async ({ key, arrives, holds, leaves, fails }, n) => {
          const controller = new AbortController();
          clock.timer(leaves, () => controller.abort('left'));
          await sleep(clock, arrives);
          arrived.push(`${key}${n}`);
          const work = async () => {
            entered.push(`${key}${n}`);
            inside.set(key, (inside.get(key) ?? 0) + 1);
            expect(inside.get(key)).toBe(1);
            await sleep(clock, holds);
            inside.set(key, 0);
            if (fails) throw new Error('failed');
          };
          await lock.run(key, work, controller.signal);
        });
        const outcomes = await clock.until(Promise.allSettled(all));
        await clock.advance(100);
        const ran = outcomes.map((outcome) => outcome.status === 'fulfilled' || outcome.reason !== 'left');
        expect(ran.filter(Boolean)).toHaveLength(entered.length);
        for (const key of ['a', 'b']) {
          const of = (list: string[]) => list.filter((name) => name.startsWith(key));
          expect(of(entered)).toEqual(of(arrived).filter((name) => entered.includes(name)));
        }
        for (const outcome of outcomes) {
          if (outcome.status === 'rejected' && outcome.reason !== 'left') {
            expect(outcome.reason).toMatchObject({ message: 'failed' });
          }
        }
        expect([lock.size, clock.pending]).toEqual([0, 0]);
      }),
      { numRuns: 200 },
    );
  });
});
