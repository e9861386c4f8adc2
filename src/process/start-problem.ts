import { constants } from 'node:fs';
import { access, open, stat } from 'node:fs/promises';
import { delimiter, dirname, join, resolve } from 'node:path';
import { type CheckedSpec, environment } from './spec.js';

/** Where `execvp(3)` looks when there is no `PATH`. */
const DEFAULT_PATH = '/bin:/usr/bin';

/**
 * Looks whether the process could be started. Found out now, it costs nobody service; found out at the start, the
 * previous task has already been stopped (DP-1).
 *
 * @param folder - the task's directory
 * @param own - names in it that are not for output, and what they are
 * @returns what is wrong, `undefined` = nothing
 */
export async function startProblem(
  spec: CheckedSpec,
  folder: string,
  own: Readonly<Record<string, string>>,
): Promise<string | undefined> {
  const cwd = resolve(folder, spec.cwd);
  if (!(await isFolder(cwd, constants.X_OK)))
    return `the directory ${cwd} to start in is not there, or not to be entered`;
  const reserved = new Map(Object.entries(own).map(([name, what]) => [join(folder, name), what]));
  return (
    (await programProblem(spec, cwd)) ??
    (await outputProblem('stdout', resolve(folder, spec.stdout), reserved)) ??
    (await outputProblem('stderr', resolve(folder, spec.stderr), reserved))
  );
}

/** Looks where `execvp(3)` will, which passes over what cannot be run. */
async function programProblem(spec: CheckedSpec, cwd: string): Promise<string | undefined> {
  const [program] = spec.argv;
  const path = environment(spec, process.env)['PATH'] ?? DEFAULT_PATH;
  const candidates = program.includes('/')
    ? [resolve(cwd, program)]
    : path.split(delimiter).map((part) => join(resolve(cwd, part), program));
  let problem: string | undefined;
  for (const candidate of candidates) {
    if (!(await isProgram(candidate))) continue;
    const interpreter = await missingInterpreter(candidate, cwd);
    if (interpreter === undefined) return undefined;
    problem ??= `${candidate} is a script for ${JSON.stringify(interpreter)}, which is not a file that can be executed`;
  }
  if (problem !== undefined) return problem;
  return program.includes('/')
    ? `${program} is not a file that can be executed`
    : `there is no program ${program} in the PATH that the process gets`;
}

/** How much of a script Linux reads for its interpreter, in bytes. */
const FIRST_LINE = 256;

/**
 * The system says of a script whose interpreter is missing that the script is. A relative one is looked up from where
 * the process starts.
 *
 * @param deep - how many may be scripts themselves, as Linux counts
 */
async function missingInterpreter(script: string, cwd: string, deep = 4): Promise<string | undefined> {
  const [, interpreter] = /^#![ \t]*([^ \t\n\0]+)[ \t\n\0]/.exec(await beginning(script)) ?? [];
  if (interpreter === undefined || deep === 0) return undefined;
  const path = resolve(cwd, interpreter);
  return (await isProgram(path)) ? missingInterpreter(path, cwd, deep - 1) : interpreter;
}

/** A line that goes on beyond it has no end; nor is there anything when it may not be read, as a program need not be. */
async function beginning(path: string): Promise<string> {
  const file = await open(path).catch(() => undefined);
  if (file === undefined) return '';
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(FIRST_LINE), 0, FIRST_LINE, 0);
    return buffer.toString('utf8', 0, bytesRead) + (bytesRead < FIRST_LINE ? '\n' : '');
  } finally {
    await file.close();
  }
}

/** Nothing is opened: that would make the file, and opening a pipe waits for who reads it. */
async function outputProblem(
  name: string,
  path: string,
  reserved: ReadonlyMap<string, string>,
): Promise<string | undefined> {
  const taken = reserved.get(path);
  if (taken !== undefined) return `${name} cannot go to ${path}, which is ${taken}`;
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
