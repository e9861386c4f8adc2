/** What a test leaves to chance; the same seed decides the same. */
export interface Chance {
  readonly seed: number;
  /** A whole number from 0, below `limit`. */
  below(limit: number): number;
  /** One of them, or `undefined` if there is none. */
  oneOf<T>(values: readonly T[]): T | undefined;
  /** Whether it happens, with so many percent. */
  percent(chance: number): boolean;
}

/** @param usual - the seed, unless HANDOVER_SEED names another one */
export function chance(usual: number): Chance {
  const seed = Number(process.env['HANDOVER_SEED'] ?? usual);
  let state = seed >>> 0;
  // mulberry32
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number): number => Math.floor(next() * limit);
  return {
    ...{ seed, below },
    oneOf: (values) => values[below(values.length)],
    percent: (percent) => below(100) < percent,
  };
}
