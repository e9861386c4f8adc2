/* What the work of an isolated benchmark is made of. */
import type { Figures } from './isolated.js';

/** Only to see that it still works. */
export const quick = process.argv.includes('--quick');

/** Hands the figures to whoever started this process. */
export function report(figures: object): void {
  process.send?.(figures, () => process.disconnect());
}

/** Lets the contenders take turns, A B A B …, after one round that does not count. */
export async function turns(
  rounds: number,
  contenders: Readonly<Record<string, () => Promise<number>>>,
): Promise<Figures> {
  const figures: Record<string, number[]> = {};
  for (let round = 0; round <= rounds; round++) {
    for (const [name, run] of Object.entries(contenders)) {
      const figure = await run();
      if (round > 0) (figures[name] ??= []).push(figure);
    }
  }
  return figures;
}

/** Processor time of some work in µs, all threads together. */
export async function cpuOf(work: () => Promise<unknown>): Promise<number> {
  globalThis.gc?.();
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

/** Bytes of the heap in use, garbage collected. */
export function heapUsed(): number {
  // What was freed by the first may free more.
  globalThis.gc?.();
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}
