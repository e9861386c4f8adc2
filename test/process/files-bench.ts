import { createHash } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ArtifactSource, type Progress, isHandoverError } from 'handover';
import { type FileArtifact, type HttpFilesOptions, httpFiles } from 'handover/process';
import { FakeClock } from 'handover/testing';
import { Origin } from './origin.js';

export const sha256 = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');

/** Bytes of which no two parts are alike. */
export function noise(length: number): Buffer {
  let seed = length + 1;
  return Buffer.from(Uint8Array.from({ length }, () => (seed = (seed * 48_271) % 2_147_483_647) & 0xff));
}

/** A fetch that nobody listens to. */
export const ignore = { onProgress: () => undefined };

/** An origin, and a folder for the files that are fetched from it. */
export class FilesBench {
  private constructor(
    readonly origin: Origin,
    readonly directory: string,
  ) {}

  static async open(): Promise<FilesBench> {
    return new FilesBench(await Origin.open(), await mkdtemp(join(tmpdir(), 'handover-files-')));
  }

  /** Each call is as a new process: nothing is remembered but what is on disk. */
  source(o: Partial<HttpFilesOptions> = {}, clock = new FakeClock()): ArtifactSource<FileArtifact> {
    return httpFiles({ directory: this.directory, ...o }, { clock });
  }

  /** What a fetch that has to fail says of it. */
  async failure(url: string, source = this.source(), signal?: AbortSignal) {
    const error: unknown = await source.fetch(url, { ...ignore, signal }).catch((caught: unknown) => caught);
    if (!isHandoverError(error, 'ERR_PULL_FAILED')) throw new Error(`not a failed pull: ${String(error)}`);
    const { reason, retryAt } = error.details;
    return { reason, retryable: error.retryable, retryAt, message: error.message };
  }

  /** Fetches, and gives what was told of the progress. */
  async progress(url: string, source = this.source()): Promise<readonly Omit<Progress, 'attempt'>[]> {
    const told: Omit<Progress, 'attempt'>[] = [];
    await source.fetch(url, { onProgress: (progress) => told.push(progress) });
    return told;
  }

  /** Every file in the folder. */
  async everything(): Promise<readonly string[]> {
    const entries = await readdir(this.directory, { recursive: true, withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
  }

  /** The folders of content that is there in part. */
  async partials(): Promise<readonly string[]> {
    const folder = join(this.directory, 'partials');
    return (await readdir(folder).catch(() => [])).map((name) => join(folder, name));
  }

  async close(): Promise<void> {
    await this.origin.close();
    await rm(this.directory, { recursive: true, force: true });
  }
}
