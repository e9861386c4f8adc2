import type { Bench } from '../bench.js';
import { type Figures, runIsolated } from '../isolated.js';
import { bytes, micros, spread } from '../stats.js';

interface Found {
  readonly figures: Figures;
  readonly images: { readonly armed: number; readonly idle: number };
  readonly many: number;
  readonly few: number;
}

/** log 100,000 / log 1,000 is 1.7; the rest is what memory that is not in the cache costs. O(n) would be 100. */
const LOGARITHMIC = 5;

/** What waits for its removal. */
export const b5: Bench = {
  id: 'B5',
  title: '100,000 idle images that wait for their removal',
  async run({ quick }) {
    const raw = await runIsolated<Found>('b5', quick);
    const { figures, images, many, few } = raw;
    const of = (name: string): ReturnType<typeof spread> => spread(figures[name]);
    const memory = of('heapMemory').median / of('timeoutMemory').median;
    const growth = of('heapMany').median / of('heapFew').median;
    return {
      rows: [
        {
          ...{ what: `timers armed for ${images.idle} idle images`, value: String(images.armed) },
          target: { text: '1', met: images.armed === 1 && images.idle === many },
        },
        { what: 'setTimeout: memory each', value: bytes(of('timeoutMemory')), ratio: 1 },
        {
          ...{ what: 'handover: memory each', value: bytes(of('heapMemory')), ratio: memory },
          target: { text: 'less', met: memory < 1 },
        },
        { what: `setTimeout: set and cancel, beside ${many}`, value: micros(of('timeoutMany')), ratio: 1 },
        { what: `handover: set and cancel, beside ${few}`, value: micros(of('heapFew')) },
        {
          ...{ what: `handover: set and cancel, beside ${many}`, value: micros(of('heapMany')) },
          ratio: of('heapMany').median / of('timeoutMany').median,
          target: { text: `O(log n): ≤ ${LOGARITHMIC} × of 100 times fewer`, met: growth <= LOGARITHMIC },
        },
      ],
      raw,
    };
  },
};
