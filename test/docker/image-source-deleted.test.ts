import Docker from 'dockerode';
import type { ArtifactSource } from 'handover';
import { type DockerImage, dockerImages } from 'handover/docker';
import { FakeEngine } from 'handover/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hurried } from './hurried.js';

const INSPECT = { method: 'GET', path: /^\/images\/.+\/json/ } as const;
const LIST = { method: 'GET', path: /^\/images\/json/ } as const;
const USERS = { method: 'GET', path: /^\/containers\/json/ } as const;

/** As engine 20.10 words it. */
const TEXTS = [
  'layer does not exist',
  `unrecognized image ID sha256:${'a'.repeat(64)}`,
  `failed to get digest sha256:${'a'.repeat(64)}: open /var/lib/docker/image: no such file or directory`,
].map((message) => ({ status: 500, message }));
const [TEXT] = TEXTS as [(typeof TEXTS)[number]];

let engine: FakeEngine;
let source: ArtifactSource<DockerImage>;
/** What was waited for between two looks, ms. */
let waits: number[];
/** Told of each wait, before it is over. */
let onWait: () => void;
beforeEach(async () => {
  waits = [];
  onWait = () => undefined;
  engine = await FakeEngine.start();
  source = dockerImages(new Docker({ socketPath: engine.socketPath }), { clock });
});
afterEach(() => engine.close());

const clock = hurried((ms) => {
  waits.push(ms);
  onWait();
});

describe.each(TEXTS)('IC-16 an image is deleted in mid-call ($message)', (fault) => {
  it('find looks again; absent is only what the engine calls so', async () => {
    engine.fault({ ...INSPECT, times: 2 }, fault);
    expect(await source.find('app:v1', {})).toBeUndefined();
    expect([engine.calls, waits]).toEqual([Array(3).fill('GET /images/app:v1/json'), [50, 100]]);
  });

  it('find looks again; the name may mean other content by then', async () => {
    const { id } = engine.put('app:v1');
    engine.fault(INSPECT, fault);
    expect(await source.find('app:v1', {})).toMatchObject({ id });
  });

  it('list looks again: for all, and for the one that is going', async () => {
    const { id } = engine.put('app:v1');
    engine.put('app:v2');
    engine.fault(LIST, fault);
    engine.fault(INSPECT, fault);
    onWait = () => {
      if (waits.length === 2) engine.loseImage('app:v2');
    };
    expect((await source.list({})).map((image) => image.id)).toEqual([id]);
    expect(waits).toEqual([50, 50]);
  });

  it('who uses an image is asked again', async () => {
    const { id } = engine.put('app:v1');
    engine.create('web', { Image: 'app:v1' });
    engine.fault(USERS, fault);
    expect(await source.users(id, {})).toEqual(['web']);
  });
});

it('IC-16 a damaged store says so for ever: six looks, then the engine’s words', async () => {
  engine.fault({ ...INSPECT, times: Infinity }, TEXT);
  await expect(source.find('app:v1', {})).rejects.toMatchObject({ code: 'ERR_DRIVER', text: TEXT.message });
  expect(waits).toEqual([50, 100, 200, 400, 800]);
  expect(engine.calls).toHaveLength(6);
});

it.each([
  { status: 500, message: 'the disk is on fire' },
  { status: 409, message: TEXT.message },
])('S3 HTTP $status "$message" is told at once', async (fault) => {
  engine.fault(INSPECT, fault);
  await expect(source.find('app:v1', {})).rejects.toMatchObject({ code: 'ERR_DRIVER', status: fault.status });
  expect([engine.calls.length, waits]).toEqual([1, []]);
});

it('G-4 an abort between two looks rejects with the very reason', async () => {
  const controller = new AbortController();
  engine.fault({ ...INSPECT, times: Infinity }, TEXT);
  onWait = () => controller.abort('stop');
  await expect(source.find('app:v1', { signal: controller.signal })).rejects.toBe('stop');
  expect(engine.calls).toHaveLength(1);
});
