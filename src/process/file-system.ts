import { randomUUID } from 'node:crypto';
import { mkdir, open, readFile, rename, unlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errorCode } from '../internal/system-error.js';

const NO_FILE: readonly (string | undefined)[] = ['ENOENT', 'ENOTDIR', 'EISDIR'];

/** What the promise gives, or `undefined` when the file is not there, or is none. */
export async function ifThere<T>(promise: Promise<T>): Promise<T | undefined> {
  try {
    return await promise;
  } catch (error) {
    if (NO_FILE.includes(errorCode(error))) return undefined;
    throw error;
  }
}

/** Makes a folder and those above it. What Node offers for that says of a full disk that there is no such file. */
export async function makeFolder(path: string): Promise<void> {
  try {
    await makeOne(path);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT' || dirname(path) === path) throw error;
    await makeFolder(dirname(path));
    // Once, and no more: above it may be a link that leads nowhere.
    await makeOne(path);
  }
}

async function makeOne(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  }
}

/** Moves a file that is on disk to its place, for good. */
export async function moveTo(partial: string, path: string): Promise<void> {
  await rename(partial, path);
  // A rename is on disk only when its folder is.
  const folder = await open(dirname(path), 'r');
  await folder.sync().finally(() => folder.close());
}

/**
 * Writes JSON in one step: it is complete or not there, also after a crash. Processes that write the same file do not get
 * into each other's way; when it throws nothing stays.
 *
 * @param path - its folder is there
 * @param via - a folder on the same file system, for what is not complete yet. Default: the file's own
 */
export async function writeJson(path: string, value: unknown, via = dirname(path)): Promise<void> {
  const partial = join(via, `.${randomUUID()}.partial`);
  try {
    await writeFile(partial, JSON.stringify(value), { flag: 'wx', flush: true });
    await moveTo(partial, path);
  } catch (error) {
    await ifThere(unlink(partial));
    throw error;
  }
}

/** Reads JSON; `undefined` when the file is not there, or is not JSON. */
export async function readJson(path: string): Promise<unknown> {
  const content = await ifThere(readFile(path, 'utf8'));
  try {
    return content === undefined ? undefined : (JSON.parse(content) as unknown);
  } catch {
    return undefined;
  }
}
