import type { Bench } from '../bench.js';
import { type Figures, runIsolated } from '../isolated.js';
import { micros, spread } from '../stats.js';

interface Found {
  readonly warm: Figures;
  readonly asking: Figures;
  readonly callsByDigest: number;
  readonly callsByTag: number;
  readonly inspectsByTag: number;
}

/** Taking and letting go of what is held already. */
export const b3: Bench = {
  id: 'B3',
  title: 'acquire and release of an image that is held (processor time a pair)',
  async run({ quick }) {
    const raw = await runIsolated<Found>('b3', quick);
    const ours = spread(raw.warm['ours']);
    const counter = spread(raw.warm['counter']);
    const asking = spread(raw.asking['ours']);
    const inspect = spread(raw.asking['inspect']);
    const { callsByDigest, callsByTag, inspectsByTag } = raw;
    return {
      rows: [
        { what: 'a counter in a Map, and a promise', value: micros(counter), ratio: 1 },
        {
          ...{ what: 'handover, by digest', value: micros(ours), ratio: ours.median / counter.median },
          target: { text: '≤ 10 µs, no engine call', met: ours.median <= 10 && callsByDigest === 0 },
        },
        { what: 'one inspect by the client, engine included', value: micros(inspect), ratio: 1 },
        {
          ...{ what: 'handover, by tag', value: micros(asking), ratio: asking.median / inspect.median },
          target: { text: 'one inspect a pair', met: callsByTag === 1 && inspectsByTag === 1 },
        },
      ],
      raw,
    };
  },
};
