import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { parseFileReference, pinned } from '../../src/process/file-reference.js';
import { FileStore } from '../../src/process/file-store.js';
import { sha256 } from './files-bench.js';

const CONTENT = 'same';
const HASH = sha256(CONTENT);
const ID = `sha256:${HASH}`;
const [A, B] = ['http://h/a', 'http://h/b'];

let directory: string;
let store: FileStore;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'handover-store-'));
  store = new FileStore(directory);
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const refPath = (key: string): string =>
  join(directory, 'refs', `${createHash('sha256').update(key).digest('hex')}.json`);

async function add(url: string): Promise<void> {
  const folder = await mkdtemp(join(directory, 'partial-'));
  await writeFile(join(folder, 'content'), CONTENT);
  await store.add(parseFileReference(url), join(folder, 'content'), HASH, folder);
}

it.each([
  { why: 'no URL', reference: 'not a url', at: 'not a url' },
  { why: 'an id', reference: ID, at: ID },
  { why: 'not the one spelling', reference: 'HTTP://h/b', at: 'HTTP://h/b' },
  { why: 'under a name that is not its own', reference: B, at: 'x' },
])('ST-1 a file with a reference that is $why counts as absent', async ({ reference, at }) => {
  await add(A);
  await writeFile(refPath(at), JSON.stringify({ reference, id: ID }));
  const names = [pinned(A, HASH), A];
  expect((await store.find(A))?.references.toSorted()).toEqual(names.toSorted());
  expect(await store.remove(A)).toBe('removed');
});

it('IC-21 an end in the middle of taking in leaves no content without a name to remove it by', async () => {
  await mkdir(refPath(pinned(A, HASH)), { recursive: true });
  await expect(add(A)).rejects.toThrow();
  expect(await readdir(join(directory, 'blobs'))).toEqual([]);
  await rm(refPath(pinned(A, HASH)), { recursive: true });
  await mkdir(refPath(A));
  await expect(add(A)).rejects.toThrow();
  expect(await store.list()).toMatchObject([{ id: ID, references: [pinned(A, HASH)] }]);
  expect(await store.remove(pinned(A, HASH))).toBe('removed');
  expect(await readdir(join(directory, 'blobs'))).toEqual([]);
});

it('IC-16 whatever a removal and a landing of the same content meet at, what has landed is there', async () => {
  await add(A);
  for (let round = 0; round < 24; round += 1) {
    const removing = store.remove(A);
    for (let turns = 0; turns < round % 12; turns += 1) await new Promise(setImmediate);
    await Promise.all([removing, add(B)]);
    expect(await store.find(B)).toBeDefined();
    await store.remove(B);
    await add(A);
  }
}, 20_000);
