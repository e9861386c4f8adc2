import { describe, expect, it } from 'vitest';
import { SERVICE } from './scripted-target.js';
import { shape, Stage, type StageScript } from './stage.js';

const STUBBORN = { exits: {} };

describe('order', () => {
  it('SS-1 S62 seed order: deregistration acknowledged, then delay, then first signal, then kill timeout, then SIGKILL', async () => {
    const stage = new Stage({ target: STUBBORN, registrar: { deregister: [300] } });
    const report = await stage.stop({ shutdownDelay: '2s', killTimeout: '20s' });
    expect(stage.acts).toEqual(['0 deregister', '300 deregistered', '2300 signal SIGTERM', '22300 kill']);
    expect(report.outcome).toBe('forced');
    expect(report.exit).toMatchObject({ by: 'kill', signal: 'SIGKILL' });
    expect(shape(report)).toEqual([
      'preStop skipped 0',
      'deregister ok 300',
      'drain ok 2000',
      'signal timeout 20000',
      'kill ok 0',
      'confirm ok 10',
      'postStop skipped 0',
    ]);
    expect(stage.phases).toEqual(['deregister', 'drain', 'signal', 'kill', 'confirm']);
    expect(stage.clock.pending).toBe(0);
  });

  it.each([
    {
      preStopFirst: true,
      acts: ['0 preStop', '200 deregister', '200 deregistered', '5200 disarm', '5200 signal SIGTERM', '5300 postStop'],
    },
    {
      preStopFirst: false,
      acts: ['0 deregister', '0 deregistered', '0 preStop', '5000 disarm', '5000 signal SIGTERM', '5100 postStop'],
    },
  ])('SS-1 SS-11 preStopFirst=$preStopFirst: hooks, disarm and signal in order', async ({ preStopFirst, acts }) => {
    const stage = new Stage({
      target: { disarm: ['ok'] },
      registrar: {},
      hooks: { preStop: 200, postStop: 'ok' },
      preStopFirst,
    });
    expect((await stage.stop()).outcome).toBe('exited');
    expect(stage.acts).toEqual(acts);
  });

  it('SS-6 the exit is waited for before the first step, and asked for once', async () => {
    const stage = new Stage({ registrar: {} });
    await stage.stop();
    expect(stage.log.slice(0, 2)).toEqual(['0 wait', '0 isRunning']);
    expect(stage.log.filter((line) => line.endsWith('wait'))).toHaveLength(1);
  });
});

describe('delay', () => {
  it.each<{ why: string; script: StageScript; delay: string | number | undefined; at: number }>([
    { why: 'nothing registered', script: {}, delay: undefined, at: 0 },
    { why: 'nothing registered, but asked for', script: {}, delay: '3s', at: 3_000 },
    { why: 'registered, no confirmation possible', script: { registrar: {} }, delay: undefined, at: 5_000 },
    { why: 'registered and asked for', script: { registrar: {} }, delay: '1m30s', at: 90_000 },
    { why: '0 is a value, not "unset"', script: { registrar: {} }, delay: 0, at: 0 },
    { why: 'confirmed at once', script: { registrar: { shownFor: 0 } }, delay: undefined, at: 0 },
    {
      why: 'confirmed when the catalogue has followed',
      script: { registrar: { shownFor: 600 } },
      delay: undefined,
      at: 750,
    },
    {
      why: 'never confirmed: bound, then the full delay',
      script: { registrar: { shownFor: 1e9 } },
      delay: undefined,
      at: 10_000,
    },
    {
      why: 'a delay that was asked for counts from the acknowledgement, confirmed within it or not',
      script: { registrar: { shownFor: 600 } },
      delay: '2s',
      at: 2_000,
    },
  ])('SS-2 SS-3 first signal at $at ms: $why', async ({ script, delay, at }) => {
    const stage = new Stage(script);
    await stage.stop({ shutdownDelay: delay });
    expect(stage.acts.filter((line) => line.includes('signal'))).toEqual([`${at} signal SIGTERM`]);
  });

  it('case C49 the delay counts from the acknowledgement, however late the registry answers', async () => {
    const stage = new Stage({ target: { exits: { SIGTERM: 50 } }, registrar: { deregister: [4_000] } });
    await stage.stop({ shutdownDelay: '5s' });
    expect(stage.acts).toEqual(['0 deregister', '4000 deregistered', '9000 signal SIGTERM']);
  });
});

describe('deregistration that fails', () => {
  it.each<{ name: string; deregister: StageScript['registrar']; at: number }>([
    { name: 'late', deregister: { deregister: [7_000] }, at: 10_000 },
    { name: 'rejected', deregister: { deregister: ['reject'] }, at: 10_000 },
    { name: 'never answered', deregister: { deregister: ['deaf'] }, at: 10_000 },
  ])('SS-3 case C51 $name: bounded, a warning, and the full delay still applies', async ({ deregister, at }) => {
    const stage = new Stage({ registrar: deregister! });
    const report = await stage.stop();
    expect(stage.acts).toContain(`${at} signal SIGTERM`);
    expect(shape(report)).toContain('deregister timeout 5000');
    expect(report.warnings.map(({ code, error }) => [code, error?.code])).toContainEqual([
      'deregister-failed',
      'ERR_DEREGISTER_FAILED',
    ]);
    await stage.sequencer.detach();
    expect(stage.clock.pending).toBe(0);
  });

  it('SS-3 a rejected deregistration is retried within the bound, and on in the background after it', async () => {
    const stage = new Stage({ registrar: { deregister: ['reject', 'ok'] } });
    const report = await stage.stop();
    expect(report.warnings).toEqual([]);
    expect(stage.acts.filter((line) => line.endsWith('deregister'))).toHaveLength(2);

    const later = new Stage({ registrar: { deregister: [...Array<'reject'>(40).fill('reject'), 'ok'] } });
    await later.stop();
    expect(later.registrar!.held.size).toBe(1);
    await later.clock.advance('1h');
    expect(later.registrar!.held.size).toBe(0);
    expect(later.clock.pending).toBe(0);
  });

  it('SS-3 onDeregisterError abort: called off, registered again, no signal', async () => {
    const stage = new Stage({ registrar: { deregister: ['reject'] }, hooks: { preStop: 'ok', cancelled: 'ok' } });
    const report = await stage.stop({ onDeregisterError: 'abort' });
    expect(report.outcome).toBe('cancelled');
    expect(report.warnings.map(({ code }) => code)).toContain('stop-called-off');
    expect(stage.acts.filter((line) => /signal|kill/.test(line))).toEqual([]);
    expect(stage.acts.at(-1)).toBe('5000 registered');
    expect(stage.acts).toContain('5000 cancelled');
    expect(stage.clock.pending).toBe(0);
  });

  it('SS-6 onDeregisterError abort calls nothing off when the target has exited meanwhile', async () => {
    const stage = new Stage({ target: { exitAt: 1_000 }, registrar: { deregister: ['reject'] } });
    const report = await stage.stop({ onDeregisterError: 'abort' });
    expect(report.outcome).toBe('exited');
    expect(report.warnings.map(({ code }) => code)).toEqual(['deregister-failed']);
    await stage.sequencer.detach();
  });

  it('SS-2 a registrar that cannot be asked whether it still shows the instance has not confirmed', async () => {
    const stage = new Stage({ registrar: { shownFor: 0 } });
    Object.assign(stage.registrar!, { confirms: () => Promise.reject(new Error('503')) });
    const report = await stage.stop();
    expect(stage.acts).toContain('10000 signal SIGTERM');
    expect(report.warnings.map(({ code }) => code)).toEqual(['deregister-unconfirmed']);
  });

  it.each([
    { ack: 20_000, at: 20_000, result: 'ok', why: 'acknowledged while it holds on' },
    { ack: 'deaf' as const, at: 65_000, result: 'timeout', why: 'goes on when the hold is over' },
  ])('SS-3 onDeregisterError hold: $why', async ({ ack, at, result }) => {
    // A call that takes longer than ten seconds is given up and made again.
    const manners = typeof ack === 'number' ? (['deaf', 10_000 - 1] as const) : ([ack] as const);
    const stage = new Stage({ registrar: { deregister: manners } });
    const run = stage.run({ onDeregisterError: { hold: '1m' }, shutdownDelay: 0 });
    await stage.clock.advance(6_000);
    expect(run.wait).toMatchObject({ for: 'deregister', on: SERVICE.id });
    expect(run.wait!.until! - stage.clock.wall()).toBe(59_000);
    const report = await stage.clock.until(run.result);
    const deregister = report.phases.find(({ phase }) => phase === 'deregister')!;
    expect(deregister.result).toBe(result);
    expect(Math.abs(deregister.ms - at)).toBeLessThan(300);
    await stage.sequencer.detach();
  });
});
