import { ImageCoordinator, type ImageLease } from 'handover';
import { deferred } from '../../src/internal/deferred.js';
import { MemorySource } from '../memory-source.js';
import { cpuOf, heapUsed, quick, report, turns } from '../work.js';

const CALLERS = quick ? 500 : 10_000;
const ROUNDS = quick ? 1 : 11;
const pulls: number[] = [];

interface Gathering {
  readonly images: ImageCoordinator;
  readonly source: MemorySource;
  /** All ask at once; resolves when all have it. */
  acquire(callers: number): Promise<ImageLease[]>;
  /** What they wait for arrives. */
  arrive(): void;
}

function gather(): Gathering {
  const arrival = deferred();
  const source = new MemorySource(arrival.promise);
  const images = new ImageCoordinator({ source });
  return {
    ...{ images, source },
    acquire: (callers) =>
      Promise.all(Array.from({ length: callers }, (_, i) => images.acquire('app:v1', { owner: `caller ${i}` }))),
    arrive: () => arrival.resolve(),
  };
}

/** µs of processor time from the first question to the last lease. */
async function cpu(callers: number): Promise<number> {
  const { images, source, acquire, arrive } = gather();
  const used = await cpuOf(async () => {
    const all = acquire(callers);
    await nextTurn();
    arrive();
    await all;
  });
  pulls.push(source.asked.fetch);
  await images.close();
  return used;
}

/** Bytes while they wait. */
async function memory(callers: number): Promise<number> {
  const { images, acquire, arrive } = gather();
  const before = heapUsed();
  const all = acquire(callers);
  await nextTurn();
  const used = heapUsed() - before;
  arrive();
  await all;
  await images.close();
  return used;
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const figures = await turns(ROUNDS, {
  one: async () => {
    // One alone is less than the clock of the processor can tell.
    let sum = 0;
    for (let i = 0; i < 50; i++) sum += await cpu(1);
    return sum / 50;
  },
  cpu: async () => (await cpu(CALLERS)) / CALLERS,
  memory: async () => (await memory(CALLERS)) / CALLERS,
});
report({ figures, pulls: Math.max(...pulls), callers: CALLERS });
