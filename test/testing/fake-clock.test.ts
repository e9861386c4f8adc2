import { describe, expect, it } from 'vitest';
import { FakeClock } from 'handover/testing';

describe('FakeClock', () => {
  it('G-5 stands still until it is moved; wall and monotonic time move together', async () => {
    const clock = new FakeClock();
    expect([clock.now(), clock.wall()]).toEqual([0, Date.UTC(2026, 0, 1)]);
    await clock.advance('1m30s');
    expect([clock.now(), clock.wall()]).toEqual([90_000, Date.UTC(2026, 0, 1, 0, 1, 30)]);
    expect(new FakeClock(5).wall()).toBe(5);
  });

  it('G-5 a jump moves wall time only and fires nothing', async () => {
    const clock = new FakeClock();
    let fired = false;
    clock.timer(1_000, () => (fired = true));
    clock.jump(3_600_000);
    clock.jump(-7_200_000);
    await clock.advance(999);
    expect([fired, clock.now(), clock.wall()]).toEqual([false, 999, Date.UTC(2026, 0, 1) - 3_600_000 + 999]);
  });

  it('timers fire in order of time, then of arming, each at its own time', async () => {
    const clock = new FakeClock();
    const fired: [string, number][] = [];
    const arm = (name: string, ms: number) => clock.timer(ms, () => fired.push([name, clock.now()]));
    arm('c', 20);
    arm('a', 10);
    arm('b', 10);
    arm('never', Infinity);
    arm('past', -5);
    arm('later', 21);
    await clock.advance(20);
    expect(fired).toEqual([
      ['past', 0],
      ['a', 10],
      ['b', 10],
      ['c', 20],
    ]);
    expect(clock.pending).toBe(1);
  });

  it('a cancelled timer does not fire, and cancelling what fired is harmless', async () => {
    const clock = new FakeClock();
    const fired: string[] = [];
    const first = clock.timer(10, () => {
      fired.push('first');
      second();
    });
    const second = clock.timer(10, () => fired.push('second'));
    await clock.advance(10);
    first();
    expect([fired, clock.pending]).toEqual([['first'], 0]);
  });

  it('code that awaits between two timers sees the time it asked for', async () => {
    const clock = new FakeClock();
    const wait = (ms: number) => new Promise<void>((resolve) => clock.timer(ms, resolve));
    const seen: number[] = [];
    const chain = (async () => {
      for (let i = 0; i < 3; i++) {
        await wait(100);
        for (let turn = 0; turn < 50; turn++) await Promise.resolve();
        seen.push(clock.now());
      }
    })();
    await clock.advance(1_000);
    await chain;
    expect(seen).toEqual([100, 200, 300]);
  });

  it('until() moves no further than the promise needs', async () => {
    const clock = new FakeClock();
    clock.timer(5_000, () => undefined);
    await clock.until(new Promise<void>((resolve) => clock.timer(2_000, resolve)));
    expect([clock.now(), clock.pending]).toEqual([2_000, 1]);
    expect(await clock.until(Promise.resolve('at once'))).toBe('at once');
    expect(clock.now()).toBe(2_000);
  });

  it('until() rejects as the promise does', async () => {
    const clock = new FakeClock();
    const failing = new Promise((_, reject) => clock.timer(10, () => reject(new Error('as it does'))));
    await expect(clock.until(failing)).rejects.toThrow('as it does');
  });

  it('until() says so when nothing can settle the promise any more, and gives up at max', async () => {
    const clock = new FakeClock();
    await expect(clock.until(new Promise(() => undefined))).rejects.toThrow('the promise has not settled');
    const late = new Promise<void>((resolve) => clock.timer(1_001, resolve));
    await expect(clock.until(late, '1s')).rejects.toThrow('nothing falls due before 1000 ms');
    await clock.until(late);
  });

  it('random numbers are the same for every clock, and in [0, 1)', () => {
    const draw = (clock: FakeClock) => Array.from({ length: 1_000 }, () => clock.random());
    const numbers = draw(new FakeClock());
    expect(numbers).toEqual(draw(new FakeClock()));
    expect(numbers.every((n) => n >= 0 && n < 1)).toBe(true);
    expect(new Set(numbers).size).toBe(1_000);
  });

  it('G-1 a time that is no duration is refused', async () => {
    await expect(new FakeClock().advance('10')).rejects.toMatchObject({ code: 'ERR_INVALID_OPTION' });
  });
});
