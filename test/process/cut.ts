import { readFile } from 'node:fs/promises';
import { expect } from 'vitest';
import { type FilesBench, noise, sha256 } from './files-bench.js';

export const CONTENT = noise(100_000);
export const CUT = 90_000;
/** What is asked for again when `CUT` bytes are there. */
export const REST = `bytes=${CUT - 1}-`;

/** A URL whose first fetch was cut, by a source that is gone. */
export async function cut(bench: FilesBench, o: Parameters<FilesBench['origin']['ranged']>[2] = {}): Promise<string> {
  const url = bench.origin.ranged('/app', CONTENT, { cuts: [CUT], ...o });
  expect(await bench.failure(url)).toMatchObject({ reason: 'registry-unavailable', retryable: true });
  return url;
}

/** That all of the content is there, and nothing else. */
export async function expectWhole(bench: FilesBench, url: string, content = CONTENT): Promise<void> {
  const found = await bench.source().find(url, {});
  expect(sha256(await readFile(found!.path))).toBe(sha256(content));
  expect(found).toMatchObject({ id: `sha256:${sha256(content)}`, bytes: content.length });
  expect(await bench.partials()).toEqual([]);
}
