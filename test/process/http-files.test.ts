import { once } from 'node:events';
import { mkdir, open, readFile, readdir, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join, relative } from 'node:path';
import type { PullReason } from 'handover';
import { type HttpFilesOptions, httpFiles } from 'handover/process';
import { FakeClock } from 'handover/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { FilesBench, ignore, sha256 } from './files-bench.js';
import { Origin } from './origin.js';

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
        ...['partial/content of 0', 'blobs of 1'],
        ...['partial/json of 1', 'refs of 1', 'partial/json of 1', 'refs of 1'],
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

describe('failures', () => {
  const now = new FakeClock().wall();
  it.each<{
    status: number;
    headers?: Record<string, string>;
    reason: PullReason;
    retryable: boolean;
    retryAt?: number;
  }>([
    { status: 401, reason: 'unauthorized', retryable: false },
    { status: 403, reason: 'not-found-or-denied', retryable: false },
    { status: 404, reason: 'not-found-or-denied', retryable: false },
    { status: 410, reason: 'not-found-or-denied', retryable: false },
    { status: 408, reason: 'registry-unavailable', retryable: true },
    { status: 429, reason: 'rate-limited', retryable: true },
    { status: 429, headers: { 'retry-after': '7' }, reason: 'rate-limited', retryable: true, retryAt: now + 7_000 },
    {
      status: 429,
      headers: { 'retry-after': 'Thu, 01 Jan 2026 00:01:00 GMT' },
      reason: 'rate-limited',
      retryable: true,
      retryAt: Date.parse('2026-01-01T00:01:00Z'),
    },
    { status: 429, headers: { 'retry-after': 'soon' }, reason: 'rate-limited', retryable: true },
    { status: 500, reason: 'registry-unavailable', retryable: true },
    {
      status: 503,
      headers: { 'retry-after': '1' },
      reason: 'registry-unavailable',
      retryable: true,
      retryAt: now + 1_000,
    },
    { status: 204, reason: 'unknown', retryable: false },
    { status: 418, reason: 'unknown', retryable: false },
  ])('IC-10 status $status $headers is $reason', async ({ status, headers, reason, retryable, retryAt }) => {
    expect(await bench.failure(origin.status('/a', status, headers))).toMatchObject({ reason, retryable, retryAt });
    expect(await bench.everything()).toEqual([]);
  });

  it('IC-10 a refused connection is registry-unavailable', async () => {
    const gone = await Origin.open();
    const url = gone.url('/a');
    await gone.close();
    expect(await bench.failure(url)).toMatchObject({ reason: 'registry-unavailable', retryable: true });
  });

  it('IC-10 content that does not hash to what the reference says is corrupt-stream, and nothing of it stays', async () => {
    const url = `${origin.content('/app', 'other')}#sha256=${sha256('this')}`;
    expect(await bench.failure(url)).toMatchObject({ reason: 'corrupt-stream', retryable: false });
    expect(await bench.everything()).toEqual([]);
  });

  it('case C15 a body that ends before its length is registry-unavailable, and without a validator nothing of it stays', async () => {
    const url = origin.on('/app', (_, response) => {
      response.writeHead(200, { 'content-length': 10 }).write('half', () => response.socket?.end());
    });
    expect(await bench.failure(url)).toMatchObject({ reason: 'registry-unavailable', retryable: true });
    expect(await bench.everything()).toEqual([]);
  });

  it('case C15 a body in pieces that ends without its last piece is registry-unavailable', async () => {
    const url = origin.on('/app', (_, response) => response.write('half', () => response.socket?.end()));
    expect(await bench.failure(url)).toMatchObject({ reason: 'registry-unavailable', retryable: true });
    expect(await bench.everything()).toEqual([]);
  });

  it('case C8 a connection that is reset in the middle is registry-unavailable, retryable, and nothing stays', async () => {
    const url = origin.on('/app', (_, response) => {
      response.writeHead(200, { 'content-length': 10 }).write('half', () => response.socket?.resetAndDestroy());
    });
    expect(await bench.failure(url)).toMatchObject({ reason: 'registry-unavailable', retryable: true });
    expect(await bench.everything()).toEqual([]);
  });

  it.each(['not HTTP at all\r\n\r\n', 'HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\nbody'])(
    'case C4 an answer that is not HTTP (%j) is corrupt-stream',
    async (garbage) => {
      const server = createServer((socket) => socket.on('error', () => undefined).end(garbage)).listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = server.address() as { port: number };
      expect(await bench.failure(`http://127.0.0.1:${port}/a`)).toMatchObject({
        reason: 'corrupt-stream',
        retryable: true,
      });
      server.close();
    },
  );

  it('IC-10 a file over maxBytes is refused, by its promised length or by what comes', async () => {
    const source = bench.source({ maxBytes: 5 });
    expect(await bench.failure(origin.content('/long', 'too long'), source)).toMatchObject({
      reason: 'unknown',
      retryable: false,
    });
    const pieces = origin.on('/pieces', (_, response) => response.write('too ') && response.end('long'));
    expect(await bench.failure(pieces, source)).toMatchObject({ reason: 'unknown', retryable: false });
    await source.fetch(origin.content('/fits', 'fits!'), ignore);
    expect(await bench.everything()).toHaveLength(3);
  });

  it('IC-10 a file that is promised to be over maxBytes is not waited for', async () => {
    expect(await bench.failure(origin.silent('/long'), bench.source({ maxBytes: 999 }))).toMatchObject({
      reason: 'unknown',
    });
    await expect.poll(() => origin.connections()).toBe(0);
  });

  it('case C16 a full disk is no-space, and the half-written file goes', async () => {
    const probe = await open(join(directory, 'probe'), 'w');
    const handle = Object.getPrototypeOf(probe) as typeof probe;
    await probe.close();
    await rm(join(directory, 'probe'));
    vi.spyOn(handle, 'write').mockRejectedValue(
      Object.assign(new Error('no space left on device'), { code: 'ENOSPC' }),
    );
    expect(await bench.failure(origin.content('/app', 'x'))).toMatchObject({ reason: 'no-space', retryable: false });
    expect(await bench.everything()).toEqual([]);
    await expect.poll(() => origin.connections()).toBe(0);
  });

  it('IC-10 a folder that cannot be made is unknown, with the cause', async () => {
    await writeFile(join(directory, 'file'), '');
    const source = httpFiles({ directory: join(directory, 'file') });
    expect(await bench.failure(origin.content('/app', 'x'), source)).toMatchObject({
      reason: 'unknown',
      retryable: false,
    });
  });

  it('G-6 what the system said is the cause; an answer that was refused has none but its own words', async () => {
    const causeOf = (url: string) =>
      bench
        .source()
        .fetch(url, ignore)
        .catch((error: unknown) => (error as Error).cause);
    const gone = await Origin.open();
    const url = gone.url('/a');
    await gone.close();
    expect(await causeOf(url)).toMatchObject({ code: 'ECONNREFUSED' });
    expect(await causeOf(origin.status('/a', 404))).toBeUndefined();
  });

  it('G-6 the error names the reference and the cause', async () => {
    const url = origin.status('/a', 404);
    expect((await bench.failure(url)).message).toBe(
      `Fetching ${url} failed (not-found-or-denied): ${new URL(url).host} answered 404 Not Found`,
    );
  });
});

describe('aborts', () => {
  const reason = new Error('called off');

  it('G-4 before the headers: the signal’s reason, the connection ended', async () => {
    const controller = new AbortController();
    const url = origin.on('/never', () => controller.abort(reason));
    await expect(bench.source().fetch(url, { ...ignore, signal: controller.signal })).rejects.toBe(reason);
    expect(await bench.everything()).toEqual([]);
    await expect.poll(() => origin.connections()).toBe(0);
  });

  it('G-4 in the body: the signal’s reason, only when the partial file is gone and the connection ended', async () => {
    const controller = new AbortController();
    const onProgress = ({ bytes }: { bytes: { done: number } }): void => {
      if (bytes.done > 0) controller.abort(reason);
    };
    await expect(bench.source().fetch(origin.silent('/a'), { onProgress, signal: controller.signal })).rejects.toBe(
      reason,
    );
    expect(await bench.everything()).toEqual([]);
    await expect.poll(() => origin.connections()).toBe(0);
  });

  it('case C61 nothing stays on the caller’s signal', async () => {
    const { signal } = new AbortController();
    const added = vi.spyOn(signal, 'addEventListener');
    const removed = vi.spyOn(signal, 'removeEventListener');
    await bench.source().fetch(origin.content('/a', 'x'), { ...ignore, signal });
    await bench
      .source()
      .fetch(origin.status('/b', 404), { ...ignore, signal })
      .catch(() => undefined);
    expect(added).toHaveBeenCalledTimes(2);
    expect(removed.mock.calls.map(([, listener]) => listener)).toEqual(
      added.mock.calls.map(([, listener]) => listener),
    );
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
