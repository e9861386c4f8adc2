import fc from 'fast-check';
import { expect, it } from 'vitest';
import { noSuchTag, refusedStart } from '../alloc/world.js';
import { explore, TIMEOUT } from './explore.js';
import { type Command, ReplaceWorld, type Scenario } from './replace-world.js';

/** Times that meet: the check runs every second, windows and delays are whole seconds. */
const moment = fc.oneof(
  fc.integer({ min: 0, max: 120 }).map((seconds) => seconds * 1_000),
  fc.integer({ min: 0, max: 120_000 }),
);
const often = <T>(value: T, ...others: readonly T[]): fc.Arbitrary<T> =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(value) }, { weight: 2, arbitrary: fc.constantFrom(...others) });

const COMMANDS: readonly Command[] = [
  ...(['cancel', 'operatorStopsA', 'unhealthyStopsA', 'stopsB', 'discardsB', 'cancelsStopOfA', 'killNow'] as const),
  ...(['escalate', 'skipDelay', 'detachA', 'detachB', 'dieA', 'dieB', 'pruneB'] as const),
  ...(['registrarFails', 'registrarHangs'] as const),
];

const ignores = often<readonly string[]>([], ['SIGTERM'], ['SIGTERM', 'SIGKILL']);

const scenario: fc.Arbitrary<Scenario> = fc.record({
  order: fc.constantFrom('stop-first', 'start-first'),
  onNextFailed: often<'keep' | 'proceed'>('keep', 'keep', 'proceed'),
  a: fc.record({ exitDelay: often(0, 1_000, 4_000), ignores }),
  b: fc.record({
    prestart: often<Scenario['b']['prestart']>(10_000, undefined, 60_000, 'hang', noSuchTag()),
    start: often<Scenario['b']['start']>(undefined, 5_000, '2m', refusedStart()),
    exitAfter: often<number | undefined>(undefined, 0, 3_000, 7_000, 30_000),
    ignores,
  }),
  health: fc.record({ from: often(0, 20_000, 60_000, Infinity), flap: often(0, 2_000, 7_000) }),
  shutdownDelay: often(0, 5_000, 60_000),
  commands: fc.array(fc.record({ at: moment, command: fc.constantFrom(...COMMANDS) }), { maxLength: 3 }),
});

it(
  'RO-1 AL-1 to AL-6: whatever happens to a replacement, it settles, says the truth, and leaves nothing behind',
  async () => {
    const outcomes = new Map<string, number>();
    const runs = fc.asyncProperty(scenario, async (one) => {
      const world = new ReplaceWorld(one);
      await world.play();
      expect(world.broken).toEqual([]);
      const outcome = `${one.order} ${world.result?.outcome ?? 'none'}`;
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    });
    const about = (): string => `: ${JSON.stringify(Object.fromEntries(outcomes))}`;
    expect(await explore('replace model', runs, { about })).toBeGreaterThan(20);
  },
  TIMEOUT,
);
