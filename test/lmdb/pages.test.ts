import { readFile, writeFile } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isHandoverError } from 'handover';
import { lmdbStore } from 'handover/lmdb';
import { headProblem, pagesProblem } from '../../src/lmdb/pages.js';
import { deed } from './deeds.js';
import { folders } from './folder.js';

const PAGE = 4096;
const { path, open } = folders();

/** A store with branches, leaves, large values and free pages. */
async function original() {
  const at = await path();
  const store = await open(at);
  for (let n = 1; n <= 120; n++) await store.batch(deed(n));
  await store.batch(Array.from({ length: 300 }, (_, i) => ({ put: `small/${i}/${'k'.repeat(60)}`, value: i })));
  // Too large for any gap: its pages are the last of the file.
  await store.batch([{ put: 'last', value: 'x'.repeat(40_000) }]);
  const holds = await store.list('');
  await store[Symbol.asyncDispose]();
  return { at, bytes: await readFile(at), holds };
}

describe('damage', () => {
  /** What opens must be whole; what is not must be refused, and left as it is. */
  async function expectWholeOrRefused(at: string, bytes: Buffer, holds: unknown): Promise<'whole' | 'refused'> {
    await writeFile(at, bytes);
    try {
      const store = await lmdbStore({ path: at });
      const found = await store.list('').finally(() => store[Symbol.asyncDispose]());
      expect(found).toEqual(holds);
      return 'whole';
    } catch (error) {
      if (!isHandoverError(error, 'ERR_STORE_CORRUPT')) throw error;
      expect((await readFile(at)).equals(bytes)).toBe(true);
      return 'refused';
    }
  }

  it('ST-1 a file that was cut off at any page is refused, and does not end the process', async () => {
    const { at, bytes, holds } = await original();
    const pages = bytes.length / PAGE;
    expect(pages).toBeGreaterThan(50);
    for (let kept = 1; kept < pages; kept++) {
      expect(await expectWholeOrRefused(at, bytes.subarray(0, kept * PAGE), holds)).toBe('refused');
    }
    for (const length of [1, 200, PAGE + 1, 9 * PAGE + 1, bytes.length - 1]) {
      expect(await expectWholeOrRefused(at, bytes.subarray(0, length), holds)).toBe('refused');
    }
  }, 60_000);

  it.each([
    ['zeros', () => 0],
    ['ones', () => 0xff],
    ['what another page has', (bytes: Buffer, at: number) => bytes[(at + 7 * PAGE) % bytes.length]!],
  ])(
    'ST-1 a page of %s is refused, or was in no use',
    async (_, other) => {
      const { at, bytes, holds } = await original();
      const outcomes = { whole: 0, refused: 0 };
      for (let page = 2; page < bytes.length / PAGE; page++) {
        const damaged = Buffer.from(bytes);
        for (let i = page * PAGE; i < (page + 1) * PAGE; i++) damaged[i] = other(bytes, i);
        outcomes[await expectWholeOrRefused(at, damaged, holds)]++;
      }
      expect(outcomes.refused).toBeGreaterThan(30);
    },
    60_000,
  );

  it('ST-1 a bit that turned over in any page is refused, or changes nothing', async () => {
    const { at, bytes, holds } = await original();
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 2, max: bytes.length / PAGE - 1 }),
        // Most of it in heads and pointers, where it harms most.
        fc.oneof(fc.integer({ min: 0, max: 63 }), fc.integer({ min: 0, max: PAGE - 1 })),
        fc.integer({ min: 0, max: 7 }),
        async (page, byte, bit) => {
          const damaged = Buffer.from(bytes);
          damaged[page * PAGE + byte]! ^= 1 << bit;
          await expectWholeOrRefused(at, damaged, holds);
        },
      ),
      { numRuns: 300 },
    );
  }, 60_000);

  it.each([
    { what: 'magic', offset: 24, says: 'it is no LMDB file' },
    { what: 'kind of the head', offset: 18, says: 'it is no LMDB file' },
    { what: 'page size', offset: 50, says: 'it is no LMDB file' },
    { what: 'data version', offset: 29, says: 'it has LMDB’s data version 258, and only 2 is known' },
    { what: 'last page', offset: 148, says: 'its head is damaged, or was made with other settings' },
    { what: 'kind of keys', offset: 100, says: 'its head is damaged, or was made with other settings' },
    { what: 'encryption', offset: 53, bit: 0x20, says: 'its head is damaged, or was made with other settings' },
  ])('ST-1 a head with another $what is refused before LMDB sees it', async ({ offset, bit = 1, says }) => {
    const { at, bytes } = await original();
    for (const head of [0, PAGE]) {
      const damaged = Buffer.from(bytes);
      damaged[head + offset]! ^= bit;
      await writeFile(at, damaged);
      expect(await headProblem(at)).toBe(says);
    }
  });

  it('ST-1 a tree that has lost entries is refused', async () => {
    const { at, bytes } = await original();
    for (const head of [0, PAGE]) bytes[head + 128]! ^= 1;
    await writeFile(at, bytes);
    expect(await pagesProblem(at)).toMatch(/^\d+ entries were written to a part of it that has \d+$/);
  });

  it('ST-1 no file is a new store, and the system’s refusal is not damage', async () => {
    const at = await path();
    expect(await headProblem(at)).toBe(undefined);
    await writeFile(at, '');
    await expect(headProblem(`${at}/below`)).rejects.toMatchObject({ code: 'ENOTDIR' });
  });
});
