import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, readdir, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { deferred } from '../../src/internal/deferred.js';
import { whereabouts } from '../../src/internal/process-identity.js';
import { FilesBench, ignore, noise, sha256 } from './files-bench.js';
import { type Fixture, fixture } from './fixtures/run.js';

const CONTENT = noise(100_000);
const CUT = 90_000;
const HOUR = 60 * 60;
/** What is asked for again when `CUT` bytes are there. */
const REST = `bytes=${CUT - 1}-`;

let bench: FilesBench;
const fixtures: Fixture[] = [];

beforeEach(async () => {
  bench = await FilesBench.open();
});
afterEach(async () => {
  for (const child of fixtures.splice(0)) child.kill('SIGKILL');
  await bench.close();
});

/** A URL whose first fetch was cut, by a source that is gone. */
async function cut(o: Parameters<typeof bench.origin.ranged>[2] = {}): Promise<string> {
  const url = bench.origin.ranged('/app', CONTENT, { cuts: [CUT], ...o });
  expect(await bench.failure(url)).toMatchObject({ reason: 'registry-unavailable', retryable: true });
  return url;
}

/** That all of the content is there, and nothing else. */
async function expectWhole(url: string, content = CONTENT): Promise<void> {
  const found = await bench.source().find(url, {});
  expect(sha256(await readFile(found!.path))).toBe(sha256(content));
  expect(found).toMatchObject({ id: `sha256:${sha256(content)}`, bytes: content.length });
  expect(await bench.partials()).toEqual([]);
}

describe('going on', () => {
  it('IC-24 case C15 after a cut the next fetch asks for the rest only, and the whole is checked', async () => {
    const url = `${bench.origin.ranged('/app', CONTENT, { cuts: [CUT, 5_000] })}#sha256=${sha256(CONTENT)}`;
    const source = bench.source();
    for (const attempt of [1, 2]) {
      expect(await bench.failure(url, source), `attempt ${attempt}`).toMatchObject({
        reason: 'registry-unavailable',
        retryable: true,
        message: expect.stringContaining('the connection ended before the content was complete') as string,
      });
      expect(await source.find(url, {})).toBeUndefined();
    }
    await source.fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', `${REST} if "v1"`, `bytes=${CUT + 5_000 - 2}- if "v1"`]);
    await expectWhole(url);
    await expect.poll(() => bench.origin.connections()).toBe(0);
  });

  it('IC-12 the bytes that were there count from the start, and never go back', async () => {
    const url = await cut();
    const told = await bench.progress(url);
    expect(told[0]).toEqual({ phase: 'resolving', bytes: { done: 0 } });
    const counted = told.filter(({ phase }) => phase !== 'resolving').map(({ bytes }) => bytes);
    expect(counted[0]).toEqual({ done: CUT - 1, total: CONTENT.length });
    expect(counted.at(-1)).toEqual({ done: CONTENT.length, total: CONTENT.length });
    expect(counted.map(({ done }) => done)).toEqual(counted.map(({ done }) => done).sort((a, b) => a - b));
  });

  it('IC-24 a date of modification that is old enough serves as well as an ETag', async () => {
    const modified = 'Thu, 01 Jan 2026 00:00:00 GMT';
    const url = await cut({ headers: { 'last-modified': modified } });
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts[1]).toBe(`${REST} if ${modified}`);
    await expectWhole(url);
  });

  it('IC-24 what floats and what is pinned of one URL go on from each other', async () => {
    const url = await cut();
    await bench.source().fetch(`${url}#sha256=${sha256(CONTENT)}`, ignore);
    expect(bench.origin.parts[1]).toBe(`${REST} if "v1"`);
    await expectWhole(`${url}#sha256=${sha256(CONTENT)}`);
  });

  it('IC-24 after a redirect too', async () => {
    const to = bench.origin.ranged('/to', CONTENT, { cuts: [CUT] });
    const url = bench.origin.status('/app', 302, { location: to });
    await bench.failure(url);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts.slice(-2)).toEqual([`${REST} if "v1"`, `${REST} if "v1"`]);
    await expectWhole(url);
  });

  it('IC-24 G-4 an abort keeps what has come for whoever asks next', async () => {
    const url = bench.origin.ranged('/app', CONTENT, { cuts: [CUT], cut: 'silence' });
    const controller = new AbortController();
    const reason = new Error('called off');
    const onProgress = ({ bytes }: { bytes: { done: number } }): void => {
      if (bytes.done === CUT) controller.abort(reason);
    };
    await expect(bench.source().fetch(url, { onProgress, signal: controller.signal })).rejects.toBe(reason);
    expect(await bench.source().find(url, {})).toBeUndefined();
    expect(await bench.source().list({})).toEqual([]);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', `${REST} if "v1"`]);
    await expectWhole(url);
  });

  it('G-4 an abort while what is there is read again asks nobody, and keeps it', async () => {
    const url = await cut();
    const controller = new AbortController();
    const reason = new Error('called off');
    const call = { onProgress: () => controller.abort(reason), signal: controller.signal };
    await expect(bench.source().fetch(url, call)).rejects.toBe(reason);
    expect(bench.origin.parts).toEqual(['']);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts[1]).toBe(`${REST} if "v1"`);
  });

  it('G-4 an abort does not wait until all of a large start is read', async () => {
    const url = await cut();
    const [partial] = await bench.partials();
    await writeFile(join(partial!, 'content'), Buffer.alloc(5_000_000));
    const controller = new AbortController();
    let signs = 0;
    const onProgress = (): void => {
      signs += 1;
      controller.abort(new Error('called off'));
    };
    await expect(bench.source().fetch(url, { onProgress, signal: controller.signal })).rejects.toThrow('called off');
    expect(signs).toBe(1);
  });

  it.each([
    { status: 503, headers: { 'retry-after': '5' }, kept: true },
    { status: 429, headers: { 'retry-after': '5' }, kept: true },
    { status: 404, headers: {}, kept: false },
  ])('IC-10 an answer $status in between: what is there stays: $kept', async ({ status, headers, kept }) => {
    const url = await cut();
    bench.origin.status('/app', status, headers);
    await bench.failure(url);
    bench.origin.ranged('/app', CONTENT);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts.at(-1)).toBe(kept ? `${REST} if "v1"` : '');
    await expectWhole(url);
  });

  it('IC-24 a fetch that was cut after its last byte goes on as well', async () => {
    const url = await cut();
    const [partial] = await bench.partials();
    await writeFile(join(partial!, 'content'), CONTENT);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts[1]).toBe(`bytes=${CONTENT.length - 1}- if "v1"`);
    await expectWhole(url);
  });

  it('IC-10 the size limit counts what was there', async () => {
    const url = await cut();
    expect(await bench.failure(url, bench.source({ maxBytes: 50_000 }))).toMatchObject({
      reason: 'unknown',
      retryable: false,
    });
    expect(bench.origin.parts[1]).toBe(`${REST} if "v1"`);
    expect(await bench.everything()).toEqual([]);
  });
});

describe('from zero', () => {
  it.each([
    { what: 'no validator', headers: {} },
    { what: 'a weak ETag', headers: { etag: 'W/"v1"' } },
    { what: 'a date of now', headers: { 'last-modified': new Date(Date.now() - 5_000).toUTCString() } },
  ])('IC-24 with $what nothing is kept of a cut', async ({ headers }) => {
    const url = await cut({ headers });
    expect(await bench.everything()).toEqual([]);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', '']);
    await expectWhole(url);
  });

  it('IC-24 200: the content has changed, and all of the new comes by the same request', async () => {
    const url = await cut();
    const changed = noise(95_000);
    bench.origin.ranged('/app', changed, { etag: '"v2"' });
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', `${REST} if "v1"`]);
    await expectWhole(url, changed);
  });

  it('IC-24 200 that is cut: the next goes on with the new content, not with the old', async () => {
    const url = await cut();
    const changed = noise(95_000);
    bench.origin.ranged('/app', changed, { etag: '"v2"', cuts: [1_000] });
    await bench.failure(url);
    expect(await bench.partials()).toHaveLength(1);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', `${REST} if "v1"`, 'bytes=999- if "v2"']);
    await expectWhole(url, changed);
  });

  const part = (range: string | undefined, etag: string) => (_: IncomingMessage, response: ServerResponse) => {
    const headers = { etag, ...(range === undefined ? {} : { 'content-range': range }) };
    response.writeHead(206, headers).end(CONTENT.subarray(CUT - 1));
  };
  it.each([
    { what: '206 with another part', answer: part(`bytes 0-9/${CONTENT.length}`, '"v1"') },
    { what: '206 that does not say which part', answer: part(undefined, '"v1"') },
    {
      what: '206 of another version, as If-Range was ignored',
      answer: part(`bytes ${CUT - 1}-${CONTENT.length - 1}/${CONTENT.length}`, '"v2"'),
    },
    {
      what: '416',
      answer: (_: IncomingMessage, response: ServerResponse) =>
        response.writeHead(416, { 'content-range': `bytes */${CONTENT.length}` }).end(),
    },
  ])('IC-24 $what: the same fetch asks again, for the whole', async ({ answer }) => {
    const url = await cut();
    bench.origin.on('/app', (request, response) => {
      if (request.headers.range !== undefined) answer(request, response);
      else response.writeHead(200, { etag: '"v2"' }).end(CONTENT);
    });
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', `${REST} if "v1"`, '']);
    await expectWhole(url);
  });

  it.each([206, 416])('IC-10 %d when the whole was asked for is no content', async (status) => {
    expect(await bench.failure(bench.origin.status('/app', status))).toMatchObject({
      reason: 'unknown',
      retryable: false,
    });
  });

  it('IC-10 parts that do not make the content are corrupt-stream; they go, and the next try may do', async () => {
    const url = `${await cut()}#sha256=${sha256(CONTENT)}`;
    const [partial] = await bench.partials();
    const start = await readFile(join(partial!, 'content'));
    start[10]! ^= 1;
    await writeFile(join(partial!, 'content'), start);
    expect(await bench.failure(url)).toMatchObject({ reason: 'corrupt-stream', retryable: true });
    expect(await bench.everything()).toEqual([]);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', `${REST} if "v1"`, '']);
    await expectWhole(url);
  });

  it.each([
    { what: 'too short', body: CONTENT.subarray(CUT - 1, -1) },
    { what: 'too long', body: Buffer.concat([CONTENT.subarray(CUT - 1), Buffer.from('x')]) },
  ])('IC-10 a rest that ended well and is $what is corrupt-stream, and all of it goes', async ({ body }) => {
    const url = await cut();
    const range = `bytes ${CUT - 1}-${CONTENT.length - 1}/${CONTENT.length}`;
    bench.origin.on('/app', (_, response) => {
      // In chunks: by its own account the answer is whole.
      response.writeHead(206, { etag: '"v1"', 'content-range': range }).write(body);
      response.end();
    });
    expect(await bench.failure(url)).toMatchObject({ reason: 'corrupt-stream', retryable: true });
    expect(await bench.everything()).toEqual([]);
  });

  it('case C4 a body that is garbled in the middle is corrupt-stream, and nothing of it is gone on from', async () => {
    const url = bench.origin.on('/app', (_, response) => {
      response.writeHead(200, { etag: '"v1"' }).write(CONTENT, () => response.socket?.write('not a chunk\r\n'));
    });
    expect(await bench.failure(url)).toMatchObject({ reason: 'corrupt-stream', retryable: true });
    expect(await bench.everything()).toEqual([]);
  });
});

describe('processes', () => {
  /** A fetch by a process of its own, up to so many bytes. */
  async function fetcher(url: string, upTo: string): Promise<Fixture> {
    const child = fixture('fetcher', [bench.directory, url]);
    fixtures.push(child);
    for await (const line of createInterface(child.stdout)) if (line === upTo) return child;
    throw new Error(`ended before ${upTo}`);
  }

  it('IC-24 a process that was killed in the middle: the next one goes on with what it had', async () => {
    const url = bench.origin.ranged('/app', CONTENT, { cuts: [CUT], cut: 'silence' });
    const child = await fetcher(url, `downloading ${CUT}`);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(await bench.source().list({})).toEqual([]);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', `${REST} if "v1"`]);
    await expectWhole(url);
  }, 30_000);

  it('IC-24 a process that is at it is left alone: another one fetches the whole by itself', async () => {
    const url = bench.origin.ranged('/app', CONTENT, { cuts: [CUT], cut: 'silence' });
    const child = await fetcher(url, `downloading ${CUT}`);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', '']);
    expect(await bench.partials()).toHaveLength(1);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts[2]).toBe(`${REST} if "v1"`);
    await expectWhole(url);
  }, 30_000);

  it('IC-24 several at once, of one process: each has a place of its own, and one goes on with what is there', async () => {
    const url = await cut();
    const [floating, wanted] = [url, `${url}#sha256=${sha256(CONTENT)}`];
    await Promise.all([floating, wanted, floating].map((reference) => bench.source().fetch(reference, ignore)));
    expect([...bench.origin.parts].sort()).toEqual(['', '', '', `${REST} if "v1"`]);
    await expectWhole(wanted);
    await expectWhole(floating);
  });

  const NOBODY = 999_999_999;
  const owner = (o: { namespace?: string; pid?: number; startedAt?: number }): string => {
    const { namespace, pid, startedAt } = { ...whereabouts(), ...o };
    return `${namespace}-${pid}-${startedAt}`;
  };
  it.each([
    { whose: 'left free', as: 'free', resumed: true },
    { whose: 'of a process that is gone', as: owner({ pid: NOBODY }), resumed: true },
    { whose: 'of a process whose number is this one’s by now', as: owner({ startedAt: 1 }), resumed: true },
    { whose: 'of this process', as: owner({}), resumed: false },
    { whose: 'of a process in another container', as: owner({ namespace: '1', pid: NOBODY }), resumed: false },
    { whose: 'from before the last boot', as: 'free', boot: 'abcd', resumed: false },
  ])('IC-24 a partial $whose is gone on with: $resumed', async ({ as, boot, resumed }) => {
    const url = await cut();
    const [partial] = await bench.partials();
    const [key, at, uuid] = basename(partial!).split('.');
    await rename(partial!, join(partial!, '..', `${key}.${boot ?? at}.${uuid}.${as}`));
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts[1]).toBe(resumed ? `${REST} if "v1"` : '');
    expect(await bench.partials()).toHaveLength(resumed ? 0 : 1);
  });

  it.each([
    { broken: 'content is missing', files: { 'facts.json': '{"validator":"\\"v1\\""}' } },
    { broken: 'content is empty', files: { 'facts.json': '{"validator":"\\"v1\\""}', content: '' } },
    { broken: 'facts are missing', files: { content: 'x' } },
    { broken: 'facts are half written', files: { 'facts.json': '{"valid', content: 'x' } },
    { broken: 'facts are others', files: { 'facts.json': '{"validator":1}', content: 'x' } },
  ])('ST-1 a partial whose $broken counts as none, and goes', async ({ files }) => {
    const url = await cut();
    const [partial] = await bench.partials();
    await rm(partial!, { recursive: true });
    await mkdir(partial!);
    for (const [name, content] of Object.entries(files)) await writeFile(join(partial!, name), content);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', '']);
    await expectWhole(url);
  });

  it.each([
    { as: 'free', boot: undefined, goes: true },
    { as: 'free', boot: 'abcd', goes: true },
    { as: owner({ namespace: '1' }), boot: undefined, goes: true },
    { as: owner({}), boot: undefined, goes: false },
    { as: owner({}), boot: 'abcd', goes: true },
  ])('IC-24 what nobody has written to for a day ($as, boot $boot) is collected: $goes', async ({ as, boot, goes }) => {
    await cut();
    const [fresh] = await bench.partials();
    const [key, at, uuid] = basename(fresh!).split('.');
    const old = join(fresh!, '..', `${key!.replaceAll(/./g, 'e')}.${boot ?? at}.${uuid}.${as}`);
    await mkdir(old);
    await writeFile(join(old, 'content'), 'x');
    const now = (await stat(join(fresh!, 'content'))).mtimeMs / 1_000;
    const other = bench.origin.content('/other', 'x');

    await utimes(join(old, 'content'), now, now - 24 * HOUR + 60);
    await bench.source().fetch(other, ignore);
    expect([...(await bench.partials())].sort()).toEqual([fresh, old].sort());

    await utimes(join(old, 'content'), now, now - 24 * HOUR - 60);
    await bench.source().fetch(other, ignore);
    expect([...(await bench.partials())].sort()).toEqual((goes ? [fresh] : [fresh, old]).sort());
  });

  it('ST-1 what is not ours in the folder is left alone', async () => {
    await mkdir(join(bench.directory, 'partials'), { recursive: true });
    const notes = join(bench.directory, 'partials', 'notes.txt');
    await writeFile(notes, 'mine');
    await utimes(notes, 0, 0);
    const url = await cut();
    await bench.source().fetch(url, ignore);
    expect(await readdir(join(bench.directory, 'partials'))).toEqual(['notes.txt']);
  });
});

describe('a full disk', () => {
  /** Runs the test on a file system of its own, where there is room for so much. */
  async function onSmallDisk(
    test: TestContext,
    room: string,
    work: (directory: string) => Promise<void>,
  ): Promise<void> {
    const directory = join(bench.directory, 'small');
    await mkdir(directory);
    const mayMount = process.platform === 'linux' && process.getuid?.() === 0;
    const mounted = mayMount && spawnSync('mount', ['-t', 'tmpfs', '-o', room, 'tmpfs', directory]).status === 0;
    if (!mounted) return test.skip('a small file system can be mounted by root on Linux only');
    try {
      await work(directory);
    } finally {
      spawnSync('umount', [directory]);
    }
  }

  it('case C16 is no-space, permanent; what is there goes, what is free too, and then there is room again', (test) =>
    onSmallDisk(test, 'size=256k', async (directory) => {
      const source = bench.source({ directory });
      const other = bench.origin.ranged('/other', CONTENT, { cuts: [CUT] });
      await bench.failure(other, source);
      const url = bench.origin.ranged('/app', noise(300_000));
      expect(await bench.failure(url, source)).toMatchObject({ reason: 'no-space', retryable: false });
      expect(await readdir(directory, { recursive: true })).toEqual(['partials']);
      const small = bench.origin.ranged('/app', noise(200_000));
      await source.fetch(small, ignore);
      expect((await source.find(small, {}))?.bytes).toBe(200_000);
    }));

  it('case C16 nothing is taken from a fetch that is under way', (test) =>
    onSmallDisk(test, 'size=256k', async (directory) => {
      const source = bench.source({ directory });
      const controller = new AbortController();
      const begun = deferred();
      const other = bench.origin.ranged('/other', CONTENT, { cuts: [CUT], cut: 'silence' });
      const fetched = source.fetch(other, {
        signal: controller.signal,
        onProgress: ({ bytes }) => bytes.done === CUT && begun.resolve(),
      });
      await begun.promise;
      expect(await bench.failure(bench.origin.ranged('/app', noise(300_000)), source)).toMatchObject({
        reason: 'no-space',
      });
      controller.abort(new Error('called off'));
      await expect(fetched).rejects.toThrow('called off');
      await source.fetch(other, ignore);
      expect(bench.origin.parts.at(-1)).toBe(`${REST} if "v1"`);
    }));

  it.for([3, 4, 5])('case C16 no room for more than %d files is no-space too, with nothing left', (inodes, test) =>
    onSmallDisk(test, `nr_inodes=${inodes}`, async (directory) => {
      const source = bench.source({ directory });
      const url = bench.origin.ranged('/app', CONTENT);
      expect(await bench.failure(url, source)).toMatchObject({ reason: 'no-space', retryable: false });
      expect(await readdir(join(directory, 'partials'))).toEqual([]);
      expect(await source.list({})).toEqual([]);
    }),
  );
});
