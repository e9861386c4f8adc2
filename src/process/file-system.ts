import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, readFile, rename, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** The `code` of a system error, such as `ENOENT`. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** What the promise gives, or `undefined` when the file is not there. */
export async function ifThere<T>(promise: Promise<T>): Promise<T | undefined> {
  try {
    return await promise;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return undefined;
    throw error;
  }
}

/**
 * Makes a file in one step: it is complete or not there, also after a crash. Processes that share the folder do not get
 * into each other's way.
 *
 * @param folder - on the file system where the file will be; made when it is missing
 * @param write - fills the file; when it throws nothing stays
 * @param place - moves the file to where it belongs, with {@link moveTo}
 */
export async function writeWhole<T>(
  folder: string,
  write: (file: FileHandle) => Promise<T>,
  place: (partial: string, written: T) => Promise<void>,
): Promise<void> {
  await mkdir(folder, { recursive: true });
  const partial = join(folder, `.${randomUUID()}.partial`);
  const file = await open(partial, 'wx');
  try {
    const written = await write(file).finally(() => file.close());
    await place(partial, written);
  } catch (error) {
    await ifThere(unlink(partial));
    throw error;
  }
}

/** Moves a file that is on disk to its place, for good. */
export async function moveTo(partial: string, path: string): Promise<void> {
  await rename(partial, path);
  // A rename is on disk only when its folder is.
  const folder = await open(dirname(path), 'r');
  await folder.sync().finally(() => folder.close());
}

/** Writes JSON in one step. */
export async function writeJson(path: string, value: unknown): Promise<void> {
  const write = async (file: FileHandle): Promise<void> => {
    await file.writeFile(JSON.stringify(value));
    await file.sync();
  };
  await writeWhole(dirname(path), write, (partial) => moveTo(partial, path));
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
