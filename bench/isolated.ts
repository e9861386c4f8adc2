import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'tsup';

const CACHE = fileURLToPath(new URL('../.cache/bench', import.meta.url));

/** The figures of a contender, one for each round. */
export type Figures = Readonly<Record<string, readonly number[]>>;

/**
 * Runs a benchmark of the processor or the memory in a process of its own: with a heap that nothing else has used, a
 * collector that can be called, and the sources compiled as for the package (the loader of this process names every
 * function anew each time it is made, which costs more than some of what is measured).
 *
 * @param id - the folder of the benchmark; its `work.ts` calls {@link report} in the end
 */
export async function runIsolated<T>(id: string, quick: boolean): Promise<T> {
  const entry = fileURLToPath(new URL(`${id}/work.ts`, import.meta.url));
  await build({
    ...{ config: false, silent: true, dts: false, splitting: false, sourcemap: false },
    ...{ entry: { [id]: entry }, outDir: CACHE, format: 'esm', target: 'node20', platform: 'node' },
  });
  const child = fork(join(CACHE, `${id}.js`), quick ? ['--quick'] : [], { execArgv: ['--expose-gc'] });
  const exited = once(child, 'exit');
  const reported = once(child, 'message') as Promise<[T]>;
  const outcome = await Promise.race([reported, exited.then(([code]) => code as number | null)]);
  if (!Array.isArray(outcome)) throw new Error(`${id} ended with ${outcome} before it had reported`);
  await exited;
  return outcome[0];
}
