import { spawn, type ChildProcess } from 'node:child_process';
import { accessSync, constants, openSync, closeSync, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** A server process of the harness, ended by its own pid. */
export interface Child {
  readonly pid: number;
  readonly process: ChildProcess;
  /** The last lines that it logged. */
  tail(): string;
  /** SIGTERM, and SIGKILL after the patience in ms. */
  end(patience: number): Promise<void>;
  /** SIGKILL at once. */
  kill(): Promise<void>;
}

/** Where a program is, looked up in PATH and the folders of system programs; undefined when it is not installed. */
export function findProgram(name: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/sbin'];
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Starts a server in a process group of its own, so that Ctrl-C in a terminal does not end it before its time. */
export function startChild(
  program: string,
  args: readonly string[],
  logFile: string,
  env: NodeJS.ProcessEnv = process.env,
): Child {
  const log = openSync(logFile, 'a');
  const child = spawn(program, args, { detached: true, stdio: ['ignore', log, log], env });
  closeSync(log);
  child.on('error', () => {}); // seen as a missing pid below
  const { pid } = child;
  if (pid === undefined) throw new Error(`${program} could not be started`);
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const gone = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) await exited;
  };
  return {
    pid,
    process: child,
    tail: () => readFileSync(logFile, 'utf8').split('\n').slice(-25).join('\n'),
    async end(patience) {
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), patience);
      await gone();
      clearTimeout(timer);
    },
    async kill() {
      child.kill('SIGKILL');
      await gone();
    },
  };
}

/**
 * Polls until the child answers.
 *
 * @throws Error with the tail of its log when it exits, or does not answer in time
 */
export async function untilReady(
  name: string,
  child: Child,
  answers: () => Promise<unknown>,
  patience: number,
): Promise<void> {
  const deadline = Date.now() + patience;
  for (;;) {
    try {
      await answers();
      return;
    } catch {
      const ended = child.process.exitCode ?? child.process.signalCode;
      if (ended !== null) throw new Error(`${name} ended with ${ended} before it was ready. Its log:\n${child.tail()}`);
      if (Date.now() > deadline)
        throw new Error(`${name} was not ready after ${patience} ms. Its log:\n${child.tail()}`);
      await sleep(100);
    }
  }
}
