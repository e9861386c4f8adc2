import { createHash, randomUUID } from 'node:crypto';
import { readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { ifThere, makeFolder, readJson, writeJson } from './file-system.js';
import { type Whereabouts, isAlive, whereabouts } from '../internal/process-identity.js';

/** How long the start of some content waits for somebody to go on with it, ms. */
const KEPT_FOR = 24 * 60 * 60 * 1_000;

const FACTS = 'facts.json';
const CONTENT = 'content';
const FREE = 'free';

const FACTS_FILE = v.object({ validator: v.string() });

/** Content that is on its way, in a folder that only its owner touches. */
export interface Partial {
  readonly folder: string;
  /** The file with the content. */
  readonly content: string;
  /** Bytes that are there. */
  readonly size: number;
  /** What the origin calls this very content; `undefined`: nobody can go on with it. */
  readonly validator: string | undefined;
}

/** A partial that can be gone on with. */
export type Start = Partial & { readonly validator: string };

/** `<hash of the URL>.<boot>.<uuid>.<owner>`; the owner is `free` or `<pid namespace>-<pid>-<start of the process>`. */
const NAME = /^([0-9a-f]{64})\.([0-9a-f]+)\.[0-9a-f-]+\.(free|(\d+)-(\d+)-(\d+))$/;

/**
 * What is left of fetches that were cut, to go on from (IC-24), and what is on its way now. Each partial is a folder
 * whose name tells its owner; to rename it is to take it, which only one can. Nobody else writes to what a fetch writes
 * to, in this process or another. A fetch that ends leaves its partial free; what a process that died did not free, the
 * next one takes over. What nobody has taken for a day goes.
 *
 * A partial is good until the next boot: after a power cut a file may be as long as it was without having the bytes.
 */
export class Partials {
  readonly #directory: string;
  #here: Whereabouts | undefined;

  constructor(directory: string) {
    this.#directory = join(directory, 'partials');
  }

  /** Takes what an earlier fetch has left of the content of a URL. */
  async take(url: string): Promise<Start | undefined> {
    const key = hashOf(url);
    for (const name of await this.#names()) {
      if (!name.startsWith(`${key}.`) || !this.#isFree(name)) continue;
      const folder = this.#own(key);
      try {
        await rename(join(this.#directory, name), folder);
      } catch {
        // Somebody else was faster, or does not let us.
        continue;
      }
      const start = await read(folder);
      if (start !== undefined) return start;
      await this.discard({ folder });
    }
    return undefined;
  }

  /** A place for content from its first byte on. */
  async begin(url: string, validator: string | undefined): Promise<Partial> {
    const folder = this.#own(hashOf(url));
    const content = join(folder, CONTENT);
    try {
      await makeFolder(folder);
      await this.#collect((await stat(folder)).mtimeMs);
      await writeJson(join(folder, FACTS), { validator });
      await writeFile(content, '');
    } catch (error) {
      await this.discard({ folder });
      throw error;
    }
    return { folder, content, size: 0, validator };
  }

  /** Leaves it to the next fetch of the URL, if that can go on with it. */
  async release(partial: Partial): Promise<void> {
    if (partial.validator === undefined) return this.discard(partial);
    const free = partial.folder.replace(/[^.]+$/, FREE);
    // If it cannot be left, it is taken over when this process has ended.
    await rename(partial.folder, free).catch(() => undefined);
  }

  /** Never fails: what cannot be removed now is collected later. */
  async discard({ folder }: Pick<Partial, 'folder'>): Promise<void> {
    await rm(folder, { recursive: true, force: true }).catch(() => undefined);
  }

  /** Gives up all that is free, for the sake of what needs the space more (IC-10). */
  async discardFree(): Promise<void> {
    for (const name of await this.#names()) {
      if (this.#isFree(name)) await this.discard({ folder: join(this.#directory, name) });
    }
  }

  /** @param now - by the clock of the file system, which alone counts for the age of its files */
  async #collect(now: number): Promise<void> {
    for (const name of await this.#names()) {
      if (this.#isOwned(name)) continue;
      const folder = join(this.#directory, name);
      const written = (await ifThere(stat(join(folder, CONTENT)))) ?? (await ifThere(stat(folder)));
      if (written !== undefined && now - written.mtimeMs > KEPT_FOR) await this.discard({ folder });
    }
  }

  async #names(): Promise<readonly string[]> {
    const names = (await ifThere(readdir(this.#directory))) ?? [];
    return names.filter((name) => NAME.test(name));
  }

  #own(key: string): string {
    const { boot, namespace, pid, startedAt } = this.#whereabouts();
    return join(this.#directory, `${key}.${boot}.${randomUUID()}.${namespace}-${pid}-${startedAt}`);
  }

  /** Whether a process that runs, as far as can be seen from here, has it. */
  #isOwned(name: string): boolean {
    const { boot, namespace } = this.#whereabouts();
    const [, , at, , space, pid, startedAt] = NAME.exec(name) ?? [];
    return at === boot && space === namespace && isAlive({ pid: Number(pid), startedAt: Number(startedAt) });
  }

  /** Whether it is for the taking: of an owner in another pid namespace, or on another host, nothing can be said. */
  #isFree(name: string): boolean {
    const { boot, namespace } = this.#whereabouts();
    const [, , at, owner, space] = NAME.exec(name) ?? [];
    return at === boot && (owner === FREE || (space === namespace && !this.#isOwned(name)));
  }

  #whereabouts(): Whereabouts {
    return (this.#here ??= whereabouts());
  }
}

async function read(folder: string): Promise<Start | undefined> {
  const content = join(folder, CONTENT);
  const facts = v.safeParse(FACTS_FILE, await readJson(join(folder, FACTS)));
  const size = (await ifThere(stat(content)))?.size ?? 0;
  return facts.success && size > 0 ? { folder, content, size, validator: facts.output.validator } : undefined;
}

function hashOf(url: string): string {
  return createHash('sha256').update(url).digest('hex');
}
