import { readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CONTENT, CUT, REST, cut, expectWhole } from './cut.js';
import { FilesBench, ignore, noise, sha256 } from './files-bench.js';

let bench: FilesBench;

beforeEach(async () => {
  bench = await FilesBench.open();
});
afterEach(() => bench.close());

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
    await expectWhole(bench, url);
    await expect.poll(() => bench.origin.connections()).toBe(0);
  });

  it('IC-12 the bytes that were there count from the start, and never go back', async () => {
    const url = await cut(bench);
    const told = await bench.progress(url);
    expect(told[0]).toEqual({ phase: 'resolving', bytes: { done: 0 } });
    const counted = told.filter(({ phase }) => phase !== 'resolving').map(({ bytes }) => bytes);
    expect(counted[0]).toEqual({ done: CUT - 1, total: CONTENT.length });
    expect(counted.at(-1)).toEqual({ done: CONTENT.length, total: CONTENT.length });
    expect(counted.map(({ done }) => done)).toEqual(counted.map(({ done }) => done).sort((a, b) => a - b));
  });

  it('IC-24 a date of modification that is old enough serves as well as an ETag', async () => {
    const modified = 'Thu, 01 Jan 2026 00:00:00 GMT';
    const url = await cut(bench, { headers: { 'last-modified': modified } });
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts[1]).toBe(`${REST} if ${modified}`);
    await expectWhole(bench, url);
  });

  it('IC-24 what floats and what is pinned of one URL go on from each other', async () => {
    const url = await cut(bench);
    await bench.source().fetch(`${url}#sha256=${sha256(CONTENT)}`, ignore);
    expect(bench.origin.parts[1]).toBe(`${REST} if "v1"`);
    await expectWhole(bench, `${url}#sha256=${sha256(CONTENT)}`);
  });

  it('IC-24 after a redirect too', async () => {
    const to = bench.origin.ranged('/to', CONTENT, { cuts: [CUT] });
    const url = bench.origin.status('/app', 302, { location: to });
    await bench.failure(url);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts.slice(-2)).toEqual([`${REST} if "v1"`, `${REST} if "v1"`]);
    await expectWhole(bench, url);
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
    await expectWhole(bench, url);
  });

  it('G-4 an abort while what is there is read again asks nobody, and keeps it', async () => {
    const url = await cut(bench);
    const controller = new AbortController();
    const reason = new Error('called off');
    const call = { onProgress: () => controller.abort(reason), signal: controller.signal };
    await expect(bench.source().fetch(url, call)).rejects.toBe(reason);
    expect(bench.origin.parts).toEqual(['']);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts[1]).toBe(`${REST} if "v1"`);
  });

  it('G-4 an abort does not wait until all of a large start is read', async () => {
    const url = await cut(bench);
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
    const url = await cut(bench);
    bench.origin.status('/app', status, headers);
    await bench.failure(url);
    bench.origin.ranged('/app', CONTENT);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts.at(-1)).toBe(kept ? `${REST} if "v1"` : '');
    await expectWhole(bench, url);
  });

  it('IC-24 a fetch that was cut after its last byte goes on as well', async () => {
    const url = await cut(bench);
    const [partial] = await bench.partials();
    await writeFile(join(partial!, 'content'), CONTENT);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts[1]).toBe(`bytes=${CONTENT.length - 1}- if "v1"`);
    await expectWhole(bench, url);
  });

  it('IC-10 the size limit counts what was there', async () => {
    const url = await cut(bench);
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
    const url = await cut(bench, { headers });
    expect(await bench.everything()).toEqual([]);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', '']);
    await expectWhole(bench, url);
  });

  it('IC-24 200: the content has changed, and all of the new comes by the same request', async () => {
    const url = await cut(bench);
    const changed = noise(95_000);
    bench.origin.ranged('/app', changed, { etag: '"v2"' });
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', `${REST} if "v1"`]);
    await expectWhole(bench, url, changed);
  });

  it('IC-24 200 that is cut: the next goes on with the new content, not with the old', async () => {
    const url = await cut(bench);
    const changed = noise(95_000);
    bench.origin.ranged('/app', changed, { etag: '"v2"', cuts: [1_000] });
    await bench.failure(url);
    expect(await bench.partials()).toHaveLength(1);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', `${REST} if "v1"`, 'bytes=999- if "v2"']);
    await expectWhole(bench, url, changed);
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
    const url = await cut(bench);
    bench.origin.on('/app', (request, response) => {
      if (request.headers.range !== undefined) answer(request, response);
      else response.writeHead(200, { etag: '"v2"' }).end(CONTENT);
    });
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', `${REST} if "v1"`, '']);
    await expectWhole(bench, url);
  });

  it.each([206, 416])('IC-10 %d when the whole was asked for is no content', async (status) => {
    expect(await bench.failure(bench.origin.status('/app', status))).toMatchObject({
      reason: 'unknown',
      retryable: false,
    });
  });

  it('IC-10 parts that do not make the content are corrupt-stream; they go, and the next try may do', async () => {
    const url = `${await cut(bench)}#sha256=${sha256(CONTENT)}`;
    const [partial] = await bench.partials();
    const start = await readFile(join(partial!, 'content'));
    start[10]! ^= 1;
    await writeFile(join(partial!, 'content'), start);
    expect(await bench.failure(url)).toMatchObject({ reason: 'corrupt-stream', retryable: true });
    expect(await bench.everything()).toEqual([]);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', `${REST} if "v1"`, '']);
    await expectWhole(bench, url);
  });

  it.each([
    { what: 'too short', body: CONTENT.subarray(CUT - 1, -1) },
    { what: 'too long', body: Buffer.concat([CONTENT.subarray(CUT - 1), Buffer.from('x')]) },
  ])('IC-10 a rest that ended well and is $what is corrupt-stream, and all of it goes', async ({ body }) => {
    const url = await cut(bench);
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
