import { mkdir, open, readFile, readdir, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { type HttpFilesOptions, httpFiles } from 'handover/process';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { FilesBench, ignore, sha256 } from './files-bench.js';
import type { Origin } from './origin.js';

let bench: FilesBench;
let origin: Origin;
let directory: string;

beforeEach(async () => {
  bench = await FilesBench.open();
  ({ origin, directory } = bench);
});
afterEach(() => bench.close());

describe('references', () => {
  const hash = 'AB'.repeat(32);
  it.each([
    { given: 'HTTP://Files.Example:80/a/../b', key: 'http://files.example/b', floating: true },
    { given: 'https://h/a?x=1', key: 'https://h/a?x=1', floating: true },
    { given: 'https://h/a#', key: 'https://h/a', floating: true },
    { given: `https://h/a#sha256=${hash}`, key: `https://h/a#sha256=${hash.toLowerCase()}`, floating: false },
    { given: 'http://[::1]:5000/a', key: 'http://[::1]:5000/a', floating: true },
  ])('IC-13 $given', ({ given, key, floating }) => {
    const normalised = bench.source().normalise(given);
    expect(normalised).toMatchObject({ key, floating, pullable: true, latest: false });
    expect(normalised.repository).toBe(key.split('#')[0]);
  });

  it('IC-13 an id is looked up, never fetched', async () => {
    const id = `sha256:${sha256('x')}`;
    expect(bench.source().normalise(id)).toMatchObject({ key: id, pullable: false, floating: false });
    await expect(bench.source().fetch(id, ignore)).rejects.toMatchObject({ code: 'ERR_INVALID_REFERENCE' });
  });

  it.each([
    '',
    'redis:7',
    'ftp://h/a',
    'file:///etc/passwd',
    'https://',
    'https://h/a#md5=1',
    `https://h/a#sha256=abc`,
  ])('IC-13 refuses %j', (reference) => {
    expect(() => bench.source().normalise(reference)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_REFERENCE' }),
    );
  });

  it('G-6 refuses credentials in a URL and does not repeat them', () => {
    const error = (() => {
      try {
        return bench.source().normalise('https://me:secret@h/a');
      } catch (caught) {
        return JSON.stringify(caught);
      }
    })();
    expect(error).toContain('ERR_INVALID_REFERENCE');
    expect(error).not.toContain('secret');
  });
});

describe('options', () => {
  it.each([
    [{}, 'directory'],
    [{ directory: '' }, 'directory'],
    [{ directory: '/x', maxBytes: 0 }, 'maxBytes'],
    [{ directory: '/x', folder: 1 }, 'folder'],
  ])('G-2 %j names %s', (options, path) => {
    expect(() => httpFiles(options as HttpFilesOptions)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }),
    );
  });
});

describe('content', () => {
  it('IC-24 comes whole, checked and in place: read-only, executable, by its hash', async () => {
    const content = Buffer.alloc(3_000_000, 'some bytes ');
    const url = `${origin.content('/app', content)}#sha256=${sha256(content)}`;
    const source = bench.source();
    await source.fetch(url, ignore);
    const found = await source.find(url, {});
    expect(found).toMatchObject({
      id: `sha256:${sha256(content)}`,
      digest: `sha256:${sha256(content)}`,
      bytes: content.length,
      references: [url],
      runnable: found?.path,
    });
    expect(sha256(await readFile(found!.path))).toBe(sha256(content));
    expect((await stat(found!.path)).mode & 0o777).toBe(0o555);
    await expect.poll(() => origin.connections()).toBe(0);
  });

  it('IC-17 a reference that moves leaves the old content with a pinned name to be removed by', async () => {
    const url = origin.content('/app', 'one');
    const source = bench.source();
    await source.fetch(url, ignore);
    origin.content('/app', 'two');
    await source.fetch(url, ignore);
    const old = `${url}#sha256=${sha256('one')}`;
    expect((await source.find(`sha256:${sha256('one')}`, {}))?.references).toEqual([old]);
    expect(await source.remove(old, {})).toBe('removed');
    expect((await source.list({})).map(({ id }) => id)).toEqual([`sha256:${sha256('two')}`]);
  });

  it('IC-21 what is there outlives the source, and processes share the folder', async () => {
    const url = origin.content('/app', 'one');
    await Promise.all([bench.source().fetch(url, ignore), bench.source().fetch(url, ignore)]);
    expect((await bench.source().find(url, {}))?.bytes).toBe(3);
    expect(await bench.everything()).toHaveLength(3);
  });

  it.each(['', '{', '{"reference":1}', '{"reference":"x","id":"../../etc/passwd"}'])(
    'ST-1 a broken reference file (%j) counts as absent, and fetching mends it',
    async (broken) => {
      const url = origin.content('/app', 'one');
      await bench.source().fetch(url, ignore);
      for (const name of await readdir(join(directory, 'refs'))) await writeFile(join(directory, 'refs', name), broken);
      expect(await bench.source().find(url, {})).toBeUndefined();
      await bench.source().fetch(url, ignore);
      expect((await bench.source().find(url, {}))?.bytes).toBe(3);
    },
  );

  it('IC-16 removing one name while another of the same content lands loses nothing', async () => {
    const [a, b] = [origin.content('/a', 'same'), origin.content('/b', 'same')];
    const source = bench.source();
    await source.fetch(a, ignore);
    await Promise.all([source.remove(a, {}), source.fetch(b, ignore)]);
    expect((await source.find(b, {}))?.bytes).toBe(4);
  });

  it('IC-12 progress counts up to the promised length', async () => {
    const content = Buffer.alloc(300_000);
    const told = await bench.progress(origin.content('/app', content));
    expect(told[0]).toEqual({ phase: 'downloading', bytes: { done: 0, total: 300_000 } });
    const all = { done: 300_000, total: 300_000 };
    // To put it onto the disk may take long, and is no silence of the origin (IC-8).
    expect(told.slice(-2)).toEqual([
      { phase: 'extracting', bytes: all },
      { phase: 'done', bytes: all },
    ]);
  });

  it('IC-24 is asked for as it is, not compressed', async () => {
    const asked: unknown[] = [];
    const url = origin.on('/app', ({ headers }, response) => {
      asked.push(headers['accept-encoding']);
      response.end('x');
    });
    await bench.source().fetch(url, ignore);
    expect(asked).toEqual(['identity']);
  });

  it.runIf(process.platform === 'linux')(
    'IC-24 is on the disk before it is in its place, and then its place',
    async () => {
      const probe = await open(join(directory, 'probe'), 'w');
      const handle = Object.getPrototypeOf(probe) as typeof probe;
      await probe.close();
      await rm(join(directory, 'probe'));
      const synced: string[] = [];
      const { sync } = handle;
      vi.spyOn(handle, 'sync').mockImplementation(async function (this: typeof probe) {
        const path = relative(directory, await readlink(`/proc/self/fd/${this.fd}`));
        const placed = await readdir(join(directory, 'blobs')).catch(() => []);
        synced.push(
          `${path.replace(/^partials.[^/]+/, 'partial').replace(/[^/]+\.partial$/, 'json')} of ${placed.length}`,
        );
        await sync.call(this);
      });
      await bench.source().fetch(origin.content('/app', 'x'), ignore);
      expect(synced).toEqual([
        ...['partial/json of 0', 'partial of 0'],
        ...['partial/content of 0', 'partial/json of 0', 'refs of 0'],
        ...['blobs of 1', 'partial/json of 1', 'refs of 1'],
      ]);
    },
  );

  it('IC-24 a body without a length, in pieces, is taken to its end', async () => {
    const url = origin.on('/app', (_, response) => {
      response.write('one ');
      setImmediate(() => response.end('two'));
    });
    const told = await bench.progress(url);
    expect(told.at(-1)).toEqual({ phase: 'done', bytes: { done: 7 } });
  });
});

describe('redirects', () => {
  it('IC-24 redirects are followed, up to five, and the reference stays what was asked for', async () => {
    const hops = (n: number): string =>
      n === 0
        ? origin.content('/to', 'x')
        : origin.status(`/hop${n}`, 302, { location: new URL(hops(n - 1)).pathname });
    const url = hops(5);
    await bench.source().fetch(url, ignore);
    expect((await bench.source().find(url, {}))?.references).toContain(url);
    expect(await bench.failure(hops(6))).toMatchObject({ reason: 'unknown', retryable: false });
  });

  it.each(['ftp://h/a', 'http://[broken', ''])('IC-24 redirects to %j are refused', async (location) => {
    expect(await bench.failure(origin.status('/a', 301, { location }))).toMatchObject({
      reason: 'unknown',
      retryable: false,
    });
  });
});

it('IC-24 a folder that is not there is made', async () => {
  const nested = httpFiles({ directory: join(directory, 'a', 'b') });
  expect(await nested.list({})).toEqual([]);
  await mkdir(join(directory, 'a'));
  const url = origin.content('/app', 'x');
  await nested.fetch(url, ignore);
  expect(await nested.find(url, {})).toBeDefined();
});
