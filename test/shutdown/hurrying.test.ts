import { describe, expect, it } from 'vitest';
import { ScriptedTarget } from './scripted-target.js';
import { MOMENTS, slow, Stage } from './stage.js';

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

  it.each([
    { first: 'drain', script: {}, o: { shutdownDelay: '1h' }, acts: ['0 signal SIGTERM'] },
    {
      first: 'deregister',
      script: { registrar: {} },
      o: {},
      acts: ['0 deregister', '0 deregistered', '5000 signal SIGTERM'],
    },
    {
      first: 'preStop',
      script: { hooks: { preStop: 'ok' } },
      o: { shutdownDelay: '1s' },
      acts: ['1000 signal SIGTERM'],
    },
  ] as const)('SS-8 escalate right after run() ends $first, which is told of, and no other phase', async (one) => {
    const stage = new Stage({ ...one.script, target: { exits: { SIGTERM: 3_000 } } });
    const run = stage.run(one.o);
    expect(run.phase).toBe(one.first);
    run.escalate();
    await stage.clock.until(run.result);
    expect(stage.acts).toEqual(one.acts);
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
