import { type FileHandle, open } from 'node:fs/promises';
import { errorCode } from '../internal/system-error.js';

/**
 * LMDB maps its file and believes what it reads: a file that was cut off, or a page of zeros, ends the whole process.
 * So we look first, with plain reads. The layout is that of LMDB's data version 2 (`MDB_meta`, `MDB_page`, `MDB_node`),
 * little-endian as on every platform that the client has binaries for.
 */
const MAGIC = 0xbeefc0de;
const VERSION = 2;
/** Before each page's content: its number, the transaction that wrote it, kind, bounds. */
const HEADER = 24;
/** Before a key in a page: sizes, flags. */
const NODE = 8;
/** What stands in a leaf for a value that has pages of its own: number, transaction, how many. */
const BIG_VALUE = 24;
/** The root of a tree without entries. */
const NO_PAGE = 2n ** 64n - 1n;
/** Flags of the tree of free pages: its keys are numbers; single file and overlapping sync, which change no page. */
const INTEGER_KEYS = 0x8;
const HARMLESS = 0x5000;
const KIND = { branch: 1, leaf: 2, overflow: 4, meta: 8 } as const;

interface Tree {
  readonly root: bigint;
  readonly depth: number;
  readonly entries: number;
}

interface Meta {
  readonly pageSize: number;
  readonly transaction: bigint;
  readonly lastPage: number;
  readonly trees: readonly Tree[];
}

/**
 * Whether LMDB may open the file: it is not there, empty, or has LMDB's head. Can be asked while others write.
 *
 * @returns what is wrong; `undefined`: nothing
 */
export async function headProblem(path: string): Promise<string | undefined> {
  return inspect(path, async (file) => {
    await currentMeta(file);
  });
}

/**
 * Whether LMDB can read every page that is in use. Only to be asked while nobody writes.
 *
 * @returns what is wrong; `undefined`: nothing
 */
export async function pagesProblem(path: string): Promise<string | undefined> {
  return inspect(path, async (file) => {
    const meta = await currentMeta(file);
    const check = new PageCheck(file, meta);
    for (const tree of meta.trees) await check.tree(tree);
  });
}

/** What a check throws when it meets something that cannot be. */
class Damage extends Error {}

async function inspect(path: string, look: (file: FileHandle) => Promise<void>): Promise<string | undefined> {
  const file = await openIfThere(path);
  if (file === undefined) return undefined;
  try {
    if ((await file.stat()).size > 0) await look(file);
    return undefined;
  } catch (error) {
    if (error instanceof Damage) return error.message;
    throw error;
  } finally {
    await file.close();
  }
}

async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, 'r');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Of the two that are written in turn, the later one. */
async function currentMeta(file: FileHandle): Promise<Meta> {
  const first = readMeta(await readBytes(file, 0, 160));
  const second = readMeta(await readBytes(file, first.pageSize, 160));
  return first.transaction > second.transaction ? first : second;
}

function readMeta(bytes: Buffer): Meta {
  const pageSize = bytes.readUInt32LE(48);
  if (
    bytes.readUInt32LE(24) !== MAGIC ||
    bytes.readUInt16LE(18) !== KIND.meta ||
    pageSize < 256 ||
    pageSize > 2 ** 16
  ) {
    throw new Damage('it is no LMDB file');
  }
  const version = bytes.readUInt32LE(28);
  if (version !== VERSION) throw new Damage(`it has LMDB’s data version ${version}, and only ${VERSION} is known`);
  const lastPage = Number(bytes.readBigUInt64LE(144));
  const mapSize = Number(bytes.readBigUInt64LE(40));
  const [ofFree, ofMain] = [bytes.readUInt16LE(52) & ~HARMLESS, bytes.readUInt16LE(100)];
  if ((lastPage + 1) * pageSize > mapSize || ofFree !== INTEGER_KEYS || ofMain !== 0) {
    throw new Damage('its head is damaged, or was made with other settings');
  }
  return {
    pageSize,
    lastPage,
    transaction: bytes.readBigUInt64LE(152),
    trees: [readTree(bytes, 48), readTree(bytes, 96)],
  };
}

function readTree(bytes: Buffer, at: number): Tree {
  return {
    root: bytes.readBigUInt64LE(at + 40),
    depth: bytes.readUInt16LE(at + 6),
    entries: Number(bytes.readBigUInt64LE(at + 32)),
  };
}

async function readBytes(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, at);
  if (bytesRead < length) throw new Damage(`it ends before byte ${at + length}`);
  return buffer;
}

class PageCheck {
  /** A page that is met twice would make a circle, or be written over while it is in use. */
  readonly #seen = new Set<number>();
  /** How many bytes a page has for its content. */
  readonly #room: number;

  constructor(
    private readonly file: FileHandle,
    private readonly meta: Meta,
  ) {
    this.#room = meta.pageSize - HEADER;
  }

  async tree({ root, depth, entries }: Tree): Promise<void> {
    const found = root === NO_PAGE ? 0 : await this.#page(Number(root), depth);
    if (found !== entries) throw new Damage(`${entries} entries were written to a part of it that has ${found}`);
  }

  /** @returns how many entries are in the page and below */
  async #page(number: number, depth: number): Promise<number> {
    const page = await this.#read(number, depth > 1 ? KIND.branch : KIND.leaf);
    const nodes = this.#nodes(number, page);
    const used = nodes.reduce((sum, node) => sum + sizeOf(node, depth === 1), 0);
    // Nodes are kept side by side: else a pointer leads to what is none.
    if (used !== this.#room - page.readUInt16LE(22)) throw damaged(number);
    if (depth > 1) {
      let entries = 0;
      for (const node of nodes) entries += await this.#page(node.readUIntLE(0, 6), depth - 1);
      return entries;
    }
    for (const node of nodes) await this.#value(number, node);
    return nodes.length;
  }

  /** Each from its head to the end of the page. */
  #nodes(number: number, page: Buffer): readonly Buffer[] {
    const content = page.subarray(HEADER);
    const [lower, upper] = [page.readUInt16LE(20), page.readUInt16LE(22)];
    if (lower < 2 || lower % 2 > 0 || lower > upper || upper > this.#room) throw damaged(number);
    return Array.from({ length: lower / 2 }, (_, i) => {
      const at = content.readUInt16LE(2 * i);
      if (at < upper || at + NODE > this.#room) throw damaged(number);
      const node = content.subarray(at);
      if (NODE + node.readUInt16LE(6) > node.length) throw damaged(number);
      return node;
    });
  }

  async #value(number: number, node: Buffer): Promise<void> {
    const size = node.readUInt32LE(0);
    const flags = node.readUInt16LE(4);
    const at = NODE + node.readUInt16LE(6);
    // 1 = in pages of its own. The store has neither tables nor several values of a key, which are the other flags.
    if (flags > 1 || at + (flags === 1 ? BIG_VALUE : size) > node.length) throw damaged(number);
    if (flags === 1) await this.#big(Number(node.readBigUInt64LE(at)), size);
  }

  async #big(number: number, size: number): Promise<void> {
    const first = await this.#read(number, KIND.overflow);
    const pages = first.readUInt32LE(20);
    if (pages < 1 || pages * this.meta.pageSize < HEADER + size) throw damaged(number);
    for (let next = number + 1; next < number + pages; next++) this.#visit(next);
    await readBytes(this.file, (number + pages) * this.meta.pageSize - 1, 1);
  }

  async #read(number: number, kind: number): Promise<Buffer> {
    this.#visit(number);
    const page = await readBytes(this.file, number * this.meta.pageSize, this.meta.pageSize);
    if (page.readBigUInt64LE(0) !== BigInt(number) || page.readUInt16LE(18) !== kind) throw damaged(number);
    return page;
  }

  #visit(number: number): void {
    if (number < 2 || number > this.meta.lastPage || this.#seen.has(number)) throw damaged(number);
    this.#seen.add(number);
  }
}

/** What a node takes of its page: head, key, and in a leaf the value, or where it is; an even number of bytes. */
function sizeOf(node: Buffer, inLeaf: boolean): number {
  const value = (node.readUInt16LE(4) & 1) === 1 ? BIG_VALUE : node.readUInt32LE(0);
  const size = NODE + node.readUInt16LE(6) + (inLeaf ? value : 0);
  return size + (size % 2);
}

function damaged(page: number): Damage {
  return new Damage(`its page ${page} is damaged`);
}
