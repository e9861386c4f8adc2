import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { resolve } from 'node:path';
import * as v from 'valibot';
import type { Call, Opt } from '../call.js';
import { type Env, resolveEnv } from '../env.js';
import { HandoverError } from '../errors.js';
import type { ArtifactSource, NormalisedReference, Progress } from '../image/types.js';
import { parseOptions, text, wholeNumber } from '../options.js';
import { type FileReference, parseFileReference } from './file-reference.js';
import { type FileArtifact, FileStore } from './file-store.js';
import { Refused, httpGet } from './http-get.js';
import { pullFailed, toPullError } from './pull-failure.js';

/** Options of {@link httpFiles}. */
export type HttpFilesOptions = {
  /** Where files are kept; made when it is missing. Processes may share it. */
  readonly directory: string;
} & Opt<{
  /** The largest file that is fetched, in bytes, from 1. Default: no limit. */
  maxBytes: number;
}>;

const OPTIONS = v.strictObject({ directory: text, maxBytes: wholeNumber(Number.MAX_SAFE_INTEGER, 1) });

type FetchCall = Call & { readonly onProgress: (progress: Omit<Progress, 'attempt'>) => void };

/**
 * Files from HTTP(S) origins as content for an {@link ImageCoordinator} (IC-24): a reference is a URL, with
 * `#sha256=<64 hex digits>` to pin and check the content. A URL without it floats: what is there is used until the
 * policy asks again. The URL, its query included, shows up in events and errors: put no secret in it.
 *
 * Files are kept by their content and appear in one step, checked. They are read-only, and whoever runs them links or
 * copies them first, so that a removal here harms nobody: `users()` is always empty.
 *
 * @param o.directory - where files are kept
 * @param o.maxBytes - the largest file that is fetched. Default: no limit
 * @param env - `clock`: what `Retry-After` is counted by
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function httpFiles(o: HttpFilesOptions, env: Env = {}): ArtifactSource<FileArtifact> {
  const { directory, maxBytes } = parseOptions(OPTIONS, o);
  const { clock } = resolveEnv(env);
  return new HttpFiles(resolve(directory), maxBytes, () => clock.wall());
}

class HttpFiles implements ArtifactSource<FileArtifact> {
  readonly id: string;
  readonly #store: FileStore;

  constructor(
    directory: string,
    private readonly maxBytes: number,
    private readonly wall: () => number,
  ) {
    this.id = `files:${directory}`;
    this.#store = new FileStore(directory);
  }

  normalise(reference: string): NormalisedReference {
    const { key, repository, host, pullable, floating, latest } = parseFileReference(reference);
    return { key, repository, host, pullable, floating, latest };
  }

  async find(referenceOrId: string, call: Call): Promise<FileArtifact | undefined> {
    call.signal?.throwIfAborted();
    return this.#store.find(referenceOrId);
  }

  async fetch(reference: string, { signal, onProgress }: FetchCall): Promise<void> {
    signal?.throwIfAborted();
    const parsed = parseFileReference(reference);
    if (parsed.url === undefined) throw notFetchable(reference);
    try {
      await httpGet(parsed.url, { wall: this.wall, signal }, (response) =>
        this.#store.add(parsed, (file) => this.#receive(parsed, response, file, onProgress)),
      );
    } catch (error) {
      signal?.throwIfAborted();
      throw error instanceof Refused ? pullFailed(parsed.key, error.failure) : toPullError(parsed.key, error);
    }
  }

  /** Nobody: who runs a file has linked or copied it. */
  async users(_id: string, call: Call): Promise<readonly string[]> {
    call.signal?.throwIfAborted();
    return [];
  }

  async remove(referenceOrId: string, call: Call): Promise<'removed' | 'untagged' | 'absent'> {
    call.signal?.throwIfAborted();
    return this.#store.remove(referenceOrId);
  }

  async list(call: Call): Promise<readonly FileArtifact[]> {
    call.signal?.throwIfAborted();
    return this.#store.list();
  }

  /** @returns the hash of what was written */
  async #receive(
    reference: FileReference,
    response: IncomingMessage,
    file: FileHandle,
    onProgress: FetchCall['onProgress'],
  ): Promise<string> {
    const length = response.headers['content-length'];
    const total = length === undefined ? {} : { total: Number(length) };
    const hash = createHash('sha256');
    let done = 0;
    const account = (bytes: number): void => {
      done += bytes;
      if (Math.max(done, total.total ?? 0) > this.maxBytes) throw tooBig(this.maxBytes);
      onProgress({ phase: 'downloading', bytes: { done, ...total } });
    };
    account(0);
    for await (const chunk of response as AsyncIterable<Buffer>) {
      hash.update(chunk);
      await file.writeFile(chunk);
      account(chunk.length);
    }
    const checksum = hash.digest('hex');
    if (reference.checksum !== undefined && reference.checksum !== checksum)
      throw mismatch(reference.checksum, checksum);
    onProgress({ phase: 'done', bytes: { done, ...total } });
    return checksum;
  }
}

function tooBig(maxBytes: number): Refused {
  const problem = `the file is bigger than maxBytes allows (${maxBytes} bytes)`;
  return new Refused({ reason: 'unknown', retryable: false, problem });
}

function mismatch(wanted: string, got: string): Refused {
  const problem = `the content hashes to sha256:${got}, but the reference says sha256:${wanted}`;
  return new Refused({ reason: 'corrupt-stream', retryable: false, problem });
}

function notFetchable(reference: string): HandoverError<'ERR_INVALID_REFERENCE'> {
  return new HandoverError('ERR_INVALID_REFERENCE', `${reference} is an id, which no origin knows; give the URL`, {
    details: { reference },
  });
}
