import type { Bench, BenchRow } from '../bench.js';
import { spread } from '../stats.js';
import { CONTENDERS } from './contenders.js';
import { type Cost, makeWorld } from './world.js';

/** Contenders that an engine may not be able to run, and that are only shown. */
const OPTIONAL = /^Swarm/;

/** Outage of one container on a fixed host port, behind a slow registry. */
export const b1: Bench = {
  id: 'B1',
  title: 'outage of one container on a fixed host port during an update (30 MB image at 3 MB/s, a request every 5 ms)',
  async run({ quick, log }) {
    const world = await makeWorld(quick ? 3 : 30, 3_000_000);
    if (typeof world === 'string') return { skipped: world };
    const costs = new Map<string, Cost[]>();
    const absent = new Map<string, string>();
    try {
      for (let round = 1; round <= (quick ? 1 : 15); round++) {
        for (const contender of CONTENDERS) {
          if (absent.has(contender.name)) continue;
          await world.forget();
          try {
            const cost = await contender.run(world);
            costs.set(contender.name, [...(costs.get(contender.name) ?? []), cost]);
            log(`round ${round}: ${contender.name}: ${Math.round(cost.outageMs)} ms, ${cost.failed} failed`);
          } catch (error) {
            if (!OPTIONAL.test(contender.name)) throw error;
            absent.set(contender.name, error instanceof Error ? error.message : String(error));
          }
        }
      }
    } finally {
      await world.end();
    }
    const rows = [...rowsOf(costs), ...[...absent].map(([what, why]) => ({ what, value: `not here: ${why}` }))];
    return {
      rows: [...rows, { what: 'docker compose up -d', value: 'not here: Compose v2 is not installed' }],
      raw: Object.fromEntries(costs),
    };
  },
};

function rowsOf(costs: ReadonlyMap<string, readonly Cost[]>): BenchRow[] {
  const floor = spread((costs.get(CONTENDERS[0]?.name ?? '') ?? []).map(({ outageMs }) => outageMs)).median;
  return [...costs].map(([what, runs]) => {
    const { median, min, max } = spread(runs.map(({ outageMs }) => outageMs));
    const longest = spread(runs.map(({ longestMs }) => longestMs)).median;
    const ratio = median / floor;
    const ours = what.startsWith('handover');
    return {
      what,
      value: `${Math.round(median)} ms (${Math.round(min)}–${Math.round(max)}), longest answer ${Math.round(longest)} ms`,
      ratio,
      ...(ours && { target: { text: 'ours / floor ≤ 1.10', met: ratio <= 1.1 } }),
    };
  });
}
