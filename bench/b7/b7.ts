import type { Bench } from '../bench.js';
import { type Figures, runIsolated } from '../isolated.js';
import { micros, shown, spread } from '../stats.js';

interface Found {
  readonly figures: Figures;
  /** Between the most and the least that was alive during a pull, bytes. */
  readonly heap: readonly number[];
  /** 99th percentile of the event loop's delay, ms. */
  readonly delays: readonly number[];
  readonly lines: number;
}

const MEGABYTE = 1_000_000;

/** A pull that has a lot to tell. */
export const b7: Bench = {
  id: 'B7',
  title: 'progress stream of 1,000,000 lines, through the coordinator (processor time a line)',
  async run({ quick }) {
    const raw = await runIsolated<Found>('b7', quick);
    const ours = spread(raw.figures['ours']);
    const split = spread(raw.figures['split']);
    const heap = spread(raw.heap.map((bytes) => bytes / MEGABYTE));
    const delay = spread(raw.delays);
    const ratio = ours.median / split.median;
    return {
      rows: [
        { what: "split('\\n') and JSON.parse", value: micros(split), ratio: 1 },
        { what: 'handover', value: micros(ours), ratio, target: { text: '≤ 1.3 ×', met: ratio <= 1.3 } },
        {
          ...{ what: 'growth of the heap during a pull', value: shown(heap, 'MB', 2) },
          target: { text: 'constant: ≤ 1 MB', met: heap.median <= 1 },
        },
        {
          ...{ what: 'delay of the event loop, p99', value: shown(delay, 'ms', 1) },
          target: { text: '≤ 10 ms', met: delay.median <= 10 },
        },
      ],
      raw,
    };
  },
};
