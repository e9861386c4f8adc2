import { mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Docker from 'dockerode';
import { startChild, untilReady, type Child } from './children.js';

/** A dockerd that we started. */
export interface Dockerd {
  readonly socketPath: string;
  readonly child: Child;
  /** Ends it with all that it started. */
  end(): Promise<void>;
}

/** Where the socket of a dockerd with this folder is. */
export const socketIn = (folder: string): string => join(folder, 'docker.sock');

/**
 * Starts a dockerd that keeps everything in `folder`, and waits until it answers.
 *
 * @param more - further options of it
 * @throws Error with the tail of its log
 */
export async function startDockerd(program: string, folder: string, more: readonly string[] = []): Promise<Dockerd> {
  mkdirSync(folder, { recursive: true });
  const socketPath = socketIn(folder);
  const args = [
    ...['--data-root', join(folder, 'data'), '--exec-root', join(folder, 'exec')],
    ...['-H', `unix://${socketPath}`, '--pidfile', join(folder, 'pid')],
    // A layer that fails is tried again 5 times, after 5, 10, 15 … s: once is enough to see that it is.
    ...['--max-download-attempts', '1', '--shutdown-timeout', '3'],
    ...more,
  ];
  const child = startChild(program, args, join(folder, 'dockerd.log'));
  const end = (): Promise<void> => endDockerd(child, folder);
  try {
    await untilReady('dockerd', child, () => new Docker({ socketPath }).ping(), 90_000);
  } catch (cause) {
    await end();
    throw cause;
  }
  return { socketPath, child, end };
}

/** The processes that `matches` says yes to. */
export function pidsWhere(matches: (pid: number) => boolean): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return matches(pid);
      } catch {
        return false; // it ended while we looked
      }
    });
}

async function endDockerd(child: Child, folder: string): Promise<void> {
  await child.end(20_000);
  // After a dockerd that had to be killed: its containerd, shims and what they run still use the folder.
  const users = (): number[] => pidsWhere((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`${folder}/`));
  for (let tries = 0; tries < 50 && users().length > 0; tries++) {
    if (tries > 20) for (const pid of users()) process.kill(pid, 'SIGKILL');
    await sleep(100);
  }
  const mounts = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((path) => path.startsWith(`${folder}/`));
  for (const path of mounts.reverse()) spawnSync('umount', ['-l', path]);
}
