import { resolve } from 'node:path';
import { HandoverError } from '../errors.js';
import { parseOptions, path, strictObject } from '../options.js';
import { type Change, MAX_KEY_BYTES, type StateStore, type StoreOp, readOps, readText } from '../store/store.js';
import { type Database, corrupt, openDatabase, storeError } from './client.js';
import { pagesProblem } from './pages.js';
import { decode, encode, keyBytes } from './record.js';

const OPTIONS = strictObject({ path });

/** What we write; one more with each change that an older version would misread. */
const FORMAT = '1';
/** 0xff is in no UTF-8: no key of a caller is this, and all that begin with a prefix come before it and 0xff. */
const AFTER_TEXT = Buffer.from([0xff]);
const FORMAT_KEY = AFTER_TEXT;

/**
 * A {@link StateStore} in one file, on LMDB (ST-1). What a batch has written is on disk when it resolves. One object at
 * a time may have it open; the lock goes with its process, however that ends.
 *
 * Needs the package `lmdb` 3.5 or later, and a local disk. File and lock file are readable by their owner only, as are
 * folders that it makes.
 *
 * @param o.path - the file, made when it is missing; beside it comes `<path>-lock`
 * @returns the open store; disposing of it waits for what is being written
 * @throws HandoverError `ERR_INVALID_OPTION`; `ERR_STORE_LOCKED` while another has it open; `ERR_STORE_CORRUPT` when
 *   what is there is damaged, no store, or of a newer version; `ERR_DRIVER` when LMDB is not installed, or when the
 *   system refuses. The store's methods throw `ERR_CLOSED` after the disposal, `ERR_DRIVER` when the disk fails,
 *   `ERR_STORE_CORRUPT` when a value is not what was written.
 */
export async function lmdbStore(o: { readonly path: string }): Promise<StateStore & AsyncDisposable> {
  const path = resolve(parseOptions(OPTIONS, o).path);
  const database = await openDatabase(path);
  try {
    claim(path, database);
    await checkContent(path, database);
    return new LmdbStore(path, database);
  } catch (error) {
    await database.close();
    throw storeError(path, 'open', error);
  }
}

/**
 * The lock is an entry in LMDB's own table of readers: the system lets go of a dead process's, no matter of which
 * container or boot it was. The write transaction makes looking and taking one step.
 */
function claim(path: string, database: Database): void {
  database.transactionSync(() => {
    const holder = /^ *(\d+) /m.exec(database.readerList())?.[1];
    if (holder !== undefined) {
      const message = `The store ${path} is in use by process ${holder}; end that, or wait until it has ended`;
      throw new HandoverError('ERR_STORE_LOCKED', message, { details: { path }, retryable: true });
    }
    // The first read takes the entry; it stays until the database is closed.
    database.useReadTransaction().done();
  });
}

/** Reads everything once: what is damaged is found now, and not when it is needed. */
async function checkContent(path: string, database: Database): Promise<void> {
  const problem = (await pagesProblem(path)) ?? formatProblem(database);
  if (problem !== undefined) throw corrupt(path, problem);
  for (const { key, value } of database.getRange({ end: AFTER_TEXT })) readRecord(path, key, value);
}

function formatProblem(database: Database): string | undefined {
  const format = database.get(FORMAT_KEY);
  if (format === FORMAT) return undefined;
  if (format !== undefined) return `it has format ${format}, and this version of handover knows ${FORMAT} only`;
  if (database.getKeysCount({ limit: 1 }) > 0) return 'it is an LMDB file of somebody else';
  database.putSync(FORMAT_KEY, FORMAT);
  return undefined;
}

function readRecord(path: string, key: Buffer, record: string): readonly [key: string, json: string] {
  const name = key.toString();
  const json = decode(name, record);
  if (json === undefined) throw corrupt(path, `what it has under ${JSON.stringify(name)} is not what was written`);
  return [name, json];
}

class LmdbStore implements StateStore, AsyncDisposable {
  #closed: Promise<void> | undefined;
  /** Settles when all that was given so far is written: LMDB writes in the order in which it was asked. */
  #written: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly path: string,
    private readonly database: Database,
  ) {}

  async batch(ops: readonly StoreOp[]): Promise<void> {
    this.#refuseClosed();
    const changes = readOps(ops);
    const writing = this.database.batch(() => this.#apply(changes));
    this.#written = writing.catch(() => undefined);
    try {
      await writing;
    } catch (error) {
      throw storeError(this.path, 'write', await reasonOf(error));
    }
  }

  async list(prefix: string): Promise<readonly (readonly [key: string, value: unknown])[]> {
    this.#refuseClosed();
    // One byte less than a key may have: LMDB takes no longer bounds, and the end has one more.
    const start = keyBytes(readText(prefix, 'prefix')).subarray(0, MAX_KEY_BYTES - 1);
    try {
      const found = this.database.getRange({ start, end: Buffer.concat([start, AFTER_TEXT]) });
      return Array.from(found, ({ key, value }) => readRecord(this.path, key, value))
        .filter(([key]) => key.startsWith(prefix))
        .map(([key, json]) => [key, JSON.parse(json)] as const);
    } catch (error) {
      throw storeError(this.path, 'read', error);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return (this.#closed ??= this.#written.then(() => this.database.close()));
  }

  #apply(changes: readonly Change[]): void {
    for (const { key, json } of changes) {
      void (json === undefined
        ? this.database.remove(keyBytes(key))
        : this.database.put(keyBytes(key), encode(key, json)));
    }
  }

  #refuseClosed(): void {
    if (this.#closed === undefined) return;
    throw new HandoverError('ERR_CLOSED', `The store ${this.path} was closed; open it again`, { details: {} });
  }
}

/** LMDB rejects with an error that holds the promise of another one, which is rejected by now if it is to be at all. */
async function reasonOf(error: unknown): Promise<unknown> {
  const { commitError } = error as { readonly commitError?: Promise<never> };
  return Promise.race([commitError ?? error, error]).catch((reason: unknown) => reason);
}
