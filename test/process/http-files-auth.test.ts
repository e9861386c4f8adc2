import type { IncomingMessage } from 'node:http';
import { inspect } from 'node:util';
import { type Credentials, ImageCoordinator } from 'handover';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { FilesBench, ignore, noise } from './files-bench.js';
import { Origin } from './origin.js';

let bench: FilesBench;
let origin: Origin;
beforeEach(async () => {
  bench = await FilesBench.open();
  ({ origin } = bench);
});
afterEach(() => bench.close());

const basic = (login: string): string => `Basic ${Buffer.from(login).toString('base64')}`;
const ann = { username: 'ann', password: 'hunter2' };

/** What each request to a path showed; it answers with content, or with a redirect. */
function noting(at: Origin, path: string, to?: string) {
  const shown: (string | undefined)[] = [];
  const url = at.on(path, ({ headers }, response) => {
    shown.push(headers.authorization);
    if (to === undefined) response.writeHead(200, { 'content-length': 4 }).end('file');
    else response.writeHead(302, { location: to }).end();
  });
  return { url, shown };
}

async function elsewhere(): Promise<Origin> {
  const other = await Origin.open();
  onTestFinished(() => other.close());
  return other;
}

describe('IC-14 credentials of an HTTP origin', () => {
  it.each<{ credentials: Credentials | undefined; header: string | undefined }>([
    { credentials: undefined, header: undefined },
    { credentials: ann, header: basic('ann:hunter2') },
    { credentials: { username: 'größe', password: 'a:b:ü' }, header: basic('größe:a:b:ü') },
    { credentials: { username: 'ann', password: '' }, header: basic('ann:') },
    { credentials: { identityToken: 'abc.def' }, header: 'Bearer abc.def' },
    { credentials: { encoded: 'Digest x="y"' }, header: 'Digest x="y"' },
  ])('case C18 $credentials goes as $header', async ({ credentials, header }) => {
    const { url, shown } = noting(origin, '/a');
    await bench.source().fetch(url, { ...ignore, credentials });
    expect(shown).toEqual([header]);
  });

  it.each<{ credentials: Credentials }>([
    { credentials: { username: 'a:b', password: 'hunter2' } },
    { credentials: { identityToken: 'hunter2\r\nx: y' } },
    { credentials: { encoded: 'hunter2 ü' } },
    { credentials: { encoded: '' } },
  ])(
    'G-6 $credentials cannot go into a header: refused before any request, and not quoted',
    async ({ credentials }) => {
      const { url, shown } = noting(origin, '/a');
      const error: unknown = await bench
        .source()
        .fetch(url, { ...ignore, credentials })
        .catch((caught: unknown) => caught);
      expect(error).toMatchObject({ code: 'ERR_INVALID_OPTION', details: { path: 'credentials' } });
      expect(inspect(error)).not.toContain('hunter2');
      expect(shown).toEqual([]);
    },
  );

  it('they go on with a redirect within the origin', async () => {
    const end = noting(origin, '/end');
    const start = noting(origin, '/start', '/end');
    await bench.source().fetch(start.url, { ...ignore, credentials: ann });
    expect([...start.shown, ...end.shown]).toEqual([basic('ann:hunter2'), basic('ann:hunter2')]);
  });

  it('they are never sent to another origin, nor after that to the first one again', async () => {
    const other = await elsewhere();
    const end = noting(origin, '/end');
    const middle = noting(other, '/middle', end.url);
    const start = noting(origin, '/start', middle.url);
    await bench.source().fetch(start.url, { ...ignore, credentials: ann });
    expect([start.shown, middle.shown, end.shown]).toEqual([[basic('ann:hunter2')], [undefined], [undefined]]);
  });

  it('IC-24 the rest of a file that was cut is asked for with them too', async () => {
    const shown: (string | undefined)[] = [];
    const url = origin.ranged('/big', noise(100_000), { cuts: [50_000] });
    const answer = origin.answerOf('/big');
    origin.on('/big', (request: IncomingMessage, response) => {
      shown.push(request.headers.authorization);
      answer(request, response);
    });
    const source = bench.source();
    await expect(source.fetch(url, { ...ignore, credentials: ann })).rejects.toMatchObject({ retryable: true });
    await source.fetch(url, { ...ignore, credentials: ann });
    expect(shown).toEqual([basic('ann:hunter2'), basic('ann:hunter2')]);
    expect(origin.parts[1]).toMatch(/^bytes=/);
  });

  it('S17 IC-10 through the coordinator: asked for by host, once more when refused; no secret in what is told', async () => {
    const url = origin.on('/guarded', ({ headers }, response) => {
      if (headers.authorization === basic('ann:hunter2')) response.writeHead(200, { 'content-length': 4 }).end('file');
      else response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
    });
    const asked: unknown[] = [];
    const told: unknown[] = [];
    const images = new ImageCoordinator(
      {
        source: bench.source(),
        auth: async (host, { refused }) => {
          asked.push([host, refused]);
          return refused ? ann : { username: 'ann', password: 'hunter2-old' };
        },
      },
      { onEvent: (event) => void told.push(event) },
    );
    const host = new URL(url).host;
    await images.acquire(url, { owner: 'a' });
    expect(asked).toEqual([
      [host, false],
      [host, true],
    ]);
    const refused = images.acquire(url, { owner: 'b', policy: 'always', auth: async () => undefined });
    await expect(refused).rejects.toMatchObject({ details: { reason: 'unauthorized', attempts: 1 } });
    await images.close();
    expect(inspect(told, { depth: Infinity })).not.toContain('hunter2');
  });
});
