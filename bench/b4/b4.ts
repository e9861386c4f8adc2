import type { Bench } from '../bench.js';
import { type Figures, runIsolated } from '../isolated.js';
import { bytes, micros, spread } from '../stats.js';

interface Found {
  readonly figures: Figures;
  readonly callers: number;
  /** The most pulls that one gathering made. */
  readonly pulls: number;
}

/** Many callers, one pull. */
export const b4: Bench = {
  id: 'B4',
  title: '10,000 callers of one absent image at once (processor time and memory a caller)',
  async run({ quick }) {
    const raw = await runIsolated<Found>('b4', quick);
    const one = spread(raw.figures['one']);
    const cpu = spread(raw.figures['cpu']);
    const memory = spread(raw.figures['memory']);
    return {
      rows: [
        { what: 'one caller alone', value: micros(one), ratio: 1 },
        {
          ...{ what: `each of ${raw.callers} callers`, value: micros(cpu), ratio: cpu.median / one.median },
          target: { text: '≤ 20 µs a caller, 1 pull', met: cpu.median <= 20 && raw.pulls === 1 },
        },
        {
          ...{ what: 'memory while they wait', value: bytes(memory) },
          target: { text: '≤ 2,048 B a caller', met: memory.median <= 2_048 },
        },
      ],
      raw,
    };
  },
};
