import { ImageCoordinator, systemClock } from 'handover';
import { HeapTimer } from '../../src/internal/heap-timer.js';
import { countingClock } from '../../test/engine/harness/counting-clock.js';
import { MemorySource } from '../memory-source.js';
import { cpuOf, heapUsed, quick, report, turns } from '../work.js';

const MANY = quick ? 2_000 : 100_000;
const FEW = MANY / 100;
const ROUNDS = quick ? 1 : 5;
const MINUTE = 60_000;
const nothing = (): void => {};

/** Many images that were let go of: the timers that are armed for their removal. */
async function idleImages(): Promise<{ armed: number; idle: number }> {
  const clock = countingClock();
  const images = new ImageCoordinator({ source: new MemorySource() }, { clock });
  for (let i = 0; i < MANY; i++) await (await images.acquire(`app:v${i}`, { owner: 'a' })).release();
  const idle = images.snapshot().filter(({ state }) => state === 'idle').length;
  const { armed } = clock;
  await images.close();
  return { armed, idle };
}

type Set = (ms: number) => () => void;

const heap = (): Set => {
  const timer = new HeapTimer(systemClock);
  return (ms) => timer.add(ms, () => {});
};
const timeouts = (): Set => (ms) => {
  const timer = setTimeout(() => {}, ms).unref();
  return () => clearTimeout(timer);
};

/** Delays as they come: not in order, and none of them soon. */
const delay = (i: number): number => MINUTE + ((i * 7_919) % MINUTE);

/** Bytes an alarm. */
async function memory(make: () => Set): Promise<number> {
  const set = make();
  const cancels: (() => void)[] = new Array<() => void>(MANY).fill(nothing);
  const before = heapUsed();
  for (let i = 0; i < MANY; i++) cancels[i] = set(delay(i));
  const used = heapUsed() - before;
  for (const cancel of cancels) cancel();
  return used / MANY;
}

/** µs to set and cancel one, while `pending` others are set. */
async function cost(make: () => Set, pending: number): Promise<number> {
  const set = make();
  const others = Array.from({ length: pending }, (_, i) => set(delay(i)));
  const times = MANY;
  const cpu = await cpuOf(async () => {
    for (let i = 0; i < times; i++) set(delay(i * 31))();
  });
  for (const cancel of others) cancel();
  return cpu / times;
}

const images = await idleImages();
const figures = await turns(ROUNDS, {
  heapMemory: () => memory(heap),
  timeoutMemory: () => memory(timeouts),
  heapFew: () => cost(heap, FEW),
  timeoutFew: () => cost(timeouts, FEW),
  heapMany: () => cost(heap, MANY),
  timeoutMany: () => cost(timeouts, MANY),
});
report({ figures, images, many: MANY, few: FEW });
