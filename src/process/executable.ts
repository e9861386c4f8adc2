import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, join, resolve } from 'node:path';
import { type CheckedSpec, environment } from './spec.js';

/**
 * Looks whether the program could be started, as `execvp(3)` will look for it. Found out now, it costs nobody service;
 * found out at the start, the previous task has already been stopped (DP-1).
 *
 * @param folder - the task's directory
 * @returns what is wrong, `undefined` = nothing
 */
export async function startProblem(spec: CheckedSpec, folder: string): Promise<string | undefined> {
  const cwd = resolve(folder, spec.cwd);
  if (!(await isFolder(cwd))) return `the directory ${cwd} to start in is not there`;
  const [program] = spec.argv;
  const candidates = program.includes('/')
    ? [resolve(cwd, program)]
    : (environment(spec, process.env)['PATH'] ?? '').split(delimiter).map((path) => join(resolve(cwd, path), program));
  for (const candidate of candidates) if (await isProgram(candidate)) return undefined;
  return program.includes('/')
    ? `${program} is not a file that can be executed`
    : `there is no program ${program} in the PATH that the process gets`;
}

async function isFolder(path: string): Promise<boolean> {
  const facts = await stat(path).catch(() => undefined);
  return facts?.isDirectory() === true;
}

async function isProgram(path: string): Promise<boolean> {
  const facts = await stat(path).catch(() => undefined);
  if (facts?.isFile() !== true) return false;
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}
