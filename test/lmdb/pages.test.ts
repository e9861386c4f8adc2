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

/** Pieces of the tree of entries, as windows on the file. */
function partsOf(bytes: Buffer) {
  const page = (number: number): Buffer => bytes.subarray(number * PAGE, (number + 1) * PAGE);
  const head = page(0).readBigUInt64LE(152) > page(1).readBigUInt64LE(152) ? page(0) : page(1);
  const root = page(Number(head.readBigUInt64LE(136)));
  const leaves = Array.from({ length: root.readUInt16LE(20) / 2 }, (_, i) => page(nodeOf(root, i).readUIntLE(0, 6)));
  const nodes = leaves.flatMap((leaf) => Array.from({ length: leaf.readUInt16LE(20) / 2 }, (_, i) => nodeOf(leaf, i)));
  const largeNodes = nodes.filter((node) => node.readUInt16LE(4) === 1 && node.readUInt32LE(0) > PAGE);
  const large = page(Number(largeNodes[0]!.readBigUInt64LE(8 + largeNodes[0]!.readUInt16LE(6))));
  return { root, leaf: leaves[0]!, largeNodes, large, lastPage: Number(head.readBigUInt64LE(144)) };
}

type Parts = ReturnType<typeof partsOf>;

function nodeOf(page: Buffer, i: number): Buffer {
  return page.subarray(24 + page.readUInt16LE(24 + 2 * i));
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

  it.each<{ what: string; harm: (parts: Parts) => void }>([
    { what: 'a leaf where a branch was', harm: ({ root }) => root.writeUInt16LE(2, 18) },
    { what: 'a page of another number', harm: ({ leaf }) => leaf.writeUInt8(leaf.readUInt8(0) ^ 1, 0) },
    { what: 'half a pointer', harm: ({ leaf }) => leaf.writeUInt16LE(leaf.readUInt16LE(20) + 1, 20) },
    { what: 'no pointers', harm: ({ leaf }) => leaf.writeUInt16LE(0, 20) },
    { what: 'pointers that reach into nodes', harm: ({ leaf }) => leaf.writeUInt16LE(leaf.readUInt16LE(20) - 2, 22) },
    { what: 'nodes beyond the page', harm: ({ leaf }) => leaf.writeUInt16LE(PAGE - 23, 22) },
    { what: 'a node in the free part', harm: ({ leaf }) => leaf.writeUInt16LE(leaf.readUInt16LE(22) + 2, 22) },
    { what: 'a pointer into a node', harm: ({ leaf }) => leaf.writeUInt16LE(leaf.readUInt16LE(24) + 2, 24) },
    { what: 'a pointer to the end of the page', harm: ({ leaf }) => leaf.writeUInt16LE(PAGE - 24 - 6, 24) },
    { what: 'a key beyond the page', harm: ({ root }) => nodeOf(root, 1).writeUInt16LE(PAGE, 6) },
    { what: 'a value beyond the page', harm: ({ leaf }) => nodeOf(leaf, 0).writeUInt32LE(PAGE, 0) },
    { what: 'a value of another kind', harm: ({ leaf }) => nodeOf(leaf, 0).writeUInt16LE(4, 4) },
    { what: 'a branch to a head', harm: ({ root }) => nodeOf(root, 1).writeUIntLE(1, 0, 6) },
    { what: 'a branch to a page that was never written', harm: ({ root }) => nodeOf(root, 1).writeUIntLE(9e5, 0, 6) },
    { what: 'two branches to one page', harm: ({ root }) => nodeOf(root, 0).copy(nodeOf(root, 1), 0, 0, 6) },
    { what: 'a large value of no pages', harm: ({ large }) => large.writeUInt32LE(0, 20) },
    { what: 'a large value in too few pages', harm: ({ large }) => large.writeUInt32LE(1, 20) },
    { what: 'a large value on other pages', harm: ({ large }) => large.writeUInt32LE(20, 20) },
  ])('ST-1 $what is refused, as damage of that page', async ({ harm }) => {
    const { at, bytes } = await original();
    harm(partsOf(bytes));
    await writeFile(at, bytes);
    expect(await pagesProblem(at)).toMatch(/^its page \d+ is damaged$/);
  });

  it('ST-1 a page after the last one is refused, even if it looks well', async () => {
    const { at, bytes } = await original();
    const { root, lastPage, leaf } = partsOf(bytes);
    const extra = Buffer.from(leaf);
    extra.writeBigUInt64LE(BigInt(lastPage + 1), 0);
    nodeOf(root, 0).writeUIntLE(lastPage + 1, 0, 6);
    await writeFile(at, Buffer.concat([bytes, extra]));
    expect(await pagesProblem(at)).toBe(`its page ${lastPage + 1} is damaged`);
  });

  it('ST-1 a page that two large values share is refused', async () => {
    const { at, bytes } = await original();
    const [one, other] = partsOf(bytes).largeNodes as [Buffer, Buffer];
    one.copy(other, 0, 0, 4);
    one.copy(other, 8 + other.readUInt16LE(6), 8 + one.readUInt16LE(6), 8 + one.readUInt16LE(6) + 24);
    await writeFile(at, bytes);
    expect(await pagesProblem(at)).toMatch(/^its page \d+ is damaged$/);
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
