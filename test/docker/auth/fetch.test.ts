import type { IncomingHttpHeaders } from 'node:http';
import Docker from 'dockerode';
import type { ArtifactSource, Credentials } from 'handover';
import { dockerImages } from 'handover/docker';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Answer, chunks, json, scriptedServer } from '../scripted-server.js';
import { failure, shown } from './helpers.js';

interface Seen {
  readonly source: ArtifactSource;
  readonly requests: readonly { readonly call: string; readonly headers: IncomingHttpHeaders }[];
}

async function seeing(answer: Answer): Promise<Seen> {
  const requests: { call: string; headers: IncomingHttpHeaders }[] = [];
  const server = await scriptedServer((response, request) => {
    requests.push({ call: `${request.method ?? ''} ${request.url ?? ''}`, headers: request.headers });
    return answer(response, request);
  });
  onTestFinished(() => server.close());
  return { source: dockerImages(new Docker({ socketPath: server.socketPath })), requests };
}

const DONE = chunks(
  '{"status":"Pulling from app","id":"v1"}\r\n{"status":"Status: Image is up to date for app:v1"}\r\n',
);
const onProgress = (): void => {};
const REFERENCE = 'ghcr.io/team/app:v1';

describe('dockerImages: the credentials of a pull', () => {
  it.each([
    {
      credentials: { username: 'ann', password: '~~~>>>???' },
      json: { username: 'ann', password: '~~~>>>???', serveraddress: 'ghcr.io' },
    },
    { credentials: { identityToken: 'tok' }, json: { identitytoken: 'tok', serveraddress: 'ghcr.io' } },
    { credentials: { encoded: 'eyJhIjoxfQ==' }, json: { a: 1 } },
  ] satisfies { credentials: Credentials; json: object }[])(
    'case C18 $credentials ends as one header, and nowhere else',
    async ({ credentials, json: expected }) => {
      const { source, requests } = await seeing(DONE);
      const before = structuredClone(credentials);
      await source.fetch(REFERENCE, { credentials, onProgress });
      expect(requests.map(({ call }) => call)).toEqual(['POST /images/create?fromImage=ghcr.io%2Fteam%2Fapp&tag=v1']);
      const header = requests[0]!.headers['x-registry-auth'] as string;
      expect(JSON.parse(Buffer.from(header, 'base64url').toString('utf8'))).toEqual(expected);
      expect(header.length % 4).toBe(0);
      expect(requests[0]!.headers['content-length'] ?? '0').toBe('0');
      expect(credentials).toEqual(before);
    },
  );

  it("IC-14 Docker's own registry goes by its legacy address", async () => {
    const { source, requests } = await seeing(DONE);
    await source.fetch('team/app', { credentials: { identityToken: 'tok' }, onProgress });
    const header = requests[0]!.headers['x-registry-auth'] as string;
    expect(JSON.parse(Buffer.from(header, 'base64url').toString('utf8'))).toMatchObject({
      serveraddress: 'https://index.docker.io/v1/',
    });
  });

  it('case C19 no credentials: an anonymous pull, without the header', async () => {
    const { source, requests } = await seeing(DONE);
    await source.fetch(REFERENCE, { credentials: undefined, onProgress });
    expect(requests[0]!.headers).not.toHaveProperty('x-registry-auth');
  });

  it('IC-14 one pull does not hand its credentials on to the next', async () => {
    const { source, requests } = await seeing(DONE);
    await source.fetch(REFERENCE, { credentials: { encoded: 'abc' }, onProgress });
    await source.fetch(REFERENCE, { onProgress });
    expect(requests.map(({ headers }) => headers['x-registry-auth'])).toEqual(['abc', undefined]);
  });

  it('G-2 credentials of no known form are refused before any call', async () => {
    const { source, requests } = await seeing(DONE);
    const error = await failure(source.fetch(REFERENCE, { credentials: {} as never, onProgress }));
    expect(error).toMatchObject({ code: 'ERR_INVALID_OPTION', details: { path: 'credentials' } });
    expect(requests).toEqual([]);
  });

  it.each([
    { name: 'a refusal', answer: json(401, { message: 'unauthorized: incorrect username or password' }) },
    { name: 'an error in the stream', answer: chunks('{"error":"unauthorized: authentication required"}') },
    { name: 'garbage', answer: chunks('hello\r\n') },
    { name: 'a lost connection', answer: (response) => void response.socket?.destroy() },
  ])('G-6 after $name nothing shows them', async ({ answer }) => {
    const { source } = await seeing(answer);
    const credentials = { username: 'ann', password: 'hunter2' };
    const error = await failure(source.fetch(REFERENCE, { credentials, onProgress }));
    expect(error).toMatchObject({ code: 'ERR_PULL_FAILED' });
    expect(shown(error)).not.toContain('hunter2');
    const json64 = Buffer.from(JSON.stringify({ ...credentials, serveraddress: 'ghcr.io' })).toString('base64');
    expect(shown(error)).not.toContain(json64.slice(0, 20));
  });
});
