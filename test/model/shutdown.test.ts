import type { RunOptions, ShutdownReport } from 'handover';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Manner } from '../shutdown/scripted-target.js';
import { Stage, type StageScript } from '../shutdown/stage.js';
import { explore, TIMEOUT } from './explore.js';

const ms = fc.integer({ min: 0, max: 12_000 });
const manner: fc.Arbitrary<Manner> = fc.oneof(
  { weight: 3, arbitrary: fc.constant<Manner>('ok') },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 15_000 }) },
  { weight: 1, arbitrary: fc.constantFrom<Manner>('reject', 'hang', 'deaf') },
);
const manners = fc.array(manner, { minLength: 1, maxLength: 4 });
/** A wait settles late only by the exit; what it can do wrong is to break off, or to say nothing. */
const waits = fc.oneof(
  { weight: 4, arbitrary: fc.constant<readonly Manner[]>(['ok']) },
  { weight: 3, arbitrary: fc.array(fc.constantFrom<Manner>('reject', 'ok'), { minLength: 1, maxLength: 4 }) },
  { weight: 1, arbitrary: fc.constant<readonly Manner[]>(['deaf']) },
);
const exit = fc.oneof(ms, fc.constant(Infinity));

const script: fc.Arbitrary<StageScript> = fc.record(
  {
    target: fc.record(
      {
        exits: fc.record({ SIGTERM: exit, SIGKILL: exit }, { requiredKeys: [] }),
        exitAt: fc.integer({ min: 0, max: 40_000 }),
        signal: manners,
        kill: manners,
        isRunning: manners,
        wait: waits,
        disarm: manners,
      },
      { requiredKeys: [] },
    ),
    registrar: fc.record(
      { register: manners, deregister: manners, shownFor: fc.integer({ min: 0, max: 8_000 }) },
      { requiredKeys: [] },
    ),
    hooks: fc.record({ preStop: manner, postStop: manner, cancelled: manner }, { requiredKeys: [] }),
    preStopFirst: fc.boolean(),
  },
  { requiredKeys: ['target'] },
);

const options: fc.Arbitrary<RunOptions> = fc.record(
  {
    shutdownDelay: fc.integer({ min: 0, max: 10_000 }),
    killTimeout: fc.integer({ min: 0, max: 20_000 }),
    confirmTimeout: fc.integer({ min: 0, max: 20_000 }),
    deregisterTimeout: fc.integer({ min: 0, max: 8_000 }),
    onDeregisterError: fc.constantFrom('proceed' as const, 'abort' as const, { hold: 4_000 }),
  },
  { requiredKeys: [] },
);

const command = fc.record({
  at: fc.integer({ min: 0, max: 45_000 }),
  call: fc.constantFrom('skipDelay', 'escalate', 'killNow', 'cancel', 'detach', 'join'),
});
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never;

interface Played {
  readonly stage: Stage;
  readonly report: ShutdownReport;
  readonly answers: readonly (readonly [answer: string, asked: number])[];
  readonly budget: number;
  readonly took: number;
}

async function play(what: StageScript, o: RunOptions, commands: readonly Command[]): Promise<Played> {
  const stage = new Stage(what);
  const { clock } = stage;
  const run = stage.run(o);
  const answers: Promise<readonly [string, number]>[] = [];
  let took = Infinity;
  void run.result.then(() => (took = clock.now()));
  for (const { at, call } of commands.toSorted((a, b) => a.at - b.at)) {
    await clock.advance(at - clock.now());
    if (took < Infinity) break;
    if (call === 'cancel') answers.push(run.cancel().then((answer) => [answer, at] as const));
    else if (call === 'detach') void stage.sequencer.detach();
    else if (call === 'join') expect(stage.sequencer.running(run.id)).toBe(run);
    else run[call]();
  }
  const report = await clock.until(run.result, '1d');
  const done = await clock.until(Promise.all(answers));
  return { stage, report, answers: done, budget: run.budget.total, took };
}

function times(log: readonly string[], what: RegExp): readonly number[] {
  return log.filter((line) => what.test(line)).map((line) => Number(line.split(' ')[0]));
}

function checkSignals({ stage, report }: Played, commands: readonly Command[]): void {
  const signals = times(stage.log, / signal /);
  const kills = times(stage.log, / kill$/);
  expect(signals.length, 'SS-5 a signal is sent once').toBeLessThanOrEqual(1);
  const first = Math.min(...signals, ...kills);
  if (signals.length === 1) expect(Math.min(...kills), 'SS-1 SIGKILL comes last').toBeGreaterThanOrEqual(signals[0]!);
  for (const before of times(stage.log, / (preStop|disarm)$/)) expect(before, 'SS-1').toBeLessThanOrEqual(first);
  if (report.outcome === 'cancelled') expect(first, 'SS-9 a stop that was called off has sent nothing').toBe(Infinity);
  if (report.outcome === 'already-gone') expect(first).toBe(Infinity);
  if (report.outcome === 'forced' || report.outcome === 'unkillable') expect(kills.length).toBeGreaterThan(0);
  if (report.outcome === 'unkillable') expect(report.exit).toBeUndefined();
  const hurried = commands.some(({ call }) => call === 'killNow' || call === 'escalate' || call === 'skipDelay');
  if (!hurried && signals.length === 1) checkDelay(stage, report, signals[0]!);
}

/** SS-3: no signal before the acknowledgement and the delay, or before the bound and the delay. */
function checkDelay({ script: { registrar }, clock }: Stage, { phases }: ShutdownReport, signal: number): void {
  if (registrar === undefined) return;
  const wall = clock.wall() - clock.now();
  const at = (phase: string): { readonly from: number; readonly end: number; readonly result: string } => {
    const found = phases.find((one) => one.phase === phase)!;
    return { from: found.at - wall, end: found.at - wall + found.ms, result: found.result };
  };
  expect(at('deregister').result).not.toBe('skipped');
  // Wall time is too big a number for fractions of a millisecond.
  expect(signal + 0.01).toBeGreaterThanOrEqual(Math.max(at('deregister').end, at('drain').end));
}

function checkEnd({ stage, report, took, budget, answers }: Played, commands: readonly Command[]): void {
  const cancelled = commands.some(({ call }) => call === 'cancel');
  const calledOff = cancelled || report.outcome === 'cancelled';
  if (!calledOff) expect(took, 'SS-7 within the budget').toBeLessThanOrEqual(budget);
  const { warnings: _, ...plain } = report;
  expect(JSON.parse(JSON.stringify(plain)), 'SS-12 JSON').toEqual(plain);
  for (const [answer] of answers) expect(answer).toBe(report.outcome === 'cancelled' ? 'cancelled' : 'too-late');
  if (report.outcome === 'detached') expect(commands.some(({ call }) => call === 'detach')).toBe(true);
  expect(stage.events.filter(({ type }) => type === 'shutdown:ended')).toHaveLength(1);
  expect(new Set(stage.phases).size, 'G-7 each phase once').toBe(stage.phases.length);
  expect(report.phases.map(({ ms: took }) => took).every((took) => took >= 0)).toBe(true);
}

/** What is in the registry is what was wanted last, as soon as it answers; then nothing is left to run. */
async function checkRest({ stage, report }: Played): Promise<void> {
  const { registrar, sequencer, target, clock } = stage;
  const answers = [registrar?.script.register, registrar?.script.deregister].every(
    (list) => list === undefined || list.at(-1) === 'ok',
  );
  if (registrar !== undefined && answers && report.outcome !== 'detached') {
    await clock.advance('1h');
    const gone = report.outcome !== 'cancelled';
    expect(registrar.held.size, 'SS-3 SS-6 the registry agrees in the end').toBe(gone ? 0 : 1);
  }
  await sequencer.detach();
  target.dispose();
  expect(clock.pending, 'G-4 no timer is left').toBe(0);
}

it(
  'SS-1 to SS-12 whatever the target, the registry, the hooks and the callers do',
  async () => {
    const property = fc.asyncProperty(
      script,
      options,
      fc.array(command, { maxLength: 4 }),
      async (what, o, commands) => {
        const played = await play(what, o, commands);
        checkSignals(played, commands);
        checkEnd(played, commands);
        await checkRest(played);
      },
    );
    expect(await explore('shutdown model', property)).toBeGreaterThan(20);
  },
  TIMEOUT,
);
