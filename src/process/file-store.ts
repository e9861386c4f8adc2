import { createHash } from 'node:crypto';
import { open, readdir, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import type { Artifact } from '../image/types.js';
import { KeyedLock } from '../internal/keyed-lock.js';
import { FILE_ID, type FileReference, parseFileReference, pinned } from './file-reference.js';
import { ifThere, makeFolder, moveTo, readJson, writeJson } from './file-system.js';

/** A file that is present locally. */
export interface FileArtifact extends Artifact {
  /** Where it is; read-only and executable. To be linked or copied from, never written to. */
  readonly path: string;
}

const REFERENCE_FILE = v.object({
  reference: v.pipe(v.string(), v.check(isKey)),
  id: v.pipe(v.string(), v.regex(FILE_ID)),
});
const BLOB = /^sha256-([0-9a-f]{64})$/;
/** Content has no mode on its way over HTTP; it may be a program, and is shared, so nobody writes to it. */
const BLOB_MODE = 0o555;

/**
 * Files by their content, and the references that lead to them: `blobs/sha256-<hex>`, and `refs/<hash>.json` for each
 * reference. Processes may share the folder: every file appears whole, and one that is broken counts as absent.
 */
export class FileStore {
  readonly #blobs: string;
  readonly #refs: string;
  /** By id: what places a file and what removes it must not overlap. */
  readonly #lock = new KeyedLock();

  constructor(directory: string) {
    this.#blobs = join(directory, 'blobs');
    this.#refs = join(directory, 'refs');
  }

  async find(referenceOrId: string): Promise<FileArtifact | undefined> {
    const { key, pullable } = parseFileReference(referenceOrId);
    const id = pullable ? (await this.#read(this.#refPath(key)))?.id : key;
    return id === undefined ? undefined : this.#artifact(id, await this.#references());
  }

  async list(): Promise<readonly FileArtifact[]> {
    const names = (await ifThere(readdir(this.#blobs))) ?? [];
    const ids = names.flatMap((name) => (BLOB.test(name) ? [name.replace('-', ':')] : []));
    const references = await this.#references();
    const found = await Promise.all(ids.map((id) => this.#artifact(id, references)));
    return found.filter((artifact) => artifact !== undefined);
  }

  /**
   * Takes in content under a reference, and under the one that pins it: when the reference moves on, the old content
   * still has a name to be removed by.
   *
   * @param content - a file that is complete, on the file system of the store; it is moved, also into the place of one
   *   that is there already, which may be broken
   * @param hash - what the content hashes to
   * @param folder - where there is room for what is not in its place yet; whoever made it clears it away
   */
  async add(reference: FileReference, content: string, hash: string, folder: string): Promise<void> {
    const id = `sha256:${hash}`;
    await makeFolder(this.#blobs);
    await makeFolder(this.#refs);
    await makeLasting(content);
    const refer = (key: string): Promise<void> => writeJson(this.#refPath(key), { reference: key, id }, folder);
    const fixed = pinned(reference.repository, hash);
    await this.#lock.run(id, async () => {
      // First, and true in any case: if we end in between there is no content without a name to remove it by.
      await refer(fixed);
      await moveTo(content, this.#blobPath(id));
      if (reference.key !== fixed) await refer(reference.key);
    });
  }

  async remove(referenceOrId: string): Promise<'removed' | 'untagged' | 'absent'> {
    const artifact = await this.find(referenceOrId);
    if (artifact === undefined) return 'absent';
    return this.#lock.run(artifact.id, async () => {
      const { key, repository, pullable } = parseFileReference(referenceOrId);
      const references = (await this.#references()).get(artifact.id) ?? [];
      // As engines do it: the pinned name goes with the name that floats, or nothing would ever go.
      const going = references.filter(
        (name) => !pullable || name === key || name === pinned(repository, artifact.id.slice('sha256:'.length)),
      );
      for (const name of going) await ifThere(unlink(this.#refPath(name)));
      if (going.length < references.length) return 'untagged';
      await ifThere(unlink(artifact.path));
      return 'removed';
    });
  }

  async #artifact(id: string, references: ReadonlyMap<string, readonly string[]>): Promise<FileArtifact | undefined> {
    const path = this.#blobPath(id);
    const facts = await ifThere(stat(path));
    if (facts === undefined) return undefined;
    return { id, digest: id, bytes: facts.size, references: references.get(id) ?? [], runnable: path, path };
  }

  /** Id → the references that lead to it. */
  async #references(): Promise<ReadonlyMap<string, readonly string[]>> {
    const names = (await ifThere(readdir(this.#refs))) ?? [];
    const all = await Promise.all(
      names.filter((name) => name.endsWith('.json')).map((name) => this.#read(join(this.#refs, name))),
    );
    const byId = new Map<string, string[]>();
    for (const ref of all) {
      if (ref !== undefined) byId.set(ref.id, [...(byId.get(ref.id) ?? []), ref.reference]);
    }
    return byId;
  }

  async #read(path: string): Promise<v.InferOutput<typeof REFERENCE_FILE> | undefined> {
    const parsed = v.safeParse(REFERENCE_FILE, await readJson(path));
    // By another name than its own it would never be removed.
    return parsed.success && this.#refPath(parsed.output.reference) === path ? parsed.output : undefined;
  }

  #blobPath(id: string): string {
    return join(this.#blobs, id.replace(':', '-'));
  }

  #refPath(key: string): string {
    return join(this.#refs, `${createHash('sha256').update(key).digest('hex')}.json`);
  }
}

/** Whether it is the one spelling of a URL. */
function isKey(reference: string): boolean {
  try {
    const { key, pullable } = parseFileReference(reference);
    return pullable && key === reference;
  } catch {
    return false;
  }
}

/** What is in place has to be on disk, with its mode: whoever finds it takes it as it is. */
async function makeLasting(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.chmod(BLOB_MODE);
    await file.sync();
  } finally {
    await file.close();
  }
}
