import { ShutdownSequencer } from 'handover';
import { describe, expect, it } from 'vitest';
import { ScriptedTarget, SERVICE } from './scripted-target.js';
import { shape, Stage } from './stage.js';

/** preStop 0–1000, deregister –1300, delay –6300, SIGTERM, SIGKILL 10300 (preStop has taken one of five seconds). */
function slow(): Stage {
  return new Stage({
    target: { exits: {}, disarm: ['ok'] },
    registrar: { deregister: [300] },
    hooks: { preStop: 1_000, cancelled: 'ok', postStop: 'ok' },
  });
}

const MOMENTS = [
  { at: 500, during: 'preStop' },
  { at: 1_100, during: 'deregister' },
  { at: 4_000, during: 'drain' },
  { at: 8_000, during: 'signal' },
] as const;

type Call = 'skipDelay' | 'escalate' | 'killNow';

const AFTER_PRESTOP = ['1000 deregister', '1300 deregistered'];

describe('hurrying', () => {
  const table: Record<Call, readonly (readonly string[])[]> = {
    skipDelay: [
      ['0 preStop', ...AFTER_PRESTOP, '1300 disarm', '1300 signal SIGTERM', '5300 kill', '5310 postStop'],
      ['0 preStop', ...AFTER_PRESTOP, '1300 disarm', '1300 signal SIGTERM', '5300 kill', '5310 postStop'],
      ['0 preStop', ...AFTER_PRESTOP, '4000 disarm', '4000 signal SIGTERM', '8000 kill', '8010 postStop'],
      ['0 preStop', ...AFTER_PRESTOP, '6300 disarm', '6300 signal SIGTERM', '10300 kill', '10310 postStop'],
    ],
    escalate: [
      [
        '0 preStop',
        '500 deregister',
        '800 deregistered',
        '5800 disarm',
        '5800 signal SIGTERM',
        '10300 kill',
        '10310 postStop',
      ],
      // The deregistration goes on, it is only not waited for; without an acknowledgement the full delay applies.
      ['0 preStop', ...AFTER_PRESTOP, '6100 disarm', '6100 signal SIGTERM', '10100 kill', '10110 postStop'],
      ['0 preStop', ...AFTER_PRESTOP, '4000 disarm', '4000 signal SIGTERM', '8000 kill', '8010 postStop'],
      ['0 preStop', ...AFTER_PRESTOP, '6300 disarm', '6300 signal SIGTERM', '8000 kill', '8010 postStop'],
    ],
    killNow: [
      ['0 preStop', '500 disarm', '500 deregister', '500 kill', '800 deregistered', '800 postStop'],
      ['0 preStop', '1000 deregister', '1100 disarm', '1100 kill', '1300 deregistered', '1300 postStop'],
      ['0 preStop', ...AFTER_PRESTOP, '4000 disarm', '4000 kill', '4010 postStop'],
      ['0 preStop', ...AFTER_PRESTOP, '6300 disarm', '6300 signal SIGTERM', '8000 kill', '8010 postStop'],
    ],
  };
  const cases = (Object.keys(table) as Call[]).flatMap((call) =>
    MOMENTS.map((moment, i) => ({ call, ...moment, acts: table[call][i] })),
  );

  it.each(cases)('SS-8 $call during $during', async ({ call, at, during, acts }) => {
    const stage = slow();
    const run = stage.run();
    await stage.clock.advance(at);
    expect(run.phase).toBe(during);
    run[call]();
    const report = await stage.clock.until(run.result);
    expect(stage.acts).toEqual(acts);
    expect(report.outcome).toBe('forced');
    expect(stage.clock.pending).toBe(0);
  });

  it.each(['skipDelay', 'killNow'] as const)('SS-8 %s before the first step is not lost', async (call) => {
    const stage = new Stage({ target: { exits: { SIGTERM: 10 } }, registrar: {} });
    const run = stage.run();
    run[call]();
    await stage.clock.until(run.result);
    expect(stage.acts.at(-1)).toMatch(call === 'skipDelay' ? /^0 signal SIGTERM$/ : /^0 kill|^0 deregistered/);
  });

  it('SS-8 killNow while the target is disarmed: SIGKILL, and no other signal before it', async () => {
    const stage = new Stage({ target: { disarm: [1_000] } });
    const run = stage.run();
    await stage.clock.advance(500);
    expect(run.phase).toBe('signal');
    run.killNow();
    await stage.clock.until(run.result);
    expect(stage.acts).toEqual(['0 disarm', '1000 kill']);
  });

  it('escalate raised by the event of a phase ends that phase, and no other', async () => {
    const stage = slow();
    const run = stage.run();
    stage.sequencer.on('shutdown:phase', ({ phase }) => {
      if (phase === 'drain') run.escalate();
    });
    await stage.clock.until(run.result);
    expect(stage.acts).toContain('1300 signal SIGTERM');
    expect(stage.acts).toContain('5300 kill');
  });

  it("killTimeout 'never' waits until somebody escalates", async () => {
    const stage = new Stage({ target: { exits: {} } });
    const run = stage.run({ killTimeout: 'never' });
    await stage.clock.advance('30d');
    expect(run.wait).toMatchObject({ for: 'exit', until: null });
    expect(run.wait!.why).toContain('never');
    run.escalate();
    expect((await stage.clock.until(run.result)).outcome).toBe('forced');
  });
});

describe('joining', () => {
  it('SS-8 S66 two stops of one id: one run, one signal, one result', async () => {
    const stage = new Stage({ registrar: {} });
    const first = stage.run();
    await stage.clock.advance(1_000);
    const second = stage.run({ reason: 'operator', killTimeout: '1h' });
    expect(second).toBe(first);
    const [a, b] = await stage.clock.until(Promise.all([first.result, second.result]));
    expect(a).toBe(b);
    expect(stage.acts).toEqual(['0 deregister', '0 deregistered', '5000 signal SIGTERM']);
  });

  it.each([
    { o: { shutdownDelay: 0 }, act: '1000 signal SIGTERM', why: 'no delay' },
    { o: { killTimeout: 0 }, act: '1000 kill', why: 'no grace' },
    { o: { shutdownDelay: '1ms' }, act: '5000 signal SIGTERM', why: 'other options have no effect' },
  ])('SS-8 joining with $o: $why', async ({ o, act }) => {
    const stage = new Stage({ registrar: {} });
    const run = stage.run();
    await stage.clock.advance(1_000);
    stage.run(o);
    await stage.clock.until(run.result);
    expect(stage.acts.at(-1)).toBe(act);
  });

  it('SS-8 a default of 0 does not make joining a hurry', async () => {
    const stage = new Stage({ registrar: {}, target: { exits: {} }, defaults: { killTimeout: 0 } });
    const run = stage.run({ killTimeout: '10s' });
    await stage.clock.advance(1_000);
    stage.run();
    await stage.clock.until(run.result);
    expect(stage.acts).toContain('15000 kill');
  });

  it('SS-8 the id is free after the end, and when the end is told', async () => {
    const stage = new Stage();
    const run = stage.run();
    expect(stage.sequencer.running('web-1')).toBe(run);
    const seen: unknown[] = [];
    stage.sequencer.on('shutdown:ended', ({ id }) => seen.push(stage.sequencer.running(id), run.phase, run.wait));
    await stage.clock.until(run.result);
    expect(seen).toEqual([undefined, 'done', null]);
    const again = stage.run();
    expect(again).not.toBe(run);
    expect((await stage.clock.until(again.result)).outcome).toBe('already-gone');
  });

  it('stops of different ids run side by side', async () => {
    const stage = new Stage();
    const other = new ScriptedTarget(stage.clock, stage.log, { exits: { SIGTERM: 4_000 } }, 'web-2');
    const runs = [stage.run(), stage.sequencer.run(other)];
    const reports = await stage.clock.until(Promise.all(runs.map(({ result }) => result)));
    expect(reports.map(({ id }) => id)).toEqual(['web-1', 'web-2']);
    expect(stage.clock.now()).toBe(4_000);
  });
});

describe('cancel', () => {
  it.each([
    { at: 500, during: 'preStop', acts: ['0 preStop', '500 cancelled'] },
    {
      at: 1_100,
      during: 'deregister',
      acts: ['0 preStop', '1000 deregister', '1100 cancelled', '1300 deregistered', '1300 register', '1300 registered'],
    },
    {
      at: 4_000,
      during: 'drain',
      acts: ['0 preStop', '1000 deregister', '1300 deregistered', '4000 cancelled', '4000 register', '4000 registered'],
    },
  ])('SS-9 S67 during $during: undone, registered as before, no signal', async ({ at, acts }) => {
    const stage = slow();
    const run = stage.run();
    await stage.clock.advance(at);
    const answer = run.cancel();
    const again = run.cancel();
    expect(await stage.clock.until(answer)).toBe('cancelled');
    expect(await again).toBe('cancelled');
    expect(stage.acts).toEqual(acts);
    expect((await run.result).outcome).toBe('cancelled');
    expect(await run.cancel()).toBe('cancelled');
    expect([...stage.registrar!.held]).toEqual([SERVICE.id]);
    expect(stage.target.running).toBe(true);
    expect(stage.clock.pending).toBe(0);
  });

  it('SS-9 S67 after the first signal it is too late, and says so at once', async () => {
    const stage = slow();
    const run = stage.run();
    await stage.clock.advance(7_000);
    expect(await run.cancel()).toBe('too-late');
    expect((await stage.clock.until(run.result)).outcome).toBe('forced');
    expect(await run.cancel()).toBe('too-late');
  });

  it('SS-9 too late at once when the target has ended', async () => {
    const stage = new Stage({ target: { exitAt: 1_000 }, registrar: {}, hooks: { postStop: 3_000 } });
    const run = stage.run();
    await stage.clock.advance(2_000);
    expect(run.phase).toBe('postStop');
    // Nothing moves the clock here: an answer that waits for the end would never come.
    expect(await run.cancel()).toBe('too-late');
    await stage.clock.until(run.result);
  });

  it('SS-9 the cancelled hook is for a preStop that ran', async () => {
    const stage = new Stage({
      registrar: { deregister: [300] },
      hooks: { preStop: 'ok', cancelled: 'ok' },
      preStopFirst: false,
    });
    const run = stage.run();
    await stage.clock.advance(100);
    expect(await stage.clock.until(run.cancel())).toBe('cancelled');
    expect(stage.acts).toEqual(['0 deregister', '300 deregistered', '300 register', '300 registered']);
  });

  it('SS-9 too late also while the call of the signal hangs', async () => {
    const stage = new Stage({ target: { signal: ['hang'], exits: { SIGTERM: 1_000 } } });
    const run = stage.run();
    await stage.clock.advance(10);
    expect(await run.cancel()).toBe('too-late');
    await stage.clock.until(run.result);
  });

  it.each(['not awaited', 'awaited'] as const)(
    'SS-9 AL-3 cancel inside disarm, %s: rearmed, no signal, no dead lock',
    async (how) => {
      const answers: unknown[] = [];
      const stage: Stage = new Stage({
        registrar: {},
        target: {
          disarm: ['ok'],
          onDisarm: () => {
            const answer = stage.sequencer
              .running('web-1')!
              .cancel()
              .then((value) => answers.push(value));
            return how === 'awaited' ? answer.then(() => undefined) : undefined;
          },
        },
      });
      const run = stage.run();
      const report = await stage.clock.until(run.result);
      await stage.clock.advance(0);
      expect(report.outcome).toBe('cancelled');
      expect(answers).toEqual(['cancelled']);
      const end = how === 'awaited' ? 7_000 : 5_000;
      expect(stage.acts).toEqual([
        '0 deregister',
        '0 deregistered',
        '5000 disarm',
        `${end} rearm`,
        `${end} register`,
        `${end} registered`,
      ]);
      expect(stage.clock.pending).toBe(0);
    },
  );

  it('SS-9 cancel when the event of the signal phase is told: nothing has been sent yet', async () => {
    const stage = slow();
    const run = stage.run();
    stage.sequencer.on('shutdown:phase', ({ phase }) => {
      if (phase === 'signal') void run.cancel();
    });
    expect((await stage.clock.until(run.result)).outcome).toBe('cancelled');
    expect(stage.acts.filter((line) => /signal|kill|disarm|rearm/.test(line))).toEqual([]);
  });

  it('SS-9 a registry that does not answer: cancelled with a warning, registered in the background', async () => {
    const stage = new Stage({ registrar: { register: [...Array<'reject'>(12).fill('reject'), 'ok'] } });
    const run = stage.run();
    await stage.clock.advance(2_000);
    expect(await stage.clock.until(run.cancel())).toBe('cancelled');
    expect((await run.result).warnings.map(({ code }) => code)).toEqual(['register-late']);
    expect(stage.registrar!.held.size).toBe(0);
    await stage.clock.advance('1h');
    expect(stage.registrar!.held.size).toBe(1);
    expect(stage.clock.pending).toBe(0);
  });

  it('SS-6 SS-9 a target that exits while it is restored: not registered again, the stop goes on to its end', async () => {
    const stage = new Stage({ registrar: {}, hooks: { preStop: 'ok', cancelled: 2_000, postStop: 'ok' } });
    const run = stage.run();
    await stage.clock.advance(1_000);
    const answer = run.cancel();
    await stage.clock.advance(1_000);
    stage.target.exit();
    const report = await stage.clock.until(run.result);
    expect(report.outcome).toBe('exited');
    expect(await answer).toBe('too-late');
    expect(stage.registrar!.held.size).toBe(0);
    expect(stage.acts.at(-1)).toBe('2000 postStop');
  });

  it('SS-6 SS-9 a target that exits while it is restored is then taken off the registry', async () => {
    const stage = new Stage({ registrar: {}, hooks: { preStop: 2_000, cancelled: 2_000 } });
    const run = stage.run();
    await stage.clock.advance(1_000);
    void run.cancel();
    await stage.clock.advance(500);
    stage.target.exit();
    const report = await stage.clock.until(run.result);
    expect(stage.acts).toEqual(['0 preStop', '1000 cancelled', '1500 deregister', '1500 deregistered']);
    expect(shape(report)).toContain('deregister ok 0');
  });

  it('SS-6 SS-9 a target that exits while it is registered again is taken off again', async () => {
    const stage = new Stage({ registrar: { register: [1_000] } });
    const run = stage.run();
    await stage.clock.advance(1_000);
    void run.cancel();
    await stage.clock.advance(500);
    stage.target.exit();
    expect((await stage.clock.until(run.result)).outcome).toBe('exited');
    expect(stage.registrar!.held.size).toBe(0);
    expect(stage.acts.at(-1)).toBe('2000 deregistered');
  });
});

describe('detach', () => {
  it.each([500, 1_100, 4_000, 8_000, 10_305])(
    'G-4 SS-14 at %i ms: nothing more is sent, nothing is left',
    async (at) => {
      const stage = new Stage({
        target: { exits: { SIGKILL: 60_000 }, disarm: ['ok'] },
        registrar: { deregister: [300] },
        hooks: { preStop: 1_000, cancelled: 'ok', postStop: 'ok' },
      });
      const run = stage.run();
      await stage.clock.advance(at);
      const before = stage.acts.length;
      await stage.sequencer.detach();
      expect((await run.result).outcome).toBe('detached');
      stage.target.dispose();
      expect(stage.clock.pending).toBe(0);
      await stage.clock.advance('1h');
      expect(stage.acts).toHaveLength(before);
      expect(stage.sequencer.running('web-1')).toBeUndefined();
    },
  );

  it('SS-14 a background deregistration is let go of too; a new stop is refused', async () => {
    const stage = new Stage({ registrar: { deregister: ['reject'] } });
    await stage.stop();
    expect(stage.clock.pending).toBe(1);
    await stage.sequencer.detach();
    expect(stage.clock.pending).toBe(0);
    expect(() => stage.run()).toThrow(expect.objectContaining({ code: 'ERR_DETACHED' }));
  });

  it('SS-9 a stop that is let go of while it is called off: cancel says too-late', async () => {
    const stage = new Stage({ hooks: { preStop: 1_000, cancelled: 'hang' } });
    const run = stage.run();
    await stage.clock.advance(500);
    const answer = run.cancel();
    await stage.clock.advance(500);
    await stage.sequencer.detach();
    expect(await answer).toBe('too-late');
    expect((await run.result).outcome).toBe('detached');
    expect(stage.clock.pending).toBe(0);
  });
});

describe('what is told', () => {
  it('G-7 G-9 each phase is told once, when it can be read, with what is waited for and until when', async () => {
    const stage = slow();
    const seen: unknown[] = [];
    const run = stage.run();
    stage.sequencer.on('shutdown:phase', ({ id, phase, wait, at }) => {
      expect(run.phase).toBe(phase);
      expect(run.wait).toEqual(wait);
      seen.push([id, phase, wait?.for, wait && wait.until! - at]);
    });
    await stage.clock.until(run.result);
    expect(seen).toEqual([
      ['web-1', 'preStop', 'exit', 3_000],
      ['web-1', 'deregister', 'deregister', 5_000],
      ['web-1', 'drain', 'drain', 5_000],
      ['web-1', 'signal', 'exit', 4_000],
      ['web-1', 'kill', 'exit', 15_000],
      ['web-1', 'confirm', 'exit', 15_000],
      ['web-1', 'postStop', undefined, null],
    ]);
    expect(stage.events.at(-1)).toMatchObject({ type: 'shutdown:ended', report: { outcome: 'forced' } });
  });

  it('SS-12 the report is JSON, with the reason, wall starts and durations that add up', async () => {
    const stage = slow();
    const start = stage.clock.wall();
    const report = await stage.stop({ reason: 'operator' });
    expect(JSON.parse(JSON.stringify(report))).toEqual(report);
    expect(report.reason).toBe('operator');
    expect(shape(report)).toEqual([
      'preStop ok 1000',
      'deregister ok 300',
      'drain ok 5000',
      'signal timeout 4000',
      'kill ok 0',
      'confirm ok 10',
      'postStop ok 0',
    ]);
    expect(report.phases.map(({ at }) => at - start)).toEqual([0, 1_000, 1_300, 6_300, 10_300, 10_300, 10_310]);
  });

  it('G-2 G-8 bad input is refused before anything is touched', () => {
    const stage = new Stage();
    const path = (run: () => unknown): unknown => {
      try {
        run();
        return 'accepted';
      } catch (error) {
        return (error as { details: { path: string } }).details.path;
      }
    };
    expect(path(() => stage.run({ killTimeout: '5' }))).toBe('killTimeout');
    expect(path(() => stage.run({ killSignal: 'SIG TERM' }))).toBe('killSignal');
    expect(path(() => stage.run({ killSignal: '' }))).toBe('killSignal');
    expect(path(() => stage.run({ shutdownDelay: 'never' }))).toBe('shutdownDelay');
    expect(path(() => stage.run({ onDeregisterError: 'retry' as never }))).toBe('onDeregisterError');
    expect(path(() => stage.run({ onDeregisterError: { hold: -1 } }))).toBe('onDeregisterError.hold');
    expect(path(() => stage.run({ ladder: [] } as never))).toBe('ladder');
    expect(path(() => new ShutdownSequencer({ confirmTimeout: Number.NaN }))).toBe('confirmTimeout');
    expect(path(() => new ShutdownSequencer({ services: [] } as never))).toBe('services');
    expect(path(() => stage.sequencer.run({ id: 'x' } as never))).toBe('target');
    expect(path(() => stage.sequencer.run(undefined as never))).toBe('target.id');
    expect(stage.log).toEqual([]);
  });

  it('C64 the timers of a background deregistration do not keep the process alive; those of the stop do', async () => {
    const stage = new Stage({ registrar: { deregister: ['reject'] } });
    const kept: boolean[] = [];
    const timer = stage.clock.timer.bind(stage.clock);
    stage.clock.timer = (ms: number, fire: () => void, o?: { readonly keepAlive?: boolean }) => {
      kept.push(o?.keepAlive ?? true);
      return timer(ms, fire);
    };
    await stage.stop();
    expect(kept.length).toBeGreaterThan(4);
    await stage.clock.advance('1m');
    kept.length = 0;
    await stage.clock.advance('10m');
    // Each round arms one for the call in flight, which is awaited by the work itself, and one to sleep.
    expect(kept.filter((keepAlive) => !keepAlive).length).toBeGreaterThan(10);
    expect(kept.filter(Boolean).length).toBe(kept.length / 2);
    await stage.sequencer.detach();
  });
});
