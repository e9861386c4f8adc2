import Docker from 'dockerode';
import { ImageCoordinator } from 'handover';
import { dockerImages } from 'handover/docker';
import { FakeEngine } from 'handover/testing';
import { cpuOf, quick, report, turns } from '../work.js';

const PAIRS = quick ? 1_000 : 50_000;
const ASKING_PAIRS = quick ? 20 : 500;
const ROUNDS = quick ? 1 : 15;

const engine = await FakeEngine.start();
const { digest } = engine.publish('app:v1');
const docker = new Docker({ socketPath: engine.socketPath });
const images = new ImageCoordinator({ source: dockerImages(docker) });
const byDigest = `app@${digest}`;
// Held by somebody else all the time, as the image of what runs is.
await images.acquire('app:v1', { owner: 'running' });
await images.acquire(byDigest, { owner: 'running' });

/** µs a pair. */
async function pairs(count: number, reference: string): Promise<number> {
  const cpu = await cpuOf(async () => {
    for (let i = 0; i < count; i++) await (await images.acquire(reference, { owner: 'next' })).release();
  });
  return cpu / count;
}

/** The least that can be done: a counter in a map, told by a promise. */
const counters = new Map<string, { held: number }>([[byDigest, { held: 1 }]]);
async function count(reference: string): Promise<{ release(): Promise<void> }> {
  const counter = counters.get(reference)!;
  counter.held++;
  return {
    async release() {
      counter.held--;
    },
  };
}

// First, while the connections are young: what follows leaves no time to notice that the engine has closed them.
const seen = { ours: [] as string[] };
const asking = await turns(ROUNDS, {
  ours: async () => {
    const from = engine.calls.length;
    const cpu = await pairs(ASKING_PAIRS, 'app:v1');
    seen.ours = engine.calls.slice(from);
    return cpu;
  },
  inspect: async () => {
    const cpu = await cpuOf(async () => {
      for (let i = 0; i < ASKING_PAIRS; i++) await docker.getImage('app:v1').inspect();
    });
    return cpu / ASKING_PAIRS;
  },
});
const inspects = seen.ours.filter((call) => call === 'GET /images/app:v1/json').length;

const callsBefore = engine.calls.length;
const warm = await turns(ROUNDS, {
  ours: () => pairs(PAIRS, byDigest),
  counter: async () => {
    const cpu = await cpuOf(async () => {
      for (let i = 0; i < PAIRS; i++) await (await count(byDigest)).release();
    });
    return cpu / PAIRS;
  },
});
const callsByDigest = engine.calls.length - callsBefore;

await images.close();
await engine.close();
report({
  warm,
  asking,
  callsByDigest,
  callsByTag: seen.ours.length / ASKING_PAIRS,
  inspectsByTag: inspects / ASKING_PAIRS,
});
