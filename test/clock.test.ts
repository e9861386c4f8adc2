import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from 'handover';
import { FakeClock } from 'handover/testing';
import { Deadline } from '../src/clock.js';

const DAY = 86_400_000;

describe('systemClock timers', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] }));
  afterEach(() => void vi.useRealTimers());

  it.each([
    { ms: 0, before: undefined, after: 0 },
    { ms: 250, before: 249, after: 1 },
    { ms: 1.5, before: 1, after: 1 },
    { ms: 2 ** 31 - 1, before: 2 ** 31 - 2, after: 1 },
    { ms: 2 ** 31, before: 2 ** 31 - 1, after: 1 },
    { ms: 30 * DAY, before: 30 * DAY - 1, after: 1 },
    { ms: 90 * DAY, before: 90 * DAY - 1, after: 1 },
  ])('G-1 a delay of $ms ms really waits that long, and fires once', ({ ms, before, after }) => {
    const fire = vi.fn();
    systemClock.timer(ms, fire);
    if (before !== undefined) vi.advanceTimersByTime(before);
    expect(fire).not.toHaveBeenCalled();
    vi.advanceTimersByTime(after);
    expect(fire).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(100 * DAY);
    expect(fire).toHaveBeenCalledTimes(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('G-1 Infinity never fires and arms nothing', () => {
    systemClock.timer(Infinity, () => undefined)();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('G-4 a long timer can be cancelled in any of its parts, and after it fired', () => {
    const fire = vi.fn();
    const cancels = [systemClock.timer(90 * DAY, fire), systemClock.timer(90 * DAY, fire)];
    cancels[0]?.();
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(60 * DAY);
    cancels[1]?.();
    expect(vi.getTimerCount()).toBe(0);
    vi.advanceTimersByTime(60 * DAY);
    expect(fire).not.toHaveBeenCalled();
    cancels.push(systemClock.timer(1, fire));
    vi.advanceTimersByTime(1);
    cancels[2]?.();
    expect(fire).toHaveBeenCalledTimes(1);
  });

  it('G-5 a jump of the wall clock moves no running timer', () => {
    const fire = vi.fn();
    systemClock.timer(60_000, fire);
    vi.setSystemTime(Date.now() + 3_600_000);
    vi.advanceTimersByTime(59_999);
    expect(fire).not.toHaveBeenCalled();
    vi.setSystemTime(Date.now() - 7_200_000);
    vi.advanceTimersByTime(1);
    expect(fire).toHaveBeenCalledTimes(1);
  });

  it('G-5 now() is monotonic, wall() is the time of day', () => {
    const before = systemClock.now();
    vi.setSystemTime(1_000);
    expect([systemClock.now() - before, systemClock.wall()]).toEqual([0, 1_000]);
    expect(systemClock.random()).toBeLessThan(1);
  });
});

describe('systemClock and the life of the process', () => {
  /** Runs a program that has the clock, and tells what it printed and how it ended. */
  function run(program: string): Promise<{ printed: string; code: number | null; signal: string | null }> {
    const root = fileURLToPath(new URL('..', import.meta.url));
    const source = `import { systemClock as clock } from './src/clock.ts';\n${program}`;
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', source], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
      timeout: 50_000,
      killSignal: 'SIGKILL',
    });
    let printed = '';
    child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()));
    return new Promise((resolve) => child.on('close', (code, signal) => resolve({ printed, code, signal })));
  }

  it.each(['600_000', '90 * 86_400_000'])(
    'G-5 case C64 a process whose only timer is house-keeping (%s ms) ends by itself',
    async (ms) => {
      const program = `clock.timer(${ms}, () => console.log('fired'), { keepAlive: false }); console.log('armed');`;
      expect(await run(program)).toEqual({ printed: 'armed\n', code: 0, signal: null });
    },
    60_000,
  );

  it('G-5 case C64 a process stays for a timer that somebody awaits', async () => {
    const program = `clock.timer(200, () => console.log('fired')); console.log('armed');`;
    expect(await run(program)).toEqual({ printed: 'armed\nfired\n', code: 0, signal: null });
  }, 60_000);

  it('G-5 case C64 a cancelled timer keeps nothing alive', async () => {
    const program = `clock.timer(600_000, () => console.log('fired'))(); console.log('cancelled');`;
    expect(await run(program)).toEqual({ printed: 'cancelled\n', code: 0, signal: null });
  }, 60_000);
});

describe('Deadline', () => {
  it('G-5 counts down to zero and no further', async () => {
    const clock = new FakeClock(1_000);
    const deadline = new Deadline(clock, 500);
    expect([deadline.remaining(), deadline.expired, deadline.wall]).toEqual([500, false, 1_500]);
    await clock.advance(499);
    expect([deadline.remaining(), deadline.expired, deadline.wall]).toEqual([1, false, 1_500]);
    await clock.advance(1);
    expect([deadline.remaining(), deadline.expired, deadline.wall]).toEqual([0, true, 1_500]);
    await clock.advance(1_000);
    expect([deadline.remaining(), deadline.expired, deadline.wall]).toEqual([0, true, 1_500]);
  });

  it('G-5 a wall-clock jump moves no running deadline; only how it is shown', () => {
    const clock = new FakeClock(1_000);
    const deadline = new Deadline(clock, 500);
    clock.jump(10_000);
    expect([deadline.remaining(), deadline.expired, deadline.wall]).toEqual([500, false, 11_500]);
    clock.jump(-20_000);
    expect([deadline.remaining(), deadline.expired, deadline.wall]).toEqual([500, false, -8_500]);
  });

  it('never expires at Infinity, and shows null', async () => {
    const clock = new FakeClock();
    const deadline = new Deadline(clock, Infinity);
    await clock.advance('900d');
    expect([deadline.remaining(), deadline.expired, deadline.wall]).toEqual([Infinity, false, null]);
  });

  it.each([
    { stored: 10_300, left: 300, why: 'as much as is left' },
    { stored: 9_000, left: 0, why: 'expired while nobody looked' },
    { stored: 10_000 - 1e9, left: 0, why: 'the wall clock jumped ahead: not negative' },
    { stored: 10_000 + 1e9, left: 500, why: 'the wall clock jumped back: not longer than the phase' },
    { stored: 10_500, left: 500, why: 'just begun' },
  ])('G-5 resumed at 10000 with $stored stored and a phase of 500 has $left left: $why', ({ stored, left }) => {
    const deadline = Deadline.resumed(new FakeClock(10_000), stored, 500);
    expect([deadline.remaining(), deadline.expired, deadline.at]).toEqual([left, left === 0, left]);
  });
});
