import fc from 'fast-check';

/** How long each model explores, ms. `HANDOVER_MODEL_MS=Infinity` goes on until it is stopped or something breaks. */
const BUDGET = Number(process.env['HANDOVER_MODEL_MS'] ?? 20_000);
/** The same inputs for everybody, unless asked for others; whoever explores without end sees new ones each time. */
const SEED = Number(process.env['HANDOVER_MODEL_SEED'] ?? (BUDGET === Infinity ? Date.now() % 1_000_000 : 1));
/** So many, if the time is enough for them. */
const RUNS = 25_000;
/** Of each seed that once failed. */
const KEPT_RUNS = 1_000;

/** The time limit of a test that explores; 0 = none. */
export const TIMEOUT = BUDGET === Infinity ? 0 : BUDGET + 120_000;

/**
 * Runs a property on random inputs as long as the budget lasts, and prints how many these were and the seed; a failure
 * tells its own seed and the smallest input. Before that it runs the seeds that failed once, which go on to be tried.
 *
 * @param o - `about` is printed after the count; `kept` are the seeds that failed once
 * @returns how many inputs were tried
 */
export async function explore<T>(
  name: string,
  property: fc.IAsyncPropertyWithHooks<T>,
  { about = () => '', kept = [] }: { readonly about?: () => string; readonly kept?: readonly number[] } = {},
): Promise<number> {
  for (const seed of kept) await fc.assert(property, { seed, numRuns: KEPT_RUNS });
  let runs = 0;
  const count = fc.beforeEach(() => void (runs += 1));
  const plugins = BUDGET === Infinity ? [count] : [count, fc.interruptAfterTimeLimit(BUDGET)];
  const { MAX_SAFE_INTEGER } = Number;
  await fc.assert(property, { seed: SEED, numRuns: BUDGET === Infinity ? MAX_SAFE_INTEGER : RUNS, plugins });
  const before = kept.length === 0 ? '' : `, after ${KEPT_RUNS} of each of the ${kept.length} seeds that once failed`;
  process.stdout.write(`${name}: ${runs} runs, seed ${SEED}${before}${about()}\n`);
  return runs;
}
