/** How thoroughly to measure. */
export interface BenchOptions {
  /** Only to see that it still works: one small run of each contender. */
  readonly quick: boolean;
  /** Tells a person what is going on. */
  log(line: string): void;
}

/** One line of the table. */
export interface BenchRow {
  readonly what: string;
  /** As shown: `142 ms (131–170)`. */
  readonly value: string;
  /** To the baseline of the same run. */
  readonly ratio?: number;
  /** What it must reach, and whether it did; absent for what is only shown. */
  readonly target?: { readonly text: string; readonly met: boolean };
}

/** What a benchmark found, or why it could not be run here. */
export type BenchResult = { readonly rows: readonly BenchRow[]; readonly raw: object } | { readonly skipped: string };

/** One benchmark of the design's list. */
export interface Bench {
  readonly id: string;
  readonly title: string;
  run(o: BenchOptions): Promise<BenchResult>;
}
