/** What several runs of one thing gave. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly runs: number;
}

export function spread(values: readonly number[] = []): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (index: number): number => sorted[index] ?? Number.NaN;
  const middle = sorted.length / 2;
  const median = sorted.length % 2 === 1 ? at(Math.floor(middle)) : (at(middle - 1) + at(middle)) / 2;
  return { median, min: at(0), max: at(sorted.length - 1), runs: sorted.length };
}

/** As the table shows it: `3.1 µs (2.9–4.0)`. */
export function shown({ median, min, max }: Spread, unit: string, digits: number): string {
  return `${median.toFixed(digits)} ${unit} (${min.toFixed(digits)}–${max.toFixed(digits)})`;
}

export const micros = (figures: Spread): string => shown(figures, 'µs', 2);
export const millis = (figures: Spread): string => shown(figures, 'ms', 0);
export const bytes = (figures: Spread): string => shown(figures, 'B', 0);
