import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, dirname, join, resolve } from 'node:path';
import { type CheckedSpec, environment } from './spec.js';

/** Where `execvp(3)` looks when there is no `PATH`. */
const DEFAULT_PATH = '/bin:/usr/bin';

/**
 * Looks whether the process could be started. Found out now, it costs nobody service; found out at the start, the
 * previous task has already been stopped (DP-1).
 *
 * @param folder - the task's directory
 * @param own - names in it that are not for output: what is there belongs to the driver, or is shared content
 * @returns what is wrong, `undefined` = nothing
 */
export async function startProblem(
  spec: CheckedSpec,
  folder: string,
  own: readonly string[],
): Promise<string | undefined> {
  const cwd = resolve(folder, spec.cwd);
  if (!(await isFolder(cwd, constants.X_OK)))
    return `the directory ${cwd} to start in is not there, or not to be entered`;
  const reserved = own.map((name) => join(folder, name));
  return (
    (await programProblem(spec, cwd)) ??
    (await outputProblem('stdout', resolve(folder, spec.stdout), reserved)) ??
    (await outputProblem('stderr', resolve(folder, spec.stderr), reserved))
  );
}

/** Looks where `execvp(3)` will. */
async function programProblem(spec: CheckedSpec, cwd: string): Promise<string | undefined> {
  const [program] = spec.argv;
  const path = environment(spec, process.env)['PATH'] ?? DEFAULT_PATH;
  const candidates = program.includes('/')
    ? [resolve(cwd, program)]
    : path.split(delimiter).map((part) => join(resolve(cwd, part), program));
  for (const candidate of candidates) if (await isProgram(candidate)) return undefined;
  return program.includes('/')
    ? `${program} is not a file that can be executed`
    : `there is no program ${program} in the PATH that the process gets`;
}

/** Nothing is opened: that would make the file, and opening a pipe waits for who reads it. */
async function outputProblem(name: string, path: string, reserved: readonly string[]): Promise<string | undefined> {
  if (reserved.includes(path)) return `${name} cannot go to ${path}, which is the driver’s own`;
  const facts = await stat(path).catch(() => undefined);
  if (facts === undefined) {
    const folder = dirname(path);
    const can = await isFolder(folder, constants.W_OK | constants.X_OK);
    return can ? undefined : `the directory ${folder} for ${name} is not there, or not to be written to`;
  }
  if (!facts.isFile() && !facts.isCharacterDevice()) return `${path} for ${name} is not a file`;
  return (await may(path, constants.W_OK)) ? undefined : `the file ${path} for ${name} may not be written to`;
}

async function isFolder(path: string, mode: number): Promise<boolean> {
  const facts = await stat(path).catch(() => undefined);
  return facts?.isDirectory() === true && may(path, mode);
}

async function isProgram(path: string): Promise<boolean> {
  const facts = await stat(path).catch(() => undefined);
  return facts?.isFile() === true && may(path, constants.X_OK);
}

/** By the rights of this very process, which are those of the task. */
function may(path: string, mode: number): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}
