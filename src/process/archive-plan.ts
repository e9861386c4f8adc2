import { posix } from 'node:path';

/** What an archive says of one thing in it. */
export interface ArchiveEntry {
  readonly path: string;
  readonly type: string;
  /** Where a link leads. */
  readonly linkpath?: string | undefined;
  readonly size: number;
}

/** More is an accident, or an attack. */
const MAX_ENTRIES = 100_000;
/** In bytes, unpacked. */
const MAX_BYTES = 16 * 2 ** 30;

const KINDS: Readonly<Record<string, Kind>> = {
  File: 'file',
  OldFile: 'file',
  ContiguousFile: 'file',
  Directory: 'folder',
  SymbolicLink: 'symlink',
  Link: 'link',
};

type Kind = 'file' | 'folder' | 'symlink' | 'link';

/**
 * Looks at the entries of an archive in their order, before any of them is written: whether all of it stays inside of the
 * folder. What has gone before counts, since an entry may be written through a link that an earlier one has made.
 */
export class ArchivePlan {
  readonly #kinds = new Map<string, Kind>();
  #bytes = 0;
  #problem: string | undefined;

  /** @param reserved - names in the folder that are not the archive's to take, and what they are */
  constructor(private readonly reserved: ReadonlyMap<string, string>) {}

  /** Of the first entry that has one; names it. */
  get problem(): string | undefined {
    return this.#problem;
  }

  add(entry: ArchiveEntry): void {
    if (this.#problem !== undefined) return;
    const problem = this.#check(entry);
    if (problem !== undefined) this.#problem = `its entry ${JSON.stringify(entry.path)} ${problem}`;
  }

  #check({ path, type, linkpath = '', size }: ArchiveEntry): string | undefined {
    const kind = KINDS[type];
    if (kind === undefined) return `is a ${type}; only files, folders and links can be unpacked`;
    const name = plainName(path);
    if (name === undefined) return 'does not stay inside of the folder: an absolute name, or one with ".."';
    this.#bytes += size;
    if (this.#bytes > MAX_BYTES) return `makes it larger than ${MAX_BYTES} bytes`;
    return this.#placeProblem(name, kind) ?? this.#linkProblem(name, kind, linkpath) ?? this.#note(name, kind);
  }

  #placeProblem(name: string, kind: Kind): string | undefined {
    if (name === '.' && kind !== 'folder') return 'would take the place of the folder itself';
    const taken = [...this.reserved].find(([own]) => own === name || (own.startsWith(`${name}/`) && kind !== 'folder'));
    if (taken !== undefined) return `would take the place of ${taken[1]}`;
    const before = this.#kinds.get(name);
    if (before !== undefined && (before !== 'folder' || kind !== 'folder')) return 'is in it twice';
    for (let above = posix.dirname(name); above !== '.'; above = posix.dirname(above)) {
      const what = this.#kinds.get(above);
      if (what !== undefined && what !== 'folder') return `is below ${JSON.stringify(above)}, which is a ${what}`;
    }
    return undefined;
  }

  #linkProblem(name: string, kind: Kind, target: string): string | undefined {
    if (kind === 'symlink' && !staysInside(posix.dirname(name), target))
      return `leads outside, to ${JSON.stringify(target)}`;
    if (kind !== 'link') return undefined;
    const linked = plainName(target);
    return linked !== undefined && this.#kinds.get(linked) === 'file'
      ? undefined
      : `is a link to ${JSON.stringify(target)}, which is no file before it in the archive`;
  }

  #note(name: string, kind: Kind): string | undefined {
    // A name may be made by those below it.
    for (let above = posix.dirname(name); above !== '.'; above = posix.dirname(above)) this.#kinds.set(above, 'folder');
    this.#kinds.set(name, kind === 'link' ? 'file' : kind);
    return this.#kinds.size > MAX_ENTRIES ? `is one too many: more than ${MAX_ENTRIES}` : undefined;
  }
}

/** @returns the name with nothing needless in it; `undefined` when it is not below the folder */
function plainName(path: string): string | undefined {
  if (path.startsWith('/') || path.includes('\0') || path.split('/').includes('..')) return undefined;
  return posix.normalize(path).replace(/\/$/, '');
}

/**
 * Where a link leads is known from its text only while ".." comes first: after a name, that could be a link itself.
 *
 * @param folder - that it is in; no link
 */
function staysInside(folder: string, target: string): boolean {
  if (target === '' || target.startsWith('/') || target.includes('\0')) return false;
  const parts = target.split('/').filter((part) => part !== '' && part !== '.');
  const up = parts.findIndex((part) => part !== '..');
  const climbs = up === -1 ? parts.length : up;
  const depth = folder === '.' ? 0 : folder.split('/').length;
  return climbs <= depth && !parts.slice(climbs).includes('..');
}
