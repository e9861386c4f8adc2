import Docker from 'dockerode';
import { type ArtifactSource, findError, isHandoverError, type Progress } from 'handover';
import { type DockerImage, dockerImages } from 'handover/docker';
import { FakeClock } from 'handover/testing';
import { afterEach, expect, it } from 'vitest';
import { deferred } from '../../src/internal/deferred.js';
import { type Answer, chunks, json, scriptedServer, type ScriptedServer } from './scripted-server.js';

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

type Told = Omit<Progress, 'attempt'>;

async function fetchFailing(source: ArtifactSource<DockerImage>, reference = 'redis:7'): Promise<unknown> {
  return source.fetch(reference, { onProgress: () => {} }).then(
    () => undefined,
    (reason: unknown) => reason,
  );
}

/** With it an engine says that the pull has succeeded. */
const SUCCESS = '{"status":"Status: Downloaded newer image for redis:7"}\r\n';
const LINES = ['{"status":"Pulling from library/redis","id":"7"}\r\n', '{"status":"Pulling fs layer","id":"a"}\r\n'];

it.each([
  { reference: 'redis', query: 'fromImage=redis&tag=latest' },
  { reference: 'docker.io/library/redis:7', query: 'fromImage=redis&tag=7' },
  { reference: 'localhost:5000/a/b:v1', query: 'fromImage=localhost%3A5000%2Fa%2Fb&tag=v1' },
  { reference: '[::1]:5000/a', query: 'fromImage=%5B%3A%3A1%5D%3A5000%2Fa&tag=latest' },
  { reference: `golang:1.4.2@${DIGEST}`, query: `fromImage=golang&tag=${encodeURIComponent(DIGEST)}` },
])('case C20, C22 the request for $reference', async ({ reference, query }) => {
  const source = await start(chunks(...LINES, SUCCESS));
  await source.fetch(reference, { onProgress: () => {} });
  expect(server.calls).toEqual([`POST /images/create?${query}`]);
  expect(server.bodies).toEqual(['']);
});

it('IC-12 each piece of the stream is one sign of life, however many lines it has', async () => {
  const more = deferred();
  const source = await start(async (response) => {
    response.writeHead(200).write(LINES[0]);
    await more.promise;
    response.end(`${LINES[1]!.repeat(50)}{"status":"Status: Image is up to date"}`);
  });
  const told: Told[] = [];
  const onProgress = (progress: Told): void => {
    told.push(progress);
    more.resolve();
  };
  await source.fetch('redis:7', { onProgress });
  expect(told.map(({ phase }) => phase)).toEqual(['resolving', 'downloading']);
});

it('case C23 an image id is never pulled', async () => {
  const source = await start(chunks(...LINES, SUCCESS));
  const error = await fetchFailing(source, ID);
  expect(isHandoverError(error, 'ERR_INVALID_REFERENCE')).toBe(true);
  expect(server.calls).toEqual([]);
});

it('case C2 resolves with the end of the stream, not with its start', async () => {
  const more = deferred();
  const source = await start(async (response) => {
    response.writeHead(200).write(LINES[0]);
    await more.promise;
    response.end(`${LINES[1]!}${SUCCESS}`);
  });
  const steps: string[] = [];
  const begun = deferred();
  const done = source
    .fetch('redis:7', {
      onProgress: () => {
        steps.push('line');
        begun.resolve();
      },
    })
    .then(() => steps.push('done'));
  await begun.promise;
  steps.push('second half');
  more.resolve();
  await done;
  expect(steps).toEqual(['line', 'second half', 'line', 'done']);
});

it.each([
  { end: '\r\n', why: 'S13' },
  { end: '', why: 'case C5 in an unterminated last line' },
])('$why an error inside of the stream is the failure, with its text', async ({ end }) => {
  const text = 'failed to register layer: write /x: no space left on device';
  const source = await start(chunks(...LINES, JSON.stringify({ errorDetail: { message: text }, error: text }) + end));
  const error = await fetchFailing(source);
  expect(findError(error, 'ERR_PULL_FAILED')?.details).toEqual({
    reference: 'redis:7',
    reason: 'no-space',
    attempts: 1,
  });
  expect((error as Error).message).toContain(text);
});

it.each([
  { line: { error: 'toomanyrequests: slow down' }, reason: 'rate-limited' },
  { line: { errorDetail: { code: 401, message: 'no' }, error: 'no' }, reason: 'unauthorized' },
  { line: { errorDetail: { message: 'unexpected EOF' }, error: 'unexpected EOF' }, reason: 'registry-unavailable' },
])('case C15 $line → $reason', async ({ line, reason }) => {
  const source = await start(chunks(...LINES, `${JSON.stringify(line)}\n`));
  expect(await fetchFailing(source)).toMatchObject({ details: { reason } });
});

it.each([
  {
    status: 404,
    message: 'manifest for redis:7 not found: manifest unknown: manifest unknown',
    reason: 'not-found-or-denied',
    retryable: false,
  },
  {
    status: 404,
    message: "pull access denied for x, repository does not exist or may require 'docker login'",
    reason: 'not-found-or-denied',
    retryable: false,
  },
  {
    status: 500,
    message: 'Head "https://r.example/v2/3": no basic auth credentials',
    reason: 'unauthorized',
    retryable: false,
  },
  {
    status: 500,
    message: 'toomanyrequests: You have reached your pull rate limit.',
    reason: 'rate-limited',
    retryable: true,
  },
  {
    status: 500,
    message: 'Get "http://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused',
    reason: 'registry-unavailable',
    retryable: true,
  },
])(
  'case C3, C12, C13, C14 HTTP $status "$message" → $reason, one call',
  async ({ status, message, reason, retryable }) => {
    const source = await start(json(status, { message }));
    expect(await fetchFailing(source)).toMatchObject({
      code: 'ERR_PULL_FAILED',
      details: { reason },
      retryable,
    });
    expect(server.calls).toHaveLength(1);
  },
);

it('IC-11 a clean end without a word of success is none: an older image may be there under the name', async () => {
  const source = await start(chunks(...LINES));
  const error = await fetchFailing(source);
  expect(error).toMatchObject({ details: { reason: 'corrupt-stream' }, retryable: true });
  expect((error as Error).message).toContain('a: Pulling fs layer');
});

it('case C4 a page in the middle of the stream: corrupt, the socket is ended', async () => {
  const source = await start((response) => {
    response.writeHead(200).write(LINES.join(''));
    response.write('<html>502 Bad Gateway</html>\r\n');
  });
  const error = await fetchFailing(source);
  expect(error).toMatchObject({ details: { reason: 'corrupt-stream' }, retryable: true });
  await server.idle();
});

it('case C8, S15 a socket that is reset: the engine is gone, retryable, with the last line', async () => {
  const source = await start((response) => {
    response.writeHead(200).write(LINES.join(''));
    setImmediate(() => response.socket?.destroy());
  });
  const error = await fetchFailing(source);
  expect(error).toMatchObject({ details: { reason: 'engine-unavailable' }, retryable: true });
  expect((error as Error).message).toContain('a: Pulling fs layer');
});

it('S15 no engine at all', async () => {
  const clock = new FakeClock();
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { syscall: 'connect' });
  server = await scriptedServer(json(200, {}));
  const source = dockerImages({ modem: { dial: (_, done) => done(refused, null) } }, { clock });
  const error = await clock.until(fetchFailing(source));
  expect(error).toMatchObject({ details: { reason: 'engine-unavailable' }, retryable: true });
});

it.each([
  { what: 'an error', reason: new Error('not any more') },
  { what: 'text', reason: 'not any more' },
  { what: 'nothing', reason: null },
])(
  'case C9, C65 an abort in the middle, for $what, rejects with the very reason and ends the socket',
  async ({ reason }) => {
    const source = await start((response) => void response.writeHead(200).write(LINES[0]));
    const controller = new AbortController();
    const begun = deferred();
    const fetching = source.fetch('redis:7', { signal: controller.signal, onProgress: () => begun.resolve() });
    await begun.promise;
    controller.abort(reason);
    await expect(fetching).rejects.toBe(reason);
    await server.idle();
  },
);

it('case C9 an abort before the first line does the same', async () => {
  const arrived = deferred();
  const source = await start(() => arrived.resolve());
  const controller = new AbortController();
  const fetching = source.fetch('redis:7', { signal: controller.signal, onProgress: () => {} });
  await arrived.promise;
  controller.abort('not any more');
  await expect(fetching).rejects.toBe('not any more');
  await server.idle();
});

it('IC-8 a pull has no deadline of its own, before the first line and after', async () => {
  const clock = new FakeClock();
  const [arrived, go, begun] = [deferred(), deferred(), deferred()];
  server = await scriptedServer(async (response) => {
    arrived.resolve();
    await go.promise;
    response.writeHead(200).write(LINES[0]);
    await begun.promise;
    response.end(`${LINES[1]!}${SUCCESS}`);
  });
  const source = dockerImages(new Docker({ socketPath: server.socketPath }), { clock });
  const fetching = source.fetch('redis:7', { onProgress: () => begun.resolve() });
  await arrived.promise;
  expect(clock.pending).toBe(0);
  await clock.advance('30d');
  go.resolve();
  await fetching;
});

it('case C17 IC-10 an engine that goes away before the look at the platform is a failed pull', async () => {
  const clock = new FakeClock();
  server = await scriptedServer((response, request) =>
    request.method === 'POST' ? chunks(...LINES, SUCCESS)(response, request) : void response.destroy(),
  );
  const source = dockerImages(new Docker({ socketPath: server.socketPath }), { clock });
  const fetching = source.fetch('redis:7', { platform: 'linux/arm64', onProgress: () => {} });
  await expect(fetching).rejects.toMatchObject({
    code: 'ERR_PULL_FAILED',
    details: { reason: 'engine-unavailable' },
    retryable: true,
  });
});

it.each([
  { platform: 'linux/amd64', reason: undefined },
  { platform: 'linux/arm64', reason: 'no-platform' },
])('case C17 the engine brings linux/amd64 for $platform: $reason', async ({ platform, reason }) => {
  const source = await start((response, request) =>
    request.method === 'POST' ? chunks(...LINES, SUCCESS)(response, request) : json(200, INSPECT)(response, request),
  );
  const error: unknown = await source
    .fetch('redis:7', { platform, onProgress: () => {} })
    .catch((cause: unknown) => cause);
  expect(findError(error, 'ERR_PULL_FAILED')?.details.reason).toBe(reason);
  expect(server.calls).toEqual([
    `POST /images/create?fromImage=redis&tag=7&platform=${encodeURIComponent(platform)}`,
    'GET /images/redis:7/json',
  ]);
});
