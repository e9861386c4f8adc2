import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Readable } from 'node:stream';
import { ImageCoordinator } from 'handover';
import { dockerImages } from 'handover/docker';
import { cpuOf, heapUsed, quick, report, turns } from '../work.js';

const LINES = quick ? 20_000 : 1_000_000;
const ROUNDS = quick ? 1 : 5;
const CHUNK = 65_536;
const LAYERS = 12;

/** Lines as an engine writes them while it downloads. */
const LINE = (i: number): string =>
  JSON.stringify({
    status: 'Downloading',
    progressDetail: { current: i * 32, total: LINES * 32 },
    progress: '[====>                    ]  12.34MB/56.78MB',
    id: (0xabc000000000 + (i % LAYERS)).toString(16),
  });

/** One text, sent as often as it takes: making it is not what is measured. */
const BATCH = 10_000;
const text = Buffer.from(Array.from({ length: BATCH }, (_, i) => `${LINE(i)}\r\n`).join(''));
const bodies = LINES / BATCH;
const end = Buffer.from('{"status":"Status: Downloaded newer image for app:v1"}\r\n');

/** As from a socket: a chunk a turn of the event loop. */
function stream(): Readable {
  return Readable.from(chunks(), { objectMode: false });
}

async function* chunks(): AsyncGenerator<Buffer> {
  for (let i = 0; i < bodies; i++) {
    for (let at = 0; at < text.length; at += CHUNK) {
      await nextTurn();
      yield text.subarray(at, at + CHUNK);
    }
  }
  yield end;
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** The client of an engine that has nothing but such streams. */
const client = {
  modem: {
    dial({ path }: { path: string }, done: (error: null, response: Readable) => void): void {
      const isPull = path.startsWith('/images/create');
      const inspect = Readable.from([Buffer.from(JSON.stringify({ Id: 'sha256:1', RepoTags: ['app:v1'] }))]);
      done(null, Object.assign(isPull ? stream() : inspect, { statusCode: 200 }));
    },
  },
};

const heap: number[] = [];
const delays: number[] = [];

/** µs a line. */
async function pulled(): Promise<number> {
  const images = new ImageCoordinator({ source: dockerImages(client), removal: { enabled: false } });
  let told = 0;
  const cpu = await cpuOf(() => images.acquire('app:v1', { owner: 'a', policy: 'always', onProgress: () => told++ }));
  await images.close();
  if (told === 0) throw new Error('nobody was told of the progress');
  return cpu / LINES;
}

async function split(): Promise<number> {
  let bytes = 0;
  const cpu = await cpuOf(async () => {
    let rest = '';
    for await (const chunk of stream() as AsyncIterable<Buffer>) {
      const lines = (rest + chunk.toString()).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) bytes += (JSON.parse(line) as { id?: string }).id?.length ?? 0;
    }
  });
  if (bytes === 0) throw new Error('nothing was read');
  return cpu / LINES;
}

/** What is alive in the middle of a pull, and how long the event loop is away meanwhile. */
async function watched(): Promise<void> {
  const images = new ImageCoordinator({ source: dockerImages(client), removal: { enabled: false } });
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await images.acquire('app:v1', { owner: 'a', policy: 'always', onProgress: () => {} });
  delay.disable();
  delays.push(delay.percentile(99) / 1e6);
  const samples: number[] = [];
  let told = 0;
  await images.acquire('app:v1', {
    ...{ owner: 'a', policy: 'always' },
    onProgress: () => {
      if (told++ % 2 === 0) samples.push(heapUsed());
    },
  });
  await images.close();
  heap.push(Math.max(...samples.slice(1)) - Math.min(...samples.slice(1)));
}

const figures = await turns(ROUNDS, { ours: pulled, split });
for (let round = 0; round < ROUNDS; round++) await watched();
report({ figures, heap, delays, lines: LINES });
