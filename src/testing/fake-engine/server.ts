import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../../clock.js';
import { Cell } from '../../internal/cell.js';
import { messageOf } from '../../internal/message-of.js';
import { sleep } from '../../internal/signals.js';
import { EngineProblem, type FakeAnswer, type FakeRequest } from './answer.js';
import type { FakeFault } from './faults.js';

/** What the server asks of the engine behind it. */
export interface Backend {
  /** Told of every call before it is worked on, as `POST /containers/create?name=x`. */
  begin(method: string, pathAndQuery: string): FakeFault | undefined;
  answer(request: FakeRequest): FakeAnswer;
}

/** Speaks HTTP on a unix socket, with the faults that are asked for. */
export class EngineServer {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Calls that came in and are neither answered nor given up. */
  readonly open = new Cell(0);

  constructor(
    private readonly backend: Backend,
    private readonly clock: Clock,
  ) {
    this.#server = createServer((request, response) => {
      this.open.set(this.open.value + 1);
      response.once('close', () => this.open.set(this.open.value - 1));
      void this.#serve(request, response);
    });
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
      // Cutting a connection that the other side also cuts is what this server is for.
      socket.on('error', () => undefined);
    });
  }

  listen(socketPath: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(socketPath, () => resolve());
    });
  }

  /** Cuts every open connection. */
  disconnect(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.disconnect();
    return closed;
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = (incoming.url ?? '/').replace(/^\/v\d+\.\d+(?=\/)/, '');
    const method = incoming.method ?? 'GET';
    const body = await readJson(incoming);
    const fault = this.backend.begin(method, decodeURIComponent(url)) ?? {};
    try {
      if (fault.lose !== undefined) incoming.socket.destroy();
      if (fault.lose === 'request' || fault.silence === 'request') return;
      if (fault.delay !== undefined) await sleep(this.clock, fault.delay);
      if (fault.status !== undefined) throw new EngineProblem(fault.status, fault.message ?? 'scripted fault');
      const { pathname, searchParams } = new URL(url, 'http://engine');
      const path = decodeURIComponent(pathname);
      const answer = this.backend.answer({ method, path, query: searchParams, body });
      if (fault.garbage !== undefined) response.writeHead(answer.status).end(fault.garbage);
      else if (fault.silence !== 'answer') await send(response, answer, fault);
    } catch (error) {
      const status = error instanceof EngineProblem ? error.status : 500;
      sendJson(response, status, { message: messageOf(error) });
    }
  }
}

async function send(response: ServerResponse, answer: FakeAnswer, fault: FakeFault): Promise<void> {
  if (answer.later !== undefined) {
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    response.flushHeaders();
    response.end(JSON.stringify(await answer.later));
  } else if (answer.pieces !== undefined) {
    await sendPieces(response, answer.status, answer.pieces);
  } else if (answer.lines !== undefined) {
    sendLines(response, answer, fault);
  } else if (answer.body === undefined) {
    response.writeHead(answer.status).end();
  } else {
    sendJson(response, answer.status, answer.body);
  }
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** No faster than they are taken. */
async function sendPieces(response: ServerResponse, status: number, pieces: AsyncIterable<Buffer>): Promise<void> {
  response.writeHead(status, { 'content-type': 'application/vnd.docker.raw-stream' });
  response.flushHeaders();
  for await (const piece of pieces) {
    if (response.destroyed) return;
    if (!response.write(piece)) await Promise.race([once(response, 'drain'), once(response, 'close')]);
  }
  response.end();
}

function sendLines(response: ServerResponse, { status, lines = [], landed }: FakeAnswer, fault: FakeFault): void {
  const { inStreamError: message } = fault;
  const told = message === undefined ? lines : [...lines.slice(0, -2), { error: message, errorDetail: { message } }];
  const bytes = Buffer.from(told.map((line) => `${JSON.stringify(line)}\r\n`).join(''));
  response.writeHead(status, { 'content-type': 'application/json' });
  const limit = fault.cutAfter ?? fault.silentAfter;
  if (limit !== undefined && limit < bytes.length) {
    response.write(bytes.subarray(0, limit), () => {
      if (fault.cutAfter !== undefined) response.socket?.destroy();
    });
    return;
  }
  if (message === undefined) landed?.();
  response.end(bytes);
}

async function readJson(incoming: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString('utf8');
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
}
