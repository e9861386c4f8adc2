import { randomUUID } from 'node:crypto';
import type { Opt } from '../call.js';
import type { StateStore } from '../store/store.js';
import { storeChecks } from './store-checks.js';
import { type SuiteOptions, registerChecks } from './suite-runner.js';

/** What the suite has to know of a store. What is optional switches on the checks that need it. */
export type StateStoreSuite = {
  /** A store; called before each check. Its content may be shared: the suite uses keys of its own. */
  make(): Promise<StateStore>;
} & SuiteOptions &
  Opt<{
    /** Closes the store of the last `make()`, and gives another one over the same content. */
    again: () => Promise<StateStore>;
  }>;

/** What one check works with: a store, and a prefix that nobody else has. */
export class StoreBench {
  readonly #mark = `suite-${randomUUID()}/`;

  constructor(public store: StateStore) {}

  /** A key of this check. */
  key(name: string): string {
    return this.#mark + name;
  }

  /** What this check has put, by the names of the keys. */
  async list(prefix = ''): Promise<readonly (readonly [name: string, value: unknown])[]> {
    const found = await this.store.list(this.key(prefix));
    return found.map(([key, value]) => [key.slice(this.#mark.length), value]);
  }

  async put(values: Readonly<Record<string, unknown>>): Promise<void> {
    await this.store.batch(Object.entries(values).map(([name, value]) => ({ put: this.key(name), value })));
  }

  async clear(): Promise<void> {
    await this.store.batch((await this.store.list(this.#mark)).map(([del]) => ({ del })));
  }
}

/**
 * The conformance suite of state stores (ST-1): what everything durable relies on, as checks against any
 * {@link StateStore}. Call it at the top of a test file.
 *
 * @param name - of the store, for the report
 * @param o - how to get the store
 * @throws HandoverError `ERR_INVALID_OPTION` when there is neither `o.runner` nor a global one
 */
export function describeStateStore(name: string, o: StateStoreSuite): void {
  registerChecks(`state store ${name}`, o, storeChecks(o), async (check) => {
    const bench = new StoreBench(await o.make());
    try {
      await check(bench);
    } finally {
      await bench.clear();
    }
  });
}
