import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { platform } from 'node:process';
import { errorCode } from './file-system.js';

/** A process that cannot be mistaken for a later one that got its number (DP-10). The leader of its own group. */
export interface Identity {
  readonly pid: number;
  /**
   * When it started, as the system tells it: on Linux in clock ticks since boot, elsewhere in ms since the epoch. To be
   * compared, not shown.
   */
  readonly startedAt: number;
}

interface Seen {
  readonly startedAt: number;
  /** It has ended, and its parent has not asked for its exit yet. */
  readonly zombie: boolean;
}

/** From `proc(5)`: the fields after the name in parentheses, which may itself contain spaces and parentheses. */
const STATE = 0;
const START_TIME = 19;

function look(pid: number): Seen | undefined {
  return platform === 'linux' ? lookInProc(pid) : askPs(pid);
}

function lookInProc(pid: number): Seen | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ESRCH') return undefined;
    throw error;
  }
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { startedAt: Number(fields[START_TIME]), zombie: fields[STATE] === 'Z' || fields[STATE] === 'X' };
}

function askPs(pid: number): Seen | undefined {
  const { stdout, error } = spawnSync('ps', ['-o', 'state=,lstart=', '-p', String(pid)], {
    encoding: 'utf8',
    env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
  });
  if (error !== undefined) throw error;
  const match = /^\s*(\S+)\s+(.+?)\s*$/.exec(stdout);
  if (match === null) return undefined;
  return { startedAt: Date.parse(match[2] ?? ''), zombie: match[1]?.startsWith('Z') === true };
}

/**
 * The identity of a child; to be asked in the turn in which it was spawned: until then nobody can have taken its exit,
 * so its number is still its own.
 */
export function identify(pid: number): Identity {
  const seen = look(pid);
  if (seen === undefined) throw new Error(`process ${pid} was started and cannot be seen`);
  return { pid, startedAt: seen.startedAt };
}

/** Whether exactly this process runs. */
export function isAlive({ pid, startedAt }: Identity): boolean {
  const seen = look(pid);
  return seen?.startedAt === startedAt && !seen.zombie;
}

/**
 * Sends a signal to the process and its group; nothing happens if it has ended.
 *
 * @returns whether it was sent
 */
export function signalGroup(identity: Identity, signal: NodeJS.Signals): boolean {
  if (!isAlive(identity)) return false;
  send(identity.pid, signal);
  return true;
}

/**
 * Kills what a process has left behind in its group. The system gives no number to a new process while a group goes by
 * it: if the number belongs to somebody else now, the group is empty and nothing is sent.
 */
export function killSurvivors({ pid, startedAt }: Identity): void {
  const seen = look(pid);
  if (seen === undefined || seen.startedAt === startedAt) send(pid, 'SIGKILL');
}

function send(pid: number, signal: NodeJS.Signals): void {
  // 0 and -1 mean "my own group" and "everybody" to kill(2).
  if (!Number.isSafeInteger(pid) || pid < 2) throw new Error(`${pid} is not the number of a task's process`);
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if (errorCode(error) !== 'ESRCH') throw error;
  }
}
