import { type FileHandle, open } from 'node:fs/promises';
import type { Clock } from '../clock.js';
import type { LogChunk } from '../driver/driver.js';
import { sleep } from '../internal/signals.js';
import { ifThere } from './file-system.js';
import type { Place } from './task-folder.js';

/** How often files are looked at while they are followed, ms: what watches files misses changes on some systems. */
const POLL_MS = 250;
/** How much is read at once, in bytes. */
const BLOCK = 65_536;

/** What is wanted of a task's output. */
export interface OutputAsk {
  readonly follow: boolean;
  readonly signal: AbortSignal | undefined;
  /** Whether the task still may write. */
  readonly running: () => boolean;
}

/** Reads what a task has written; nothing is read ahead of who iterates. */
export async function* outputOf(
  { stdout, stderr }: Pick<Place, 'stdout' | 'stderr'>,
  { follow, signal, running }: OutputAsk,
  clock: Clock,
): AsyncGenerator<LogChunk, void> {
  const files = [new Growing(stdout, 'stdout'), ...(stderr === stdout ? [] : [new Growing(stderr, 'stderr')])];
  try {
    for (;;) {
      // Asked first: what is written before the end is then read once more.
      const last = !follow || !running();
      for (const file of files) yield* file.more(signal);
      if (last) return;
      await sleep(clock, POLL_MS, { signal });
    }
  } finally {
    for (const file of files) await file.close();
  }
}

/** A file that is written to while it is read. */
class Growing {
  #file: FileHandle | undefined;
  #at = 0;

  constructor(
    private readonly path: string,
    private readonly stream: LogChunk['stream'],
  ) {}

  async *more(signal: AbortSignal | undefined): AsyncGenerator<LogChunk, void> {
    signal?.throwIfAborted();
    this.#file ??= await ifThere(open(this.path));
    const facts = await this.#file?.stat();
    // Reading from a terminal or a pipe would take what is somebody else's, and wait for it.
    if (this.#file === undefined || facts?.isFile() !== true) return;
    if (facts.size < this.#at) this.#at = 0;
    for (;;) {
      const { bytesRead, buffer } = await this.#file.read(Buffer.alloc(BLOCK), 0, BLOCK, this.#at);
      signal?.throwIfAborted();
      if (bytesRead === 0) return;
      this.#at += bytesRead;
      yield { stream: this.stream, at: undefined, chunk: buffer.subarray(0, bytesRead) };
      signal?.throwIfAborted();
    }
  }

  async close(): Promise<void> {
    await this.#file?.close();
  }
}
