import { createReadStream } from 'node:fs';
import { mkdir, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Call } from '../call.js';
import { ArchivePlan } from './archive-plan.js';

/** What is fed with an archive. */
interface Sink {
  write(chunk: Buffer): boolean;
  end(): unknown;
  once(event: 'close' | 'drain' | 'error', listener: (error?: unknown) => void): unknown;
}

/**
 * Unpacks a tar archive, plain or with gzip, into a folder. All of it is looked through before anything is written: an
 * archive with one bad entry leaves nothing.
 *
 * Files get the rights to read, write and execute that the archive gives them, and no more; they belong to the user of
 * this process.
 *
 * @param archive - a file
 * @param folder - is there
 * @param reserved - names in the folder that are not the archive's to take, and what they are
 * @throws Error that says what is wrong with the archive, a system error, or the signal's reason; then nothing is written
 *   any more
 */
export async function unpack(
  archive: string,
  folder: string,
  reserved: ReadonlyMap<string, string>,
  call: Call,
): Promise<void> {
  // It takes a while to load, and few tasks need it.
  const { Parser, Unpack } = await import('tar');
  const plan = new ArchivePlan(reserved);
  const links: { readonly path: string; readonly target: string }[] = [];
  const look = new Parser({
    strict: true,
    onReadEntry(entry) {
      plan.add(entry);
      if (entry.type === 'SymbolicLink') links.push({ path: entry.path, target: entry.linkpath ?? '' });
      entry.resume();
    },
  });
  await feed(archive, look, call);
  if (plan.problem !== undefined) throw new Error(plan.problem);
  const write = new Unpack({
    ...{ cwd: folder, strict: true, preserveOwner: false, chmod: true, processUmask: 0 },
    // The library waits forever for a link to a name like that of its own folder, and refuses links to links.
    filter: (_, entry) => !('type' in entry) || entry.type !== 'SymbolicLink',
    onReadEntry(entry) {
      entry.mode = (entry.mode ?? 0o644) & 0o777;
    },
  });
  await feed(archive, write, call);
  // Last, when nothing can be written through them any more.
  for (const { path, target } of links) {
    call.signal?.throwIfAborted();
    const place = join(folder, path);
    await mkdir(dirname(place), { recursive: true });
    await symlink(target, place);
  }
}

/** Settles when nothing is written any more. */
async function feed(archive: string, sink: Sink, { signal }: Call): Promise<void> {
  let failure: Error | undefined;
  const closed = new Promise<void>((resolve) => {
    sink.once('close', () => resolve());
    sink.once('error', (error) => {
      failure ??= error as Error;
      resolve();
    });
  });
  try {
    // An abort ends the reading: what is half written then is closed before it is cleared away.
    for await (const chunk of createReadStream(archive, signal === undefined ? {} : { signal })) {
      if (failure !== undefined) break;
      if (sink.write(chunk as Buffer)) continue;
      await Promise.race([closed, new Promise<void>((resolve) => sink.once('drain', () => resolve()))]);
    }
  } catch (error) {
    failure = error as Error;
  }
  sink.end();
  await closed;
  signal?.throwIfAborted();
  if (failure !== undefined) throw failure;
}
