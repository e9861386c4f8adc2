import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { StoreOp } from 'handover';
import { memoryStore } from 'handover/testing';
import { pagesProblem } from '../../src/lmdb/pages.js';
import { folders } from './folder.js';

const { path, open } = folders();

/** Few keys, so that they meet; some with a common beginning, of every length and range of Unicode. */
const key = fc.oneof(
  fc.constantFrom('a', 'a/', 'a/b', 'aa', 'é', '\0', '\uffff', '\u{10ffff}', 'x'.repeat(1978), 'é'.repeat(989)),
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 }),
  fc.integer({ min: 0, max: 60 }).map((n) => `image/${n}/${'k'.repeat(n * 25)}`),
);
const value = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }).map((one) => JSON.parse(JSON.stringify(one)) as unknown),
  fc.integer({ min: 0, max: 40_000 }).map((length) => 'v'.repeat(length)),
);
const op: fc.Arbitrary<StoreOp> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ put: key, value }) },
  { weight: 2, arbitrary: fc.record({ del: key }) },
);
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ batch: fc.array(op, { maxLength: 30 }), wait: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ list: fc.oneof(key, fc.constantFrom('', 'image/', 'a')) }) },
  { weight: 1, arbitrary: fc.constant({ again: true as const }) },
);

describe('lmdbStore and memoryStore', () => {
  it('ST-1 agree on whatever is written and listed, also after opening again, and each file passes as undamaged', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const at = await path();
        const model = memoryStore();
        let store = await open(at);
        let writing: Promise<unknown> = Promise.resolve();
        for (const one of steps) {
          if ('batch' in one) {
            writing = Promise.all([writing, store.batch(one.batch), model.batch(one.batch)]);
            if (one.wait) await writing;
            continue;
          }
          await writing;
          if ('list' in one) {
            expect(await store.list(one.list)).toEqual(await model.list(one.list));
            continue;
          }
          await store[Symbol.asyncDispose]();
          expect(await pagesProblem(at)).toBe(undefined);
          store = await open(at);
        }
        await writing;
        expect(await store.list('')).toEqual(await model.list(''));
        await store[Symbol.asyncDispose]();
        expect(await pagesProblem(at)).toBe(undefined);
      }),
      { numRuns: 60 },
    );
  }, 60_000);
});
