import { describe, expect, it } from 'vitest';
import { SERVICE } from './scripted-target.js';
import { shape, Stage, type StageScript } from './stage.js';

const STUBBORN = { exits: {} };
const UNKILLABLE = { exits: { SIGKILL: Infinity } };

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

describe('exit', () => {
  it.each([
    { at: 100, during: 'preStop', acts: ['0 preStop', '100 deregister', '150 deregistered'] },
    { at: 1_010, during: 'deregister', acts: ['0 preStop', '1000 deregister', '1050 deregistered'] },
    { at: 3_000, during: 'drain', acts: ['0 preStop', '1000 deregister', '1050 deregistered'] },
    { at: 6_100, during: 'signal', acts: ['0 preStop', '1000 deregister', '1050 deregistered', '6050 signal SIGTERM'] },
  ])('SS-6 S63 exit during $during ends the rest, but not the deregistration', async ({ at, acts }) => {
    const stage = new Stage({
      target: { exitAt: at, exits: {} },
      registrar: { deregister: [50] },
      hooks: { preStop: 1_000, postStop: 'ok' },
    });
    const report = await stage.stop();
    const end = Math.max(at, Number(acts.at(-1)!.split(' ')[0]));
    expect(stage.acts).toEqual([...acts, `${end} postStop`]);
    expect(report.outcome).toBe('exited');
    expect(report.exit).toMatchObject({ by: 'self', code: 0 });
    expect(stage.clock.pending).toBe(0);
  });

  it('SS-11 S73 case C32 already gone is a success: still taken off the registry, no hook before, no signal', async () => {
    const stage = new Stage({ registrar: {}, hooks: { preStop: 'ok', postStop: 'ok' } });
    stage.target.exit({ code: 3 });
    const report = await stage.stop();
    expect(report).toMatchObject({ outcome: 'already-gone', exit: { code: 3 } });
    expect(stage.acts).toEqual(['0 deregister', '0 deregistered', '0 postStop']);
    expect(report.phases.map(({ phase, result }) => `${phase} ${result}`)).toEqual([
      'preStop skipped',
      'deregister ok',
      'drain skipped',
      'signal skipped',
      'kill skipped',
      'confirm ok',
      'postStop ok',
    ]);
  });

  it('case C33 gone by the look, while the wait does not answer: a success whose exit is not known', async () => {
    const stage = new Stage({ target: { wait: ['deaf'] } });
    stage.target.exit();
    const report = await stage.stop();
    expect(report.outcome).toBe('already-gone');
    expect(report.exit).toBeUndefined();
    expect(stage.acts).toEqual([]);
    expect(stage.clock.pending).toBe(0);
  });

  it('S69 case C41 a wait that breaks off proves nothing: looked at, waited for again, one signal', async () => {
    const stage = new Stage({ target: { wait: ['reject', 2_000], exits: { SIGTERM: 3_000 } } });
    const report = await stage.stop();
    expect(report).toMatchObject({ outcome: 'exited', exit: { by: 'signal' } });
    expect(report.warnings.map(({ code }) => code)).toEqual(['wait-failed']);
    expect(stage.acts).toEqual(['0 signal SIGTERM']);
  });

  it('case C39 a wait that is always rejected: the look ends it, the exit code is not known', async () => {
    const stage = new Stage({ target: { wait: ['reject'] } });
    const report = await stage.stop();
    expect(report).toMatchObject({ outcome: 'exited', exit: { code: null, by: 'unknown' } });
    expect(stage.acts).toEqual(['0 signal SIGTERM']);
  });
});

describe('signals', () => {
  it.each([
    { option: undefined, own: undefined, sent: 'SIGTERM', why: 'the default' },
    { option: undefined, own: 'SIGQUIT', sent: 'SIGQUIT', why: 'the target knows' },
    { option: 'SIGINT', own: 'SIGQUIT', sent: 'SIGINT', why: 'the option wins' },
    { option: 'hup', own: undefined, sent: 'SIGHUP', why: 'one spelling' },
    { option: 'SIGRTMIN+3', own: undefined, sent: 'SIGRTMIN+3', why: 'a real-time signal' },
    { option: undefined, own: '3', sent: '3', why: 'a number means what it means there' },
    { option: undefined, own: 'not a signal', sent: 'SIGTERM', why: 'a bad image does not prevent the stop' },
  ])('SS-2 S70 killSignal=$option stopSignal=$own sends $sent: $why', async ({ option, own, sent }) => {
    const stage = new Stage({ target: { ...(own && { stopSignal: own }), exits: { [sent]: 10 } } });
    await stage.stop({ killSignal: option });
    expect(stage.acts).toEqual([`0 signal ${sent}`]);
  });

  it('SS-2 a bad stop signal of an image is told', async () => {
    const stage = new Stage({ target: { stopSignal: 'not a signal', exits: { SIGTERM: 10 } } });
    const { warnings } = await stage.stop({});
    expect(warnings.map(({ code }) => code)).toEqual(['stop-signal-unknown']);
  });

  it('SS-2 a target that knows its signal only once it was looked at is asked by that one', async () => {
    const stage = new Stage({ target: { exits: { SIGQUIT: 10 } } });
    const { target } = stage;
    const look = target.isRunning.bind(target);
    let own: string | undefined;
    Object.defineProperty(target, 'stopSignal', { get: () => own });
    target.isRunning = async (call) => {
      own = 'SIGQUIT';
      return look(call);
    };
    await stage.stop({});
    expect(stage.acts).toEqual(['0 signal SIGQUIT']);
  });

  it.each([
    { killTimeout: 0, exits: { SIGTERM: 300 }, acts: ['0 kill'], outcome: 'forced', by: 'kill' },
    {
      killTimeout: '200ms',
      exits: { SIGTERM: 300 },
      acts: ['0 signal SIGTERM', '200 kill'],
      outcome: 'forced',
      by: 'kill',
    },
    { killTimeout: '10s', exits: { SIGTERM: 300 }, acts: ['0 signal SIGTERM'], outcome: 'exited', by: 'signal' },
    {
      killTimeout: 'never',
      exits: { SIGTERM: 40 * 86_400_000 },
      acts: ['0 signal SIGTERM'],
      outcome: 'exited',
      by: 'signal',
    },
  ])('SS-2 S68 killTimeout=$killTimeout: $acts', async ({ killTimeout, exits, acts, outcome, by }) => {
    const stage = new Stage({ target: { exits } });
    const report = await stage.clock.until(stage.run({ killTimeout }).result, '50d');
    expect(stage.acts).toEqual(acts);
    expect(report).toMatchObject({ outcome, exit: { by } });
  });

  it.each(['reject', 'deaf'] as const)(
    'SS-5 G-8 a signal whose fate is unknown (%s) counts as sent',
    async (manner) => {
      const stage = new Stage({ target: { signal: [manner], exits: { SIGTERM: 12_000 } } });
      const report = await stage.stop({ killTimeout: '20s' });
      expect(stage.acts).toEqual(['0 signal SIGTERM']);
      expect(report.outcome).toBe('exited');
      expect(report.warnings.map(({ code }) => code)).toEqual(['signal-unknown']);
      expect(stage.clock.pending).toBe(0);
    },
  );

  it('SS-6 S71 case C35 SIGKILL without an exit: repeated with backoff, unkillable at the bound, no postStop', async () => {
    const stage = new Stage({ target: UNKILLABLE, hooks: { postStop: 'ok' } });
    const report = await stage.stop({ killTimeout: 0, confirmTimeout: '5s' });
    expect(stage.acts).toEqual(['0 kill', '500 kill', '1500 kill', '3500 kill']);
    expect(report.outcome).toBe('unkillable');
    expect(report.exit).toBeUndefined();
    expect(shape(report)).toContain('confirm timeout 5000');
    expect(stage.clock.pending).toBe(0);
  });

  it('SS-6 SIGKILL that is rejected is repeated; an exit that nobody told of is seen by the look', async () => {
    const stage = new Stage({ target: { kill: ['reject', 'ok'], wait: ['deaf'], exits: { SIGKILL: 700 } } });
    const report = await stage.stop({ killTimeout: 0 });
    expect(stage.acts.slice(0, 2)).toEqual(['0 kill', '500 kill']);
    expect(report.outcome).toBe('forced');
    expect(report.warnings.map(({ code }) => code)).toEqual(['kill-unknown']);
  });

  it.each(['reject', 'deaf'] as const)(
    'SS-11 a disarm that goes wrong (%s) does not prevent the stop',
    async (manner) => {
      const stage = new Stage({ target: { disarm: [manner] } });
      const report = await stage.stop();
      expect(report.outcome).toBe('exited');
      expect(stage.acts).toEqual(['0 disarm', manner === 'reject' ? '0 signal SIGTERM' : '10000 signal SIGTERM']);
      expect(report.warnings).toHaveLength(1);
    },
  );

  it('G-8 a look that is never answered does not hold up the stop', async () => {
    const stage = new Stage({ target: { isRunning: ['deaf'] } });
    expect((await stage.stop()).outcome).toBe('exited');
    expect(stage.acts).toEqual(['5000 signal SIGTERM']);
    expect(stage.clock.pending).toBe(0);
  });

  it('S75 G-5 a jump of the wall clock moves no deadline', async () => {
    const stage = new Stage({ target: STUBBORN });
    const run = stage.run({ shutdownDelay: '10s' });
    await stage.clock.advance('2s');
    stage.clock.jump(-3_600_000);
    await stage.clock.until(run.result);
    expect(stage.acts).toEqual(['10000 signal SIGTERM', '15000 kill']);
  });
});

describe('hooks', () => {
  it.each([
    { preStop: 'reject' as const, at: 0, code: 'hook-failed' },
    { preStop: 'deaf' as const, at: 3_000, code: 'hook-late' },
    { preStop: 'hang' as const, at: 3_000, code: 'hook-late' },
  ])(
    'SS-10 S64 preStop $preStop: a warning, then the signal, all within the kill timeout',
    async ({ preStop, at, code }) => {
      const stage = new Stage({ target: STUBBORN, hooks: { preStop } });
      const report = await stage.stop();
      expect(stage.acts).toEqual(['0 preStop', `${at} signal SIGTERM`, '5000 kill']);
      expect(report.warnings.map((warning) => warning.code)).toEqual([code]);
      expect(stage.warnings).toEqual([code]);
    },
  );

  it('SS-7 S65 what preStop takes is taken from the kill timeout; two seconds are kept for the signal', async () => {
    const stage = new Stage({ target: STUBBORN, hooks: { preStop: 9_000 } });
    await stage.stop({ killTimeout: '10s' });
    expect(stage.acts).toEqual(['0 preStop', '8000 signal SIGTERM', '10000 kill']);
  });

  it('SS-7 S65 killTimeout 0: no preStop', async () => {
    const stage = new Stage({ hooks: { preStop: 'ok' } });
    await stage.stop({ killTimeout: 0 });
    expect(stage.acts).toEqual(['0 kill']);
    expect(stage.warnings).toEqual([]);
  });

  it('SS-7 G-3 a kill timeout that leaves no time for preStop says so', async () => {
    const stage = new Stage({ hooks: { preStop: 'ok' } });
    const report = await stage.stop({ killTimeout: '2s' });
    expect(stage.acts).toEqual(['0 signal SIGTERM']);
    expect(report.warnings.map(({ code }) => code)).toEqual(['hook-skipped']);
  });

  it('SS-7 G-8 an unanswered look takes its time from the kill timeout like the hook that waits for it', async () => {
    const stage = new Stage({ target: { isRunning: ['deaf'], exits: {} }, hooks: { preStop: 'ok' } });
    const report = await stage.stop();
    expect(stage.acts).toEqual(['8000 signal SIGTERM', '10000 kill']);
    expect(report.warnings.map(({ code }) => code)).toEqual(['hook-skipped']);
  });

  it('SS-10 postStop that hangs is left after five seconds', async () => {
    const stage = new Stage({ hooks: { postStop: 'deaf' } });
    const report = await stage.stop();
    expect(shape(report)).toContain('postStop timeout 5000');
    expect(report.outcome).toBe('exited');
  });
});
