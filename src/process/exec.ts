import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Call } from '../call.js';
import type { ExecResult } from '../driver/driver.js';
import { messageOf } from '../internal/message-of.js';
import { signalNumber } from '../internal/signal-names.js';
import { onAbort } from '../internal/signals.js';
import { errorCode } from '../internal/system-error.js';
import { EXEC_OUTPUT_BYTES, Tail } from '../internal/tail.js';
import type { Place } from './task-folder.js';

/** What a shell says of a program that is not there, and of one that cannot be run. */
const NOT_THERE = 127;
const NOT_TO_RUN = 126;
/** What a shell adds to the number of the signal that ended a program. */
const BY_SIGNAL = 128;

/** The environment that a process was started with; `undefined` when it has ended, or is not to be looked into. */
export function environmentOf(pid: number): NodeJS.ProcessEnv | undefined {
  try {
    const variables = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
    return Object.fromEntries(
      variables.filter((one) => one !== '').map((one) => one.split(/=(.*)/s).slice(0, 2) as [string, string]),
    );
  } catch {
    return undefined;
  }
}

/** Runs a command beside a task, and waits for its end. */
export async function execIn(
  { cwd, user }: Place,
  env: NodeJS.ProcessEnv,
  [program = '', ...args]: readonly string[],
  { signal }: Call,
): Promise<ExecResult> {
  const output = new Tail(EXEC_OUTPUT_BYTES);
  const child = spawn(program, args, { cwd, env, ...user, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.add(chunk));
  const dispose = onAbort(signal, () => killGroup(child));
  try {
    const code = await exitOf(child);
    signal?.throwIfAborted();
    return { code, output: output.text };
  } catch (error) {
    signal?.throwIfAborted();
    return { code: errorCode(error) === 'ENOENT' ? NOT_THERE : NOT_TO_RUN, output: messageOf(error) };
  } finally {
    dispose();
  }
}

/** Once all of its output has come. */
function exitOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve(code ?? BY_SIGNAL + (signalNumber(signal ?? '') ?? 0)));
  });
}

/** With what it has started; the number is its own until it is told to have ended. */
function killGroup({ pid, exitCode, signalCode }: ChildProcess): void {
  if (pid === undefined || exitCode !== null || signalCode !== null) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if (errorCode(error) !== 'ESRCH') throw error;
  }
}
