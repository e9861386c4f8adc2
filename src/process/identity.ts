import { readFileSync, readdirSync } from 'node:fs';
import { platform } from 'node:process';
import { type Identity, type Seen, bootId, isAlive, look } from '../internal/process-identity.js';
import { errorCode } from '../internal/system-error.js';

/** The variable in which the processes of a task carry its mark, over whatever the spec says of it. */
export const MARK = 'HANDOVER_TASK';

/** One start of a task, on record before it happens: what came of it can be found after a crash too (DP-2). */
export interface Run {
  /** Random; in the environment of what was started. */
  readonly mark: string;
  /** Since when the host has been up: pid and start time mean something until it is booted again. */
  readonly boot: string;
  /** The leader of the group; missing while its start is not on record. */
  readonly process?: Identity | undefined;
}

/** Whether the leader runs. */
export function isRunning({ boot, process }: Run): boolean {
  return process !== undefined && boot === bootId() && isAlive(process);
}

/** The run with its leader, if that was started and this is not on record (DP-2). Off Linux it cannot be found. */
export function found(run: Run): Run {
  if (run.process !== undefined || run.boot !== bootId()) return run;
  const [leader] = marked(run.mark)
    .filter(({ pid, group }) => pid === group)
    .sort((a, b) => a.startedAt - b.startedAt);
  return leader === undefined ? run : { ...run, process: { pid: leader.pid, startedAt: leader.startedAt } };
}

/**
 * Sends a signal to the process, which leads a group of its own, and to that group; nothing happens if it has ended.
 *
 * @returns whether it was sent
 */
export function signalGroup(run: Run, signal: NodeJS.Signals | number): boolean {
  if (run.process === undefined || !isRunning(run)) return false;
  send(run.process.pid, signal);
  return true;
}

/**
 * Kills what a run has left behind. The number of a leader that has ended may be that of a stranger's group by now, whose
 * own leader may have ended as well: a group is ours while one of its members carries the mark, because the system gives
 * no number to somebody else while a group goes by it. Off Linux no mark can be seen, and nothing is killed.
 */
export function killSurvivors({ mark, boot, process }: Run): void {
  if (boot !== bootId()) return;
  if (process !== undefined && look(process.pid)?.startedAt === process.startedAt) send(process.pid, 'SIGKILL');
  else for (const group of new Set(marked(mark, process?.pid).map((one) => one.group))) send(group, 'SIGKILL');
}

/** The processes that carry a mark: of one group, or of all. */
function marked(mark: string, only?: number): readonly (Seen & { readonly pid: number })[] {
  if (platform !== 'linux') return [];
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.map(Number).flatMap((pid) => {
    const seen = look(pid);
    if (seen === undefined || (only !== undefined && seen.group !== only)) return [];
    return carries(pid, mark) ? [{ pid, ...seen }] : [];
  });
}

function carries(pid: number, mark: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(`${MARK}=${mark}`);
  } catch {
    // It has ended, or is somebody else's: nothing that could be called ours.
    return false;
  }
}

function send(pid: number, signal: NodeJS.Signals | number): void {
  // 0 and -1 mean "my own group" and "everybody" to kill(2).
  if (!Number.isSafeInteger(pid) || pid < 2) throw new Error(`${pid} is not the number of a task's process`);
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if (errorCode(error) !== 'ESRCH') throw error;
  }
}
