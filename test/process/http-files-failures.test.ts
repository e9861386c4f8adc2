import { once } from 'node:events';
import { open, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { PullReason } from 'handover';
import { httpFiles } from 'handover/process';
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
