import { type StateStore, type StoreOp, readOps, readText } from './store.js';

/** A {@link StateStore} in memory that counts. */
export interface MemoryStore extends StateStore {
  /** How many batches were made. */
  readonly batches: number;
}

/**
 * A store that lasts as long as its object: several lives of an orchestrator in one test may share it. A batch takes
 * effect at once, and what it holds is a copy.
 *
 * @param entries - what is in it at first. Default: nothing
 * @throws HandoverError `ERR_INVALID_OPTION` for a key or a value that no store can have
 */
export function memoryStore(entries: Iterable<readonly [string, unknown]> = []): MemoryStore {
  return new InMemory(Array.from(entries, ([put, value]) => ({ put, value })));
}

class InMemory implements MemoryStore {
  readonly #values = new Map<string, string>();
  #batches = 0;

  constructor(first: readonly StoreOp[]) {
    this.#apply(first);
  }

  get batches(): number {
    return this.#batches;
  }

  async batch(ops: readonly StoreOp[]): Promise<void> {
    this.#apply(ops);
    this.#batches++;
  }

  async list(prefix: string): Promise<readonly (readonly [key: string, value: unknown])[]> {
    readText(prefix, 'prefix');
    return [...this.#values]
      .filter(([key]) => key.startsWith(prefix))
      .sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
      .map(([key, json]) => [key, JSON.parse(json)] as const);
  }

  #apply(ops: readonly StoreOp[]): void {
    for (const { key, json } of readOps(ops)) {
      if (json === undefined) this.#values.delete(key);
      else this.#values.set(key, json);
    }
  }
}
