import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from 'vitest';
import { lmdbStore } from 'handover/lmdb';

export type LmdbStore = Awaited<ReturnType<typeof lmdbStore>>;

/** A folder for each test that asks for one, gone after it. What was opened by `open` is closed before. */
export function folders() {
  const undo: (() => PromiseLike<unknown>)[] = [];
  afterEach(async () => {
    for (const step of undo.splice(0).reverse()) await step();
  });
  return {
    /** A path in a new folder where nothing is yet. */
    async path(): Promise<string> {
      const folder = await mkdtemp(join(tmpdir(), 'handover-store-'));
      undo.push(() => rm(folder, { recursive: true, force: true }));
      return join(folder, 'state.db');
    },
    async open(path: string): Promise<LmdbStore> {
      const store = await lmdbStore({ path });
      undo.push(() => store[Symbol.asyncDispose]());
      return store;
    },
    /** Runs when the test ends, before the folders go. */
    after(step: () => Promise<unknown>): void {
      undo.push(step);
    },
  };
}
