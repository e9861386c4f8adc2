import { chmod, chown, readdir, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { invalidOption } from '../errors.js';
import { errorCode } from '../internal/system-error.js';
import { text } from '../options.js';
import { found } from './identity.js';
import { ifThere, readJson, writeJson } from './file-system.js';

/** Where the record of a task is kept in its folder. */
export const STATE_FILE = '.handover.json';

/** A name that is safe as a folder: no separators, no leading dot or dash. */
const SAFE = /^[A-Za-z0-9_][A-Za-z0-9_.~:@+=-]{0,199}$/;

const count = v.pipe(v.number(), v.integer());
const RECORD = v.object({
  allocId: v.string(),
  task: v.string(),
  specHash: v.string(),
  ports: v.record(v.string(), count),
  /** Of the context of the prestart. */
  labels: v.optional(v.record(v.string(), v.string()), {}),
  /** The content, if the spec has an artifact, and the name of its file here, unless it was unpacked. */
  content: v.optional(v.object({ reference: v.string(), id: v.string(), file: v.optional(v.string()) })),
  /** How it is started: where, with its output to which files, and as whom. */
  place: v.object({
    ...{ cwd: v.string(), stdout: v.string(), stderr: v.string() },
    user: v.optional(v.object({ uid: count, gid: count })),
  }),
  /** Since its start began. */
  run: v.optional(
    v.object({
      mark: text,
      boot: text,
      process: v.optional(v.object({ pid: v.pipe(count, v.minValue(2)), startedAt: v.number() })),
    }),
  ),
});

/** What is kept of a task beside its files: who it is and how to find its process. No spec, since that holds secrets (G-6). */
export type TaskRecord = v.InferOutput<typeof RECORD>;

/** How a task is started. */
export type Place = TaskRecord['place'];

/** The folder of one task: `<directory>/<allocId>/<task>`. */
export class TaskFolder {
  readonly path: string;
  readonly #alloc: string;

  constructor(directory: string, allocId: string, task: string) {
    this.#alloc = join(directory, safe('allocId', allocId));
    this.path = join(this.#alloc, safe('task', task));
  }

  /** `undefined` = nothing there that could be read. */
  async read(): Promise<TaskRecord | undefined> {
    const parsed = v.safeParse(RECORD, await readJson(join(this.path, STATE_FILE)));
    return parsed.success ? parsed.output : undefined;
  }

  /** The same, with the process of a start that nobody lived to record (DP-2). */
  async find(): Promise<TaskRecord | undefined> {
    const record = await this.read();
    return record?.run === undefined ? record : { ...record, run: found(record.run) };
  }

  async write(record: TaskRecord): Promise<void> {
    await writeJson(join(this.path, STATE_FILE), record);
  }

  /**
   * Lets the group of a task make files here. The folder stays ours, and what is in it with it: nobody else can put
   * another record in the place of ours.
   */
  async giveTo(user: { readonly gid: number } | undefined): Promise<void> {
    if (user === undefined) return;
    await chown(this.path, process.getuid?.() ?? 0, user.gid);
    await chmod(this.path, 0o1770);
  }

  /** Removes the task's folder, and the alloc's when it was the last one in it. */
  async remove(): Promise<void> {
    // Retries: a program that was killed just now may still be seen to write.
    await rm(this.path, { recursive: true, force: true, maxRetries: 3 });
    try {
      await rmdir(this.#alloc);
    } catch (error) {
      if (!['ENOENT', 'ENOTEMPTY', 'EEXIST'].includes(errorCode(error) ?? '')) throw error;
    }
  }
}

/** The folders of all tasks in a directory. */
export async function taskFolders(directory: string): Promise<readonly TaskFolder[]> {
  const allocs = await foldersIn(directory);
  const tasks = await Promise.all(allocs.map((allocId) => foldersIn(join(directory, allocId))));
  return allocs.flatMap((allocId, i) => (tasks[i] ?? []).map((task) => new TaskFolder(directory, allocId, task)));
}

/** The name for a file of content in the folder: the last part of its path, unless that is none or could mislead. */
export function contentName(reference: string): string {
  const name = URL.canParse(reference) ? (new URL(reference).pathname.split('/').at(-1) ?? '') : '';
  return SAFE.test(name) || name === STATE_FILE ? name : 'artifact';
}

async function foldersIn(path: string): Promise<readonly string[]> {
  const entries = (await ifThere(readdir(path, { withFileTypes: true }))) ?? [];
  return entries.filter((entry) => entry.isDirectory() && SAFE.test(entry.name)).map(({ name }) => name);
}

function safe(option: string, name: string): string {
  if (SAFE.test(name)) return name;
  throw invalidOption(
    option,
    `${JSON.stringify(name)} cannot be the name of a folder; use up to 200 letters, digits and any of _ . ~ : @ + = -, beginning with a letter, digit or _`,
  );
}
