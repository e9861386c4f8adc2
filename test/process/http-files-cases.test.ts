import { access } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { ImageCoordinator, type PullOptions } from 'handover';
import type { FileArtifact } from 'handover/process';
import { FakeClock } from 'handover/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { deferred } from '../../src/internal/deferred.js';
import { FilesBench, ignore, noise, sha256 } from './files-bench.js';

const CONTENT = noise(100_000);
const CUT = 90_000;

let bench: FilesBench;
let clock: FakeClock;
let images: ImageCoordinator<FileArtifact>;

beforeEach(async () => {
  bench = await FilesBench.open();
  clock = new FakeClock();
});
afterEach(async () => {
  await images.close();
  expect(clock.pending).toBe(0);
  await expect.poll(() => bench.origin.connections()).toBe(0);
  await bench.close();
});

function coordinate(pull: PullOptions = {}): void {
  images = new ImageCoordinator({ source: bench.source({}, clock), pull }, { clock });
}

/** What a promise of a lease has come to by now. */
function watch<T>(promise: Promise<T>): { settled: boolean } {
  const state = { settled: false };
  const settle = (): void => void (state.settled = true);
  promise.then(settle, settle);
  return state;
}

/** An answer that the test ends. */
function held(path: string): { url: string; asked: Promise<ServerResponse> } {
  const asked = deferred<ServerResponse>();
  const url = bench.origin.on(path, (_, response) => {
    response.writeHead(200, { etag: '"v1"', 'content-length': CONTENT.length }).write(CONTENT.subarray(0, CUT));
    asked.resolve(response);
  });
  return { url, asked: asked.promise };
}

describe('field reports, for files', () => {
  it('case C1 a forced fetch that fails does not succeed on the strength of what is there', async () => {
    coordinate({ attempts: 1 });
    const url = bench.origin.ranged('/app', CONTENT);
    await (await images.acquire(url, { owner: 'a' })).release();
    bench.origin.ranged('/app', noise(100_000), { etag: '"v2"', cuts: [CUT] });
    await expect(images.acquire(url, { owner: 'a', policy: 'always' })).rejects.toMatchObject({
      code: 'ERR_PULL_FAILED',
      details: { reason: 'registry-unavailable' },
    });
  });

  it('case C2 a lease is there when all of the content is in place, and not before', async () => {
    coordinate();
    const { url, asked } = held('/app');
    const acquired = images.acquire(url, { owner: 'a' });
    const state = watch(acquired);
    const response = await asked;
    await expect.poll(() => images.explain(url).progress?.bytes.done).toBe(CUT);
    expect(state.settled).toBe(false);
    response.end(CONTENT.subarray(CUT));
    const { artifact } = await acquired;
    await access(artifact.path);
    expect(artifact.bytes).toBe(CONTENT.length);
  });

  it.each([
    { status: 404, reason: 'not-found-or-denied' },
    { status: 500, reason: 'registry-unavailable' },
  ])('case C3 an answer $status with words instead of content is one clean rejection', async ({ status, reason }) => {
    coordinate({ attempts: 1 });
    const url = bench.origin.on('/app', (_, response) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end('{"message":"no"}'),
    );
    await expect(images.acquire(url, { owner: 'a' })).rejects.toMatchObject({ details: { reason, attempts: 1 } });
  });

  it.each<{ how: string; end: (response: ServerResponse, abort: () => void) => unknown }>([
    { how: 'its end', end: (response) => response.end(CONTENT.subarray(CUT)) },
    { how: 'a close', end: (response) => response.socket?.end() },
    { how: 'a reset', end: (response) => response.socket?.resetAndDestroy() },
    { how: 'an abort', end: (_, abort) => abort() },
  ])('case C5 a fetch settles once, by $how, and tells nothing after that', async ({ end }) => {
    coordinate();
    const { url, asked } = held('/app');
    const controller = new AbortController();
    const told: boolean[] = [];
    const all = deferred();
    const fetched = bench.source().fetch(url, {
      signal: controller.signal,
      onProgress: ({ bytes }) => {
        told.push(state.settled);
        if (bytes.done === CUT) all.resolve();
      },
    });
    const state = watch(fetched);
    const response = await asked;
    await all.promise;
    end(response, () => controller.abort(new Error('called off')));
    await fetched.catch(() => undefined);
    await expect.poll(() => bench.origin.connections()).toBe(0);
    expect(told).not.toContain(true);
  });

  it('case C6 many at once are one request and one content', async () => {
    coordinate();
    const url = bench.origin.ranged('/app', CONTENT);
    const owners = Array.from({ length: 20 }, (_, i) => `owner-${i}`);
    const leases = await Promise.all(owners.map((owner) => images.acquire(url, { owner })));
    expect(new Set(leases.map(({ imageId }) => imageId))).toEqual(new Set([`sha256:${sha256(CONTENT)}`]));
    expect(bench.origin.requests).toEqual(['GET /app']);
  });

  it('case C7 an origin that falls silent: after stallTimeout it is given up, and the next try goes on from there', async () => {
    coordinate({ stallTimeout: '1m' });
    const url = bench.origin.ranged('/app', CONTENT, { cuts: [CUT], cut: 'silence' });
    const acquired = images.acquire(url, { owner: 'a' });
    await expect.poll(() => images.explain(url).progress?.bytes.done).toBe(CUT);
    await clock.advance('59s');
    expect(images.explain(url).progress).toMatchObject({ phase: 'downloading', attempt: 1 });
    await clock.advance('1s');
    await expect.poll(() => images.explain(url).progress?.phase).toBe('retrying');
    expect(images.explain(url).lastError?.error).toMatchObject({ details: { reason: 'stalled' }, retryable: true });
    await clock.advance('1s');
    expect((await acquired).artifact.bytes).toBe(CONTENT.length);
    expect(bench.origin.parts).toEqual(['', `bytes=${CUT - 1}- if "v1"`]);
  });

  it('case C8 a connection that breaks rejects all who wait, and the next call asks anew', async () => {
    coordinate({ attempts: 1 });
    const { url, asked } = held('/app');
    const waiting = ['a', 'b', 'c'].map((owner) => images.acquire(url, { owner }));
    const settled = Promise.allSettled(waiting);
    (await asked).socket?.resetAndDestroy();
    for (const outcome of await settled) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { details: { reason: 'registry-unavailable' } } });
    }
    bench.origin.ranged('/app', CONTENT);
    images.retryNow(url);
    await images.acquire(url, { owner: 'a' });
    expect(bench.origin.requests).toHaveLength(2);
  });

  it('case C9 one who leaves harms nobody; when the last has left, the connection ends, and nothing is told any more', async () => {
    coordinate({ linger: '30s' });
    const { url } = held('/app');
    const callers = ['a', 'b', 'c'].map((owner) => ({ owner, controller: new AbortController(), told: 0 }));
    const waiting = callers.map((caller) =>
      images
        .acquire(url, { owner: caller.owner, signal: caller.controller.signal, onProgress: () => (caller.told += 1) })
        .catch((error: unknown) => error),
    );
    await expect.poll(() => images.explain(url).progress?.bytes.done).toBe(CUT);
    const reason = new Error('left');
    callers[0]!.controller.abort(reason);
    expect(await waiting[0]).toBe(reason);
    expect(images.explain(url).waiters).toEqual(['b', 'c']);
    for (const { controller } of callers.slice(1)) controller.abort(reason);
    await Promise.all(waiting);
    expect(await bench.origin.connections()).toBe(1);
    const told = callers.map((caller) => caller.told);
    await clock.advance('30s');
    await expect.poll(() => bench.origin.connections()).toBe(0);
    expect(callers.map((caller) => caller.told)).toEqual(told);
  });

  it('case C10 called off is not done: the caller gets its own reason, and nothing is there', async () => {
    coordinate({ linger: 0 });
    const { url } = held('/app');
    const controller = new AbortController();
    const acquired = images.acquire(url, { owner: 'a', signal: controller.signal });
    await expect.poll(() => images.explain(url).progress?.bytes.done).toBe(CUT);
    const reason = new Error('called off');
    controller.abort(reason);
    await expect(acquired).rejects.toBe(reason);
    await expect.poll(() => bench.origin.connections()).toBe(0);
    expect(await bench.source().find(url, {})).toBeUndefined();
    expect(await bench.source().list({})).toEqual([]);
  });

  it('case C11 one that fails does not take along one that works', async () => {
    coordinate();
    const slow = held('/slow');
    const good = images.acquire(slow.url, { owner: 'a' });
    const response = await slow.asked;
    await expect(images.acquire(bench.origin.status('/bad', 404), { owner: 'b' })).rejects.toMatchObject({
      details: { reason: 'not-found-or-denied' },
    });
    response.end(CONTENT.subarray(CUT));
    expect((await good).artifact.bytes).toBe(CONTENT.length);
  });

  it('case C15 cut at 90 % and again: the retries of one acquire fetch every byte about once', async () => {
    coordinate();
    const url = `${bench.origin.ranged('/app', CONTENT, { cuts: [CUT, 5_000] })}#sha256=${sha256(CONTENT)}`;
    const acquired = images.acquire(url, { owner: 'a' });
    for (const attempt of [1, 2]) {
      await expect.poll(() => images.explain(url).progress).toMatchObject({ phase: 'retrying', attempt });
      await clock.advance('2s');
    }
    expect((await acquired).imageId).toBe(`sha256:${sha256(CONTENT)}`);
    expect(bench.origin.parts).toEqual(['', `bytes=${CUT - 1}- if "v1"`, `bytes=${CUT + 5_000 - 2}- if "v1"`]);
  });

  it.each([
    { form: 'seconds', header: '90' },
    { form: 'a date', header: new Date(new FakeClock().wall() + 90_000).toUTCString() },
  ])('S18 a 429 is not tried again before what Retry-After says in $form', async ({ header }) => {
    coordinate();
    const url = bench.origin.status('/app', 429, { 'retry-after': header });
    const acquired = images.acquire(url, { owner: 'a' });
    await expect.poll(() => images.explain(url).progress?.phase).toBe('retrying');
    bench.origin.ranged('/app', CONTENT);
    await clock.advance(89_999);
    expect(bench.origin.requests).toHaveLength(1);
    await clock.advance(1);
    await acquired;
    expect(bench.origin.requests).toHaveLength(2);
  });

  it('IC-23 close() in the middle of a fetch ends the connection, and what has come is for the next process', async () => {
    coordinate();
    const { url } = held('/app');
    const acquired = images.acquire(url, { owner: 'a' });
    await expect.poll(() => images.explain(url).progress?.bytes.done).toBe(CUT);
    const closed = images.close();
    await expect(acquired).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    await closed;
    bench.origin.ranged('/app', CONTENT);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', `bytes=${CUT - 1}- if "v1"`]);
  });
});
