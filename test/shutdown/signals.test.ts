import { constants } from 'node:os';
import { ShutdownSequencer } from 'handover';
import { describe, expect, it } from 'vitest';
import { signalNumber } from '../../src/internal/signal-names.js';
import { shape, Stage } from './stage.js';

const NONE = ['', '0', '32', '33', '65', 'SIGFOO', 'SIGRTMIN+16', 'SIGRTMIN+99', 'SIGRTMAX-15', 'SIGRTMAX-99'];

const STUBBORN = { exits: {} };
const UNKILLABLE = { exits: { SIGKILL: Infinity } };

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
    { option: undefined, own: '3', sent: 'SIGQUIT', why: 'a number is one of Linux' },
    { option: undefined, own: 'not a signal', sent: 'SIGTERM', why: 'a bad image does not prevent the stop' },
  ])('SS-2 S70 killSignal=$option stopSignal=$own sends $sent: $why', async ({ option, own, sent }) => {
    const stage = new Stage({ target: { ...(own && { stopSignal: own }), exits: { [sent]: 10 } } });
    await stage.stop({ killSignal: option });
    expect(stage.acts).toEqual([`0 signal ${sent}`]);
  });

  it.each([
    ...[['SIGHUP'], ['hup', 'SIGHUP'], ['SIGPWR'], ['SIGPOLL', 'SIGIO'], ['SIGRTMIN'], ['rtmin+3', 'SIGRTMIN+3']],
    ...[['SIGRTMAX-2'], ['15', 'SIGTERM'], ['64', 'SIGRTMAX']],
  ] as [string, string?][])('SS-2 S70 G-2 %s is a signal', async (killSignal, name = killSignal) => {
    const stage = new Stage({ target: { exits: {} } });
    await stage.stop({ killSignal });
    expect(stage.acts).toContain(`0 signal ${name}`);
  });

  it.each(
    Object.keys(constants.signals)
      .filter((name) => signalNumber(name) === undefined)
      .concat(NONE),
  )('SS-2 S70 G-2 %s, which no driver can send, is refused at construction', (killSignal) => {
    expect(() => new ShutdownSequencer({ killSignal })).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path: 'killSignal' } }),
    );
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
