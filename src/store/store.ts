import { invalidOption } from '../errors.js';
import { isPlain } from '../internal/is-plain.js';

/** One change: a key gets a value, or goes. Deleting a key that is not there is done already. */
export type StoreOp = { readonly put: string; readonly value: unknown } | { readonly del: string };

/**
 * Where state outlives the process (ST-1). Values are JSON and never hold credentials or specs (G-6).
 *
 * Keys are text of 1 to 1978 bytes in UTF-8, and are ordered by these bytes.
 */
export interface StateStore {
  /**
   * Makes all changes, in their order, or none. Batches take effect in the order in which they were given; one that has
   * resolved is kept, whatever happens to the process or the machine, as far as the store can keep anything.
   *
   * @throws HandoverError `ERR_INVALID_OPTION` for a key that no store can have or a value that is not JSON; nothing
   *   was changed then. Any other error: it is unknown whether it was (G-8).
   */
  batch(ops: readonly StoreOp[]): Promise<void>;
  /**
   * What is there under keys that begin with `prefix`, in the order of their keys; `''` = everything. Of each batch,
   * all or nothing is seen; of those that have resolved, all. The values are the caller's own.
   *
   * @throws HandoverError `ERR_INVALID_OPTION` for a prefix that is not text
   */
  list(prefix: string): Promise<readonly (readonly [key: string, value: unknown])[]>;
}

/** A {@link StoreOp} that was checked. */
export interface Change {
  readonly key: string;
  /** The value as JSON; `undefined`: the key goes. */
  readonly json: string | undefined;
}

/** In bytes of UTF-8. The most that the durable store takes; every store has it, so that each can stand in for another. */
export const MAX_KEY_BYTES = 1978;

/**
 * Checks the changes of a batch before any of them is made.
 *
 * @throws HandoverError `ERR_INVALID_OPTION` naming the change, and the key of a value that is not JSON
 */
export function readOps(ops: readonly StoreOp[]): readonly Change[] {
  if (!Array.isArray(ops)) throw invalidOption('ops', 'must be an array');
  return ops.map(readOp);
}

function readOp(op: StoreOp, i: number): Change {
  const path = `ops.${i}`;
  const names = typeof op === 'object' && (op as object | null) !== null ? Object.keys(op).sort().join() : '';
  if (names !== 'del' && names !== 'put,value') throw invalidOption(path, 'must be { put, value } or { del }');
  if ('del' in op) return { key: readKey(op.del, `${path}.del`), json: undefined };
  const key = readKey(op.put, `${path}.put`);
  const fault = findFault(op.value, '', []);
  if (fault !== undefined)
    throw invalidOption(`${path}.value`, `of the key ${JSON.stringify(key)} is not JSON: ${fault}`);
  return { key, json: JSON.stringify(op.value) };
}

function readKey(key: unknown, path: string): string {
  const bytes = Buffer.byteLength(readText(key, path));
  if (bytes < 1 || bytes > MAX_KEY_BYTES) {
    throw invalidOption(path, `must have 1 to ${MAX_KEY_BYTES} bytes in UTF-8, and has ${bytes}`);
  }
  return key as string;
}

/**
 * Refuses half a surrogate pair: written as UTF-8 it would come back as another key.
 *
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function readText(text: unknown, path: string): string {
  if (typeof text !== 'string' || Buffer.from(text).toString() !== text)
    throw invalidOption(path, 'must be Unicode text');
  return text;
}

/** What would not come back as it was put, and where; never the value itself, which is not ours to tell (G-6). */
function findFault(value: unknown, at: string, above: readonly object[]): string | undefined {
  const here = at === '' ? 'it' : at;
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return undefined;
  if (Object.is(value, -0)) return `${here} is -0`;
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : `${here} is ${value}`;
  if (typeof value !== 'object') return `${here} is ${value === undefined ? 'undefined' : `a ${typeof value}`}`;
  if (above.includes(value)) return `${here} contains itself`;
  const path = [...above, value];
  if (Array.isArray(value))
    return firstFault(
      Array.from(value, (item, i) => [`${at}[${i}]`, item]),
      path,
    );
  if (!isPlain(value)) return `${here} is an object of a class`;
  return firstFault(
    Object.entries(value).map(([name, item]) => [`${at}.${name}`, item]),
    path,
  );
}

function firstFault(
  parts: readonly (readonly [at: string, value: unknown])[],
  above: readonly object[],
): string | undefined {
  for (const [at, value] of parts) {
    const fault = findFault(value, at, above);
    if (fault !== undefined) return fault;
  }
  return undefined;
}
