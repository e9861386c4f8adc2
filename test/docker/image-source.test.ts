import Docker from 'dockerode';
import { type ArtifactSource, isHandoverError } from 'handover';
import { type DockerImage, dockerImages } from 'handover/docker';
import { afterEach, describe, expect, it } from 'vitest';
import { type Answer, json, scriptedServer, type ScriptedServer } from './scripted-server.js';

const HEX = '0123456789abcdef'.repeat(4);
const ID = `sha256:${HEX}`;
const DIGEST = `sha256:${'d'.repeat(64)}`;
const OLD_DIGEST = `sha256:${'e'.repeat(64)}`;
const INSPECT = {
  ...{ Id: ID, Os: 'linux', Architecture: 'amd64', Size: 1_000 },
  RepoTags: ['redis:7', '127.0.0.1:5000/app:v1', '<none>:<none>'],
  RepoDigests: [`redis@${OLD_DIGEST}`, `redis@${DIGEST}`, '<none>@<none>'],
};

let server: ScriptedServer;
afterEach(() => server.close());

async function start(answer: Answer): Promise<ArtifactSource<DockerImage>> {
  server = await scriptedServer(answer);
  return dockerImages(new Docker({ socketPath: server.socketPath }));
}

/** With it an engine says that the pull has succeeded. */

describe('find', () => {
  it('reads what the engine knows, all names in their one spelling', async () => {
    const source = await start(json(200, INSPECT));
    expect(await source.find('redis:7', {})).toEqual({
      id: ID,
      digest: OLD_DIGEST,
      platform: 'linux/amd64',
      bytes: 1_000,
      references: [
        'docker.io/library/redis:7',
        '127.0.0.1:5000/app:v1',
        `docker.io/library/redis@${OLD_DIGEST}`,
        `docker.io/library/redis@${DIGEST}`,
      ],
      runnable: `redis:7@${OLD_DIGEST}`,
    });
    expect(server.calls).toEqual(['GET /images/redis:7/json']);
  });

  it.each([
    {
      asked: `redis:7@${DIGEST}`,
      runnable: `redis:7@${DIGEST}`,
      path: `/images/redis@${DIGEST}/json`,
      why: 'the asked digest',
    },
    {
      asked: `redis@${DIGEST}`,
      runnable: `redis@${DIGEST}`,
      path: `/images/redis@${DIGEST}/json`,
      why: 'no tag was given',
    },
    {
      asked: '127.0.0.1:5000/app:v1',
      runnable: ID,
      path: '/images/127.0.0.1:5000/app:v1/json',
      why: 'never pulled by that name',
    },
    { asked: ID, runnable: ID, path: `/images/${ID}/json`, why: 'asked by id' },
    {
      asked: 'redis',
      runnable: `redis:latest@${OLD_DIGEST}`,
      path: '/images/redis:latest/json',
      why: 'the default tag',
    },
  ])('DP-6 $asked is run as $runnable: $why', async ({ asked, runnable, path }) => {
    const source = await start(json(200, INSPECT));
    expect((await source.find(asked, {}))?.runnable).toBe(runnable);
    expect(server.calls).toEqual([`GET ${path}`]);
  });

  it('S40 an image without any name is found by its id', async () => {
    const source = await start(json(200, { Id: ID, Os: 'linux', Architecture: 'arm', Variant: 'v7', RepoTags: null }));
    expect(await source.find(ID, {})).toEqual({ id: ID, platform: 'linux/arm/v7', references: [], runnable: ID });
  });

  it('a name by another grammar than today’s is no name of ours', async () => {
    const source = await start(json(200, { ...INSPECT, RepoTags: ['OLD.Name:x y', 'redis:7'], RepoDigests: [] }));
    expect((await source.find(ID, {}))?.references).toEqual(['docker.io/library/redis:7']);
  });

  it('404 = absent', async () => {
    const source = await start(json(404, { message: 'No such image: redis:7' }));
    expect(await source.find('redis:7', {})).toBeUndefined();
  });

  it('S3 any other failure is no absence', async () => {
    const source = await start(json(500, { message: 'the disk is on fire' }));
    const error = await source.find('redis:7', {}).catch((reason: unknown) => reason);
    expect(isHandoverError(error, 'ERR_DRIVER')).toBe(true);
    expect((error as Error).message).toContain('the disk is on fire');
  });

  it.each(['Redis:7', 'http://redis', HEX])('S4 %s is refused before any call', async (reference) => {
    const source = await start(json(200, INSPECT));
    for (const call of [
      () => source.find(reference, {}),
      () => source.fetch(reference, { onProgress: () => {} }),
      () => source.remove(reference, {}),
    ]) {
      expect(isHandoverError(await call().catch((e: unknown) => e), 'ERR_INVALID_REFERENCE')).toBe(true);
    }
    expect(server.calls).toEqual([]);
  });

  it.each([
    { platform: 'linux/amd64', found: true },
    { platform: 'linux/arm64', found: false },
  ])('case C17 present for linux/amd64, asked for $platform: found=$found', async ({ platform, found }) => {
    const source = await start(json(200, INSPECT));
    expect((await source.find('redis:7', { platform })) !== undefined).toBe(found);
  });
});

describe('users', () => {
  it('IC-17 containers in any state, by the id of their image; strangers too', async () => {
    const source = await start(
      json(200, [
        { Id: 'a'.repeat(64), Names: ['/web'], ImageID: ID, State: 'running' },
        { Id: 'b'.repeat(64), Names: ['/prepared', '/other/alias'], ImageID: ID, State: 'created' },
        { Id: 'c'.repeat(64), Names: ['/child'], ImageID: `sha256:${'c'.repeat(64)}`, State: 'running' },
        { Id: 'd'.repeat(64), Names: null, ImageID: ID, State: 'dead' },
      ]),
    );
    expect(await source.users(ID, {})).toEqual(['web', 'prepared', 'dddddddddddd']);
    expect(server.calls).toEqual(['GET /containers/json?all=true']);
  });

  it('G-8 a failure is not "nobody"', async () => {
    const source = await start(json(500, { message: 'no' }));
    expect(isHandoverError(await source.users(ID, {}).catch((e: unknown) => e), 'ERR_DRIVER')).toBe(true);
  });
});

describe('remove', () => {
  it.each([
    { status: 200, body: [{ Untagged: 'redis:7' }, { Deleted: ID }], outcome: 'removed' },
    { status: 200, body: [{ Untagged: 'redis:7' }], outcome: 'untagged' },
    { status: 404, body: { message: 'No such image' }, outcome: 'absent' },
    {
      status: 409,
      body: {
        message:
          'conflict: unable to delete 2dd38a9ef428 (cannot be forced) - image is being used by running container 8521071215bd',
      },
      outcome: 'in-use',
    },
    {
      status: 409,
      body: { message: 'conflict: unable to delete x (cannot be forced) - image has dependent child images' },
      outcome: 'in-use',
    },
  ])('case C25, C26, S31 HTTP $status $body → $outcome; never forced', async ({ status, body, outcome }) => {
    const source = await start(json(status, body));
    expect(await source.remove('docker.io/library/redis:7', {})).toBe(outcome);
    expect(server.calls).toEqual(['DELETE /images/redis:7']);
  });

  it('IC-17 by digest', async () => {
    const source = await start(json(200, [{ Untagged: `redis@${DIGEST}` }]));
    await source.remove(`docker.io/library/redis@${DIGEST}`, {});
    expect(server.calls).toEqual([`DELETE /images/redis@${DIGEST}`]);
  });

  it('IC-17 never by id', async () => {
    const source = await start(json(200, []));
    const error = await source.remove(ID, {}).catch((reason: unknown) => reason);
    expect(isHandoverError(error, 'ERR_INVALID_REFERENCE')).toBe(true);
    expect(server.calls).toEqual([]);
  });

  it('G-8 an unknown outcome rejects', async () => {
    const source = await start((response) => void response.socket?.destroy());
    expect(isHandoverError(await source.remove('redis:7', {}).catch((e: unknown) => e), 'ERR_DRIVER')).toBe(true);
  });
});

describe('list', () => {
  it('looks at each image, and leaves out what has gone meanwhile', async () => {
    const gone = `sha256:${'9'.repeat(64)}`;
    const source = await start((response, request) => {
      if (request.url === '/images/json?all=false') return json(200, [{ Id: ID }, { Id: gone }])(response, request);
      const answer = request.url?.includes(gone) ? json(404, {}) : json(200, INSPECT);
      return answer(response, request);
    });
    expect((await source.list({})).map(({ id, platform }) => [id, platform])).toEqual([[ID, 'linux/amd64']]);
  });
});
