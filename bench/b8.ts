import { once } from 'node:events';
import Docker from 'dockerode';
import { ImageCoordinator } from 'handover';
import { dockerImages } from 'handover/docker';
import { pushImage } from '../test/engine/harness/images.js';
import { startParts } from '../test/engine/harness/start.js';
import type { Bench } from './bench.js';
import { millis, spread } from './stats.js';

/** A pull through the coordinator. */
export const b8: Bench = {
  id: 'B8',
  title: 'pull of a 30 MB image over a fast registry, real engine',
  async run({ quick, log }) {
    const { parts, end } = await startParts();
    try {
      const { engine, registry, app } = parts;
      const missing = [engine, registry, app].find((part) => !part.available);
      if (!engine.available || !registry.available || missing?.available === false) {
        return { skipped: missing?.available === false ? missing.reason : 'a part is absent' };
      }
      const name = `bench-${parts.runId}`;
      await pushImage(parts, { name, tag: 'v1', paddingMb: quick ? 3 : 30 });
      const docker = new Docker({ socketPath: engine.socketPath });
      const reference = `127.0.0.1:${registry.port}/${name}:v1`;
      const raw: { raw: number[]; ours: number[] } = { raw: [], ours: [] };
      const contenders = { raw: () => drained(docker, reference), ours: () => coordinated(docker, reference) };
      for (let round = 0; round <= (quick ? 0 : 9); round++) {
        for (const contender of ['raw', 'ours'] as const) {
          const start = performance.now();
          await contenders[contender]();
          const took = performance.now() - start;
          await docker.getImage(reference).remove();
          // The first of each is for warming up.
          if (round > 0 || quick) raw[contender].push(took);
          log(`round ${round}: ${contender}: ${Math.round(took)} ms`);
        }
      }
      const [floor, ours] = [spread(raw.raw), spread(raw.ours)];
      const ratio = ours.median / floor.median;
      return {
        rows: [
          { what: 'dockerode, drained', value: millis(floor), ratio: 1 },
          { what: 'handover', value: millis(ours), ratio, target: { text: '≤ 1.10 ×', met: ratio <= 1.1 } },
        ],
        raw,
      };
    } finally {
      await end();
    }
  },
};

async function drained(docker: Docker, reference: string): Promise<void> {
  const stream = await docker.pull(reference);
  stream.resume();
  await once(stream, 'end');
}

async function coordinated(docker: Docker, reference: string): Promise<void> {
  const images = new ImageCoordinator({ source: dockerImages(docker), removal: { enabled: false } });
  await images.acquire(reference, { owner: 'bench' });
  await images.close();
}
