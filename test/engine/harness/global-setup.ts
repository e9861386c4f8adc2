import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import type { Parts } from './parts.js';

declare module 'vitest' {
  interface ProvidedContext {
    readonly realParts: Parts;
  }
}

const SERVE = fileURLToPath(new URL('serve.ts', import.meta.url));
const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** Starts the real parts once per run, in a process that outlives a killed runner just long enough to end them. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const holder = spawn(process.execPath, ['--import', 'tsx', SERVE, '--for-runner'], {
    cwd: ROOT,
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exited = once(holder, 'exit');
  const [line] = (await Promise.race([
    once(createInterface(holder.stdout), 'line'),
    exited.then(() => {
      throw new Error('The real parts of the engine tests could not be started: see above.');
    }),
  ])) as [string];
  project.provide('realParts', JSON.parse(line) as Parts);
  return async () => {
    holder.stdin.end();
    await exited;
  };
}
