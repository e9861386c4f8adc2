import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { RootDatabase } from 'lmdb';
import { HandoverError, invalidOption, isHandoverError } from '../errors.js';
import { messageOf } from '../internal/message-of.js';
import { errorCode } from '../internal/system-error.js';
import { headProblem } from './pages.js';

/** LMDB by bytes of keys and text of values. */
export type Database = RootDatabase<string, Buffer>;

/** For its owner only: the state tells what runs here. */
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

/** What LMDB says of a file that it cannot make sense of. */
const DAMAGE = /^MDB_(CORRUPTED|INVALID|PAGE_NOTFOUND|VERSION_MISMATCH|INCOMPATIBLE)/;

/**
 * Opens the file with the client that the embedder has installed.
 *
 * @throws HandoverError `ERR_STORE_CORRUPT`, `ERR_DRIVER`
 */
export async function openDatabase(path: string): Promise<Database> {
  const client = await loadClient();
  try {
    await refuseSpecial(path);
    const problem = await headProblem(path);
    if (problem !== undefined) throw corrupt(path, problem);
    await mkdir(dirname(path), { recursive: true, mode: FOLDER_MODE });
    return client.open<string, Buffer>(settings(path));
  } catch (error) {
    throw storeError(path, 'open', error);
  }
}

/** LMDB maps what it opens, and what is no file may end the process, or keep it waiting for ever. */
async function refuseSpecial(path: string): Promise<void> {
  for (const one of [path, `${path}-lock`]) {
    const found = await stat(one).catch((error: unknown) => {
      if (errorCode(error) === 'ENOENT') return undefined;
      throw error;
    });
    if (found === undefined || found.isFile()) continue;
    throw invalidOption('path', `must be of a regular file, or of one to be made; ${one} is something else`);
  }
}

async function loadClient() {
  try {
    return await import('lmdb');
  } catch (cause) {
    const message =
      'The durable store needs the package lmdb, which could not be loaded; install it beside handover: npm install lmdb@3';
    throw new HandoverError('ERR_DRIVER', message, { details: { driver: 'lmdb', operation: 'load' }, cause });
  }
}

function settings(path: string) {
  return {
    path,
    noSubdir: true,
    keyEncoding: 'binary' as const,
    encoding: 'string' as const,
    maxDbs: 1,
    permissionsMode: FILE_MODE,
    // A write is acknowledged when it is on disk, not as soon as others can see it.
    overlappingSync: false,
    // With it, a commit that fails leaves a rejected promise behind that nobody can handle, which ends the process.
    eventTurnBatching: false,
  };
}

/** What a failure of LMDB, or of the system beneath it, means to who uses the store. */
export function storeError(path: string, operation: string, error: unknown): HandoverError {
  if (isHandoverError(error)) return error;
  const text = messageOf(error);
  if (DAMAGE.test(text)) return corrupt(path, text, error);
  const message = `The store ${path} failed to ${operation}: ${text}`;
  return new HandoverError('ERR_DRIVER', message, {
    details: { driver: 'lmdb', operation, path },
    cause: error,
    retryable: operation === 'write',
  });
}

/** An `ERR_STORE_CORRUPT` that says what to do. */
export function corrupt(path: string, problem: string, cause?: unknown): HandoverError<'ERR_STORE_CORRUPT'> {
  const message = `The store ${path} cannot be used: ${problem}. Nothing of it was changed; put a good copy in its place, or move it away to begin anew`;
  return new HandoverError('ERR_STORE_CORRUPT', message, { details: { path }, cause });
}
