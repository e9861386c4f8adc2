import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { platform } from 'node:process';
import { errorCode } from './system-error.js';

/** A process that cannot be mistaken for a later one that got its number (DP-10). A task's leads its own group. */
export interface Identity {
  readonly pid: number;
  /**
   * When it started, as the system tells it: on Linux in clock ticks since boot, elsewhere in ms since the epoch. To be
   * compared, not shown.
   */
  readonly startedAt: number;
}

/** A process, and from where it can be seen whether it is alive. */
export interface Whereabouts extends Identity {
  /** The host, since it was last booted; hexadecimal. */
  readonly boot: string;
  /** Within which its pid means it, a number; containers have others. */
  readonly namespace: string;
}

export interface Seen {
  readonly startedAt: number;
  /** The number of its process group. */
  readonly group: number;
  /** It has ended, and its parent has not asked for its exit yet. */
  readonly zombie: boolean;
}

/** From `proc(5)`: the fields after the name in parentheses, which may itself contain spaces and parentheses. */
const STATE = 0;
const GROUP = 2;
const START_TIME = 19;

/** What runs under a number now; `undefined`: nothing. */
export function look(pid: number): Seen | undefined {
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
  return {
    startedAt: Number(fields[START_TIME]),
    group: Number(fields[GROUP]),
    zombie: fields[STATE] === 'Z' || fields[STATE] === 'X',
  };
}

function askPs(pid: number): Seen | undefined {
  const { stdout, error } = spawnSync('ps', ['-o', 'state=,pgid=,lstart=', '-p', String(pid)], {
    encoding: 'utf8',
    env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
  });
  if (error !== undefined) throw error;
  const match = /^\s*(\S+)\s+(\d+)\s+(.+?)\s*$/.exec(stdout);
  if (match === null) return undefined;
  const [, state = '', group, started = ''] = match;
  return { startedAt: Date.parse(started), group: Number(group), zombie: state.startsWith('Z') };
}

/**
 * The identity of this process, or of a child in the turn in which it was spawned: until then nobody can have taken its
 * exit, so its number is still its own.
 */
export function identify(pid: number): Identity {
  const seen = look(pid);
  if (seen === undefined) throw new Error(`process ${pid} was started and cannot be seen`);
  return { pid, startedAt: seen.startedAt };
}

/** The host, since it was last booted; hexadecimal. Off Linux a host is known by its name only. */
export function bootId(): string {
  const boot = platform === 'linux' ? readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() : hostname();
  return createHash('sha256').update(boot).digest('hex').slice(0, 16);
}

/** Of this very process. Off Linux there are no namespaces. */
export function whereabouts(): Whereabouts {
  const namespace = platform === 'linux' ? readlinkSync('/proc/self/ns/pid').replaceAll(/\D/g, '') : '0';
  return { ...identify(process.pid), boot: bootId(), namespace };
}

/** Whether exactly this process runs. */
export function isAlive({ pid, startedAt }: Identity): boolean {
  const seen = look(pid);
  return seen?.startedAt === startedAt && !seen.zombie;
}
