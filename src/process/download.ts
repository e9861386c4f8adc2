import { type Hash, createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import type { Progress } from '../image/types.js';
import type { FileReference } from './file-reference.js';
import type { FileStore } from './file-store.js';
import type { Answer } from './http-exchange.js';
import { type GetOptions, httpGet } from './http-get.js';
import { restFrom, validatorOf } from './http-headers.js';
import type { Partial, Partials, Start } from './partials.js';
import { Refused, classify } from './pull-failure.js';

/** One fetch of a file, and the parts that it works with. */
export interface DownloadOrder {
  readonly reference: FileReference;
  readonly url: URL;
  readonly store: FileStore;
  readonly partials: Partials;
  /** The largest file that is taken, bytes. */
  readonly maxBytes: number;
  /** Value of the `Authorization` header. */
  readonly authorization: string | undefined;
  readonly wall: () => number;
  readonly signal: AbortSignal | undefined;
  readonly onProgress: (progress: Omit<Progress, 'attempt'>) => void;
}

/** A body, and where it goes. */
interface Delivery {
  readonly body: Answer['body'];
  readonly partial: Partial;
  /** At which byte of the content the body begins. */
  readonly from: number;
  /** Of what is before it. */
  readonly hash: Hash;
  /** The length of the whole; `undefined`: the origin does not say. */
  readonly total: number | undefined;
}

/** How much is read at once of what is there already, bytes. */
const READ_SIZE = 1 << 20;

/**
 * Fetches a file into its store, going on from what an earlier fetch of the URL has left (IC-24).
 *
 * @throws Refused, and system errors as they come; after an abort any of them, or the signal's reason
 */
export async function download(order: DownloadOrder): Promise<void> {
  try {
    await new Download(order).run();
  } catch (error) {
    // What others may never come back for must not stand in the way of what is wanted now.
    if (classify(error).reason === 'no-space') await order.partials.discardFree();
    throw error;
  }
}

class Download {
  constructor(private readonly order: DownloadOrder) {}

  async run(): Promise<void> {
    const start = await this.order.partials.take(this.order.reference.repository);
    if (start !== undefined && (await this.#owning(start, () => this.#goOn(start)))) return;
    await this.#get({}, [200], (answer) => this.#takeWhole(answer));
  }

  /**
   * Asks for the rest only, and takes the whole if that is what comes.
   *
   * @returns `false`: what came is neither
   */
  async #goOn(start: Start): Promise<boolean> {
    // One byte is asked for again: of content that is there to its end, too, there is a rest to be had.
    const from = start.size - 1;
    const hash = await this.#hash(start.content, from);
    const headers = { range: `bytes=${from}-`, 'if-range': start.validator };
    return this.#get(headers, [200, 206, 416], async (answer) => {
      const total = restFrom(from, start.validator, answer.headers);
      if (answer.status === 206 && total !== undefined) {
        await this.#receive({ body: answer.body, partial: start, from, hash, total });
        return true;
      }
      if (answer.status !== 200) return false;
      await this.order.partials.discard(start);
      await this.#takeWhole(answer);
      return true;
    });
  }

  #get<T>(
    headers: GetOptions['headers'],
    accept: GetOptions['accept'],
    use: (answer: Answer) => Promise<T>,
  ): Promise<T> {
    const { url, authorization, wall, signal } = this.order;
    return httpGet(url, { headers, authorization, accept, wall, signal }, use);
  }

  async #takeWhole({ body, headers }: Answer): Promise<void> {
    const { partials, reference } = this.order;
    const { 'content-length': length } = headers;
    const total = length === undefined ? undefined : Number(length);
    const partial = await partials.begin(reference.repository, validatorOf(headers));
    await this.#owning(partial, () => this.#receive({ body, partial, from: 0, hash: createHash('sha256'), total }));
  }

  /** Whatever way the work ends, the partial is not ours any more. */
  async #owning<T>(partial: Partial, work: () => Promise<T>): Promise<T> {
    const { partials } = this.order;
    try {
      const result = await work();
      await partials.discard(partial);
      return result;
    } catch (error) {
      await (this.#leavesGoodStart(error) ? partials.release(partial) : partials.discard(partial));
      throw error;
    }
  }

  /** An abort is no reason to fetch again what is there; content that may be wrong is. */
  #leavesGoodStart(error: unknown): boolean {
    const { retryable, reason } = classify(error);
    return this.order.signal?.aborted === true || (retryable && reason !== 'corrupt-stream');
  }

  /** Hashes the first bytes of a file. */
  async #hash(path: string, bytes: number): Promise<Hash> {
    const hash = createHash('sha256');
    const buffer = Buffer.allocUnsafe(READ_SIZE);
    await withFile(path, 'r', async (file) => {
      for (let done = 0; done < bytes;) {
        this.order.signal?.throwIfAborted();
        const { bytesRead } = await file.read(buffer, 0, Math.min(READ_SIZE, bytes - done), done);
        if (bytesRead === 0) throw new Error(`${path} has become shorter while it was read`);
        hash.update(buffer.subarray(0, bytesRead));
        done += bytesRead;
        // A sign of life: of a large file this takes a while.
        this.order.onProgress({ phase: 'resolving', bytes: { done: 0 } });
      }
    });
    return hash;
  }

  async #receive({ body, partial, from, hash, total }: Delivery): Promise<void> {
    const { reference, store, maxBytes, onProgress } = this.order;
    let done = from;
    const tell = (phase: Progress['phase']): void =>
      onProgress({ phase, bytes: { done, ...(total === undefined ? {} : { total }) } });
    const account = (bytes: number): void => {
      done += bytes;
      if (Math.max(done, total ?? 0) > maxBytes) throw tooBig(maxBytes);
      if (total !== undefined && done > total) throw wrongLength(done, total);
      tell('downloading');
    };
    account(0);
    await withFile(partial.content, 'r+', async (file) => {
      for await (const chunk of body) {
        hash.update(chunk);
        await writeAt(file, chunk, done);
        account(chunk.length);
      }
    });
    if (total !== undefined && done < total) throw wrongLength(done, total);
    const checksum = hash.digest('hex');
    const wanted = reference.checksum ?? checksum;
    if (checksum !== wanted) throw mismatch(wanted, checksum, from > 0);
    // To get it onto the disk may take a while, in silence (IC-8).
    tell('extracting');
    await store.add(reference, partial.content, checksum, partial.folder);
    tell('done');
  }
}

async function withFile(path: string, flags: string, work: (file: FileHandle) => Promise<void>): Promise<void> {
  const file = await open(path, flags);
  try {
    await work(file);
  } finally {
    await file.close();
  }
}

/** A write may take less than it was given; the next one tells why. */
async function writeAt(file: FileHandle, chunk: Buffer, position: number): Promise<void> {
  for (let done = 0; done < chunk.length;) {
    const { bytesWritten } = await file.write(chunk, done, chunk.length - done, position + done);
    done += bytesWritten;
  }
}

function tooBig(maxBytes: number): Refused {
  const problem = `the file is bigger than maxBytes allows (${maxBytes} bytes)`;
  return new Refused({ reason: 'unknown', retryable: false, problem });
}

function wrongLength(got: number, promised: number): Refused {
  const problem = `${got} bytes of the content are there, but it was said to have ${promised}`;
  return new Refused({ reason: 'corrupt-stream', retryable: true, problem });
}

/** Parts that do not make the content may do so from zero; the whole, fetched again, is what it was. */
function mismatch(wanted: string, got: string, joined: boolean): Refused {
  const problem = `the content hashes to sha256:${got}, but the reference says sha256:${wanted}`;
  return new Refused({ reason: 'corrupt-stream', retryable: joined, problem });
}
