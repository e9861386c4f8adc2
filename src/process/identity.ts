import { type Identity, isAlive, look } from '../internal/process-identity.js';
import { errorCode } from '../internal/system-error.js';

/**
 * Sends a signal to the process, which leads a group of its own, and to that group; nothing happens if it has ended.
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
