import { once } from 'node:events';
import { createServer as createHttp, type RequestListener } from 'node:http';
import { type AddressInfo, createServer as createTcp, type Server } from 'node:net';
import { Readable } from 'node:stream';
import { afterEach, describe, expect, it } from 'vitest';
import { type AllocStatus, HandoverError } from 'handover';
import { type CheckSubject, probes } from '../../src/alloc/checks.js';

const servers: Server[] = [];

function* endless(): Generator<Buffer> {
  for (;;) yield Buffer.alloc(65_536);
}

async function listen(server: Server): Promise<CheckSubject> {
  servers.push(server.listen(0, '127.0.0.1'));
  await once(server, 'listening');
  return subjectAt((server.address() as AddressInfo).port);
}

function subjectAt(port: number): CheckSubject {
  return {
    endpoint: (name) => (name === 'http' ? { address: '127.0.0.1', port } : undefined),
    status: () => ({ id: 'a' }) as AllocStatus,
  };
}

/** A port that nobody listens on. */
async function closedPort(): Promise<CheckSubject> {
  const server = createTcp();
  const subject = await listen(server);
  server.close();
  await once(server, 'close');
  return subject;
}

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    if ('closeAllConnections' in server) (server as { closeAllConnections(): void }).closeAllConnections();
  }
});

const live = (): { readonly signal: AbortSignal } => ({ signal: new AbortController().signal });
const tries = { interval: 1_000, timeout: 1_000 };
const http = (path = '/health') => ({ ...tries, name: 'up', type: 'http', port: 'http', path }) as const;
const tcp = { ...tries, name: 'up', type: 'tcp', port: 'http' } as const;

describe('http', () => {
  it.each([
    { status: 200, passes: true },
    { status: 204, passes: true },
    { status: 301, passes: true },
    { status: 399, passes: true },
    { status: 400, passes: false },
    { status: 404, passes: false },
    { status: 500, passes: false },
    { status: 503, passes: false },
  ])('AL-9 status $status passes=$passes', async ({ status, passes }) => {
    const asked: (string | undefined)[] = [];
    const answer: RequestListener = (request, response) => {
      asked.push(`${request.method ?? ''} ${request.url ?? ''}`);
      response.writeHead(status).end();
    };
    const subject = await listen(createHttp(answer));
    const tried = probes({}).http(http('/ready?full=1'), subject, live());
    if (passes) await tried;
    else await expect(tried).rejects.toThrow(`it answered ${status}`);
    expect(asked).toEqual(['GET /ready?full=1']);
  });

  it('AL-9: the status counts, a large or endless body is not read', async () => {
    const subject = await listen(
      createHttp((_, response) => {
        Readable.from(endless()).pipe(response.writeHead(200));
      }),
    );
    await probes({}).http(http(), subject, live());
  });

  it('AL-9: nobody listens', async () => {
    await expect(probes({}).http(http(), await closedPort(), live())).rejects.toThrow('ECONNREFUSED');
  });

  it('AL-9: a server that closes without an answer', async () => {
    const subject = await listen(createTcp((socket) => socket.destroy()));
    await expect(probes({}).http(http(), subject, live())).rejects.toThrow(/ECONNRESET|hang up/);
  });

  it('AL-9: what answers is not HTTP', async () => {
    const subject = await listen(createTcp((socket) => socket.end('SSH-2.0-x\r\n')));
    await expect(probes({}).http(http(), subject, live())).rejects.toThrow(/Parse Error|Expected HTTP/);
  });

  it('AL-9: a server that never answers is left when the signal aborts', async () => {
    const closed: Promise<unknown>[] = [];
    const subject = await listen(createTcp((socket) => closed.push(once(socket.resume(), 'close'))));
    const control = new AbortController();
    const tried = probes({}).http(http(), subject, { signal: control.signal });
    const settled = expect(tried).rejects.toThrow('late');
    await new Promise((resolve) => setImmediate(resolve));
    control.abort(new Error('late'));
    await settled;
    await Promise.all(closed);
  });
});

describe('tcp', () => {
  it('AL-9: a connection passes, and is closed again', async () => {
    const ended: Promise<unknown>[] = [];
    const subject = await listen(createTcp((socket) => ended.push(once(socket.resume(), 'close'))));
    await probes({}).tcp(tcp, subject, live());
    await new Promise((resolve) => setTimeout(resolve, 20));
    await Promise.all(ended);
    expect(ended).toHaveLength(1);
  });

  it('AL-9: nobody listens', async () => {
    await expect(probes({}).tcp(tcp, await closedPort(), live())).rejects.toThrow('ECONNREFUSED');
  });
});

describe('any', () => {
  it.each([{ check: { ...http(), port: 'admin' } }, { check: { ...tcp, port: 'admin' } }])(
    'AL-9: a port that the task does not have fails and says which ($check.type)',
    async ({ check }) => {
      const probe = probes({})[check.type] as (c: unknown, s: CheckSubject, o: unknown) => Promise<void>;
      const error: unknown = await probe(check, subjectAt(1), live()).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(HandoverError);
      expect(error).toMatchObject({ code: 'ERR_INVALID_OPTION', details: { path: 'health.checks.up.port' } });
    },
  );
});
