import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** One call to the engine, in the order in which the calls arrived. Headers are not kept: they carry credentials. */
export interface EngineCall {
  readonly method: string;
  /** Without the version of the API, with the query: `/containers/create?name=web`. */
  readonly path: string;
  /** The parsed body of a call that has one in JSON. */
  readonly body?: unknown;
  /** When it arrived and when its answer began, on the clock of `performance.now()`. */
  readonly at: number;
  answeredAt?: number;
  status?: number;
}

/** What happens to a matching call. */
export type EngineFault =
  /** It reaches the engine later. */
  | { readonly delayMs: number }
  /** It reaches the engine when the promise resolves. */
  | { readonly until: Promise<unknown> }
  /** It does not reach the engine, and is answered like this. */
  | { readonly fail: number; readonly message: string }
  /** The client's socket is destroyed: before the engine sees the call, or when the engine has answered it. */
  | { readonly drop: 'before' | 'after' }
  /** The answer is cut, by destroying the socket, after so many bytes of its body. */
  | { readonly cutAfterBytes: number };

/** The start of `METHOD /path?query`, or an expression that it fits. */
export type EngineMatch = string | RegExp;

const UNHARMED: EngineFault = { until: Promise.resolve() };

interface Rule {
  readonly match: EngineMatch;
  readonly fault: EngineFault;
  left: number;
}

/**
 * A broken engine: a proxy on a unix socket in front of the real one that records each call and does to chosen calls
 * what the test says. Attach and exec, which leave HTTP, do not pass.
 */
export class EngineProxy {
  readonly socketPath: string;
  readonly calls: EngineCall[] = [];
  readonly #server: Server;
  readonly #upstream: string;
  readonly #sockets = new Set<Socket>();
  #rules: Rule[] = [];

  private constructor(server: Server, socketPath: string, upstream: string) {
    this.#server = server;
    this.socketPath = socketPath;
    this.#upstream = upstream;
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.once('close', () => this.#sockets.delete(socket));
    });
    server.on('request', (incoming, outgoing) => {
      this.#handle(incoming, outgoing).catch(() => outgoing.destroy());
    });
  }

  static async start(engineSocketPath: string, folder: string): Promise<EngineProxy> {
    const socketPath = join(folder, `proxy-${randomBytes(4).toString('hex')}.sock`);
    const server = createServer().listen(socketPath);
    await once(server, 'listening');
    return new EngineProxy(server, socketPath, engineSocketPath);
  }

  /** `METHOD /path` of each call, without the query: the sequence to assert. */
  get sequence(): string[] {
    return this.calls.map(({ method, path }) => `${method} ${path.split('?')[0] ?? ''}`);
  }

  /**
   * Applies a fault to matching calls; the first rule that matches decides.
   *
   * @param options.times - how many calls, default all
   * @returns takes the rule away again
   */
  on(match: EngineMatch, fault: EngineFault, options: { readonly times?: number } = {}): () => void {
    const rule: Rule = { match, fault, left: options.times ?? Infinity };
    this.#rules.push(rule);
    return () => void (this.#rules = this.#rules.filter((other) => other !== rule));
  }

  /** Resolves with the next call that matches, or with one that was recorded already. */
  async called(match: EngineMatch): Promise<EngineCall> {
    for (;;) {
      const call = this.calls.find((candidate) => fits(match, candidate));
      if (call !== undefined) return call;
      await once(this.#server, 'recorded');
    }
  }

  /** Ends every connection; the engine goes on. */
  dropAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.#server.close();
    this.dropAll();
    await once(this.#server, 'close');
  }

  async #handle(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const isJson = incoming.headers['content-type'] === 'application/json';
    const body = isJson ? await readAll(incoming) : undefined;
    const call: EngineCall = {
      method: incoming.method ?? '',
      path: (incoming.url ?? '').replace(/^\/v\d+\.\d+/, ''),
      ...(body !== undefined && body.length > 0 && { body: JSON.parse(body.toString()) as unknown }),
      at: performance.now(),
    };
    const fault = this.#take(call);
    this.calls.push(call);
    this.#server.emit('recorded');
    if ('delayMs' in fault) await sleep(fault.delayMs);
    if ('until' in fault) await fault.until;
    if ('fail' in fault) {
      settle(call, fault.fail);
      outgoing.writeHead(fault.fail, { 'content-type': 'application/json' });
      outgoing.end(JSON.stringify({ message: fault.message }));
    } else if ('drop' in fault && fault.drop === 'before') {
      outgoing.destroy();
    } else {
      this.#forward(incoming, body, call, fault, outgoing);
    }
  }

  #take(call: EngineCall): EngineFault {
    const rule = this.#rules.find(({ match, left }) => left > 0 && fits(match, call));
    if (rule === undefined) return UNHARMED;
    rule.left--;
    return rule.fault;
  }

  #forward(
    incoming: IncomingMessage,
    body: Buffer | undefined,
    call: EngineCall,
    fault: EngineFault,
    outgoing: ServerResponse,
  ): void {
    if (outgoing.destroyed) return;
    const { method, url: path, headers } = incoming;
    const upstream = request({ socketPath: this.#upstream, method, path, headers });
    upstream.on('error', () => outgoing.destroy());
    outgoing.once('close', () => upstream.destroy());
    upstream.on('response', (response) => {
      settle(call, response.statusCode ?? 0);
      if ('drop' in fault) return void outgoing.destroy();
      outgoing.writeHead(response.statusCode ?? 502, response.headers);
      // The headers go at once: clients of a silent stream wait for them.
      outgoing.flushHeaders();
      response.on('error', () => outgoing.destroy());
      if ('cutAfterBytes' in fault) cut(response, outgoing, fault.cutAfterBytes);
      else response.pipe(outgoing);
    });
    if (body === undefined) incoming.pipe(upstream);
    else upstream.end(body);
  }
}

function settle(call: EngineCall, status: number): void {
  call.status = status;
  call.answeredAt = performance.now();
}

function fits(match: EngineMatch, { method, path }: EngineCall): boolean {
  const text = `${method} ${path}`;
  return typeof match === 'string' ? text.startsWith(match) : match.test(text);
}

function cut(response: IncomingMessage, outgoing: ServerResponse, limit: number): void {
  let left = limit;
  response.on('data', (chunk: Buffer) => {
    const part = chunk.subarray(0, left);
    left -= part.length;
    outgoing.write(part, () => left === 0 && outgoing.destroy());
  });
  response.on('end', () => outgoing.end());
}

async function readAll(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}
