import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Clock } from '../clock.js';
import { deferred } from '../internal/deferred.js';
import { type Identity, identify } from '../internal/process-identity.js';
import { MARK } from './identity.js';
import { type CheckedSpec, environment } from './spec.js';
import { ChildExit, type TaskExit } from './task-exit.js';

/** A process that was started by us. */
export interface Launched {
  readonly identity: Identity;
  readonly exit: TaskExit;
}

/** A link that a task has put there leads nowhere for us: it may write where it could not itself. */
const APPEND = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW;

/**
 * Starts a process as the leader of its own group, with its output going straight to files, so that it lives on when
 * this process ends.
 *
 * @param mark - by which what it starts can be found again
 * @throws a system error, such as `ENOENT`; then nothing runs
 */
export async function launch(spec: CheckedSpec, folder: string, mark: string, clock: Clock): Promise<Launched> {
  const files: FileHandle[] = [];
  try {
    for (const path of [spec.stdout, spec.stderr])
      files.push(await open(resolve(folder, path), spec.uid === undefined ? 'a' : APPEND));
    const env = { ...environment(spec, process.env), [MARK]: mark };
    const { uid, gid } = spec;
    return await begin(spec, { cwd: resolve(folder, spec.cwd), env, uid, gid }, clock, files);
  } finally {
    for (const file of files) await file.close();
  }
}

async function begin(
  { argv: [program, ...args] }: CheckedSpec,
  where: Pick<SpawnOptions, 'cwd' | 'env' | 'uid' | 'gid'>,
  clock: Clock,
  files: readonly FileHandle[],
): Promise<Launched> {
  const child = spawn(program, args, {
    ...where,
    detached: true,
    stdio: ['ignore', ...files.map(({ fd }) => fd)],
  });
  // In this very turn: a program that ends at once must not end unheard, nor its number be taken for its own later.
  const exit = new ChildExit(child, clock);
  const identity = child.pid === undefined ? undefined : identifyChild(child, child.pid);
  const spawned = deferred();
  child.on('spawn', spawned.resolve).on('error', spawned.reject);
  child.unref();
  await spawned.promise;
  if (identity === undefined) throw new Error(`${program} got no process number`);
  return { identity, exit };
}

/** A process that could not be found again must not be left running. */
function identifyChild(child: ChildProcess, pid: number): Identity {
  try {
    return identify(pid);
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
}
