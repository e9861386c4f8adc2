import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import { type ServerOptions, createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** How an origin tells versions of content apart, and what goes wrong. */
export interface RangedOptions {
  readonly etag?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** For each answer in turn: after how many bytes of its body it ends; those after the last are whole. */
  readonly cuts?: readonly number[];
  /** What a cut is: the connection ends, or nothing more comes. Default `end`. */
  readonly cut?: 'end' | 'silence';
}

/** An HTTP origin on a loopback port, whose answers are content or whatever a test wants to go wrong. */
export class Origin {
  readonly requests: string[] = [];
  /** Which part each request asked for, and on what condition; empty: the whole. */
  readonly parts: string[] = [];
  readonly #answers = new Map<string, Answer>();
  readonly #server: ReturnType<typeof createServer>;
  readonly #scheme: string;

  private constructor(tls: ServerOptions | undefined) {
    const answer: Answer = (request, response) => this.#answer(request, response);
    this.#server = tls === undefined ? createServer(answer) : createTlsServer(tls, answer);
    this.#scheme = tls === undefined ? 'http' : 'https';
  }

  /** @param tls - key and certificate; without them it speaks plain HTTP */
  static async open(tls?: ServerOptions): Promise<Origin> {
    const origin = new Origin(tls);
    origin.#server.listen(0, '127.0.0.1');
    await once(origin.#server, 'listening');
    return origin;
  }

  url(path: string): string {
    return `${this.#scheme}://127.0.0.1:${(this.#server.address() as AddressInfo).port}${path}`;
  }

  /** @returns the URL */
  on(path: string, answer: Answer): string {
    this.#answers.set(path, answer);
    return this.url(path);
  }

  /** What a path answers now, to be wrapped. */
  answerOf(path: string): Answer {
    return this.#answers.get(path)!;
  }

  content(path: string, content: string | Buffer): string {
    return this.on(path, (_, response) =>
      response.writeHead(200, { 'content-length': Buffer.byteLength(content) }).end(content),
    );
  }

  /** Content of which the rest can be had, by one who knows which version it is (RFC 9110, 13.1.5 and 14). */
  ranged(path: string, content: Buffer, o: RangedOptions = {}): string {
    const { etag = '"v1"', headers = { etag }, cut = 'end' } = o;
    const cuts = [...(o.cuts ?? [])];
    const known = [headers['etag'], headers['last-modified']];
    return this.on(path, (request, response) => {
      const { range, 'if-range': condition } = request.headers;
      const from = known.includes(String(condition)) ? /^bytes=(\d+)-$/.exec(range ?? '')?.[1] : undefined;
      const body = content.subarray(Number(from ?? 0));
      const part = { 'content-range': `bytes ${from}-${content.length - 1}/${content.length}` };
      response.writeHead(from === undefined ? 200 : 206, {
        ...headers,
        'content-length': body.length,
        ...(from === undefined ? {} : part),
      });
      const end = cuts.shift();
      if (end === undefined) response.end(body);
      else response.write(body.subarray(0, end), () => cut === 'end' && response.socket?.end());
    });
  }

  /** Sends the start of what it promised, and then nothing more. */
  silent(path: string): string {
    return this.on(path, (_, response) => response.writeHead(200, { 'content-length': 1_000 }).write('the start'));
  }

  status(path: string, status: number, headers: Record<string, string> = {}): string {
    return this.on(path, (_, response) => response.writeHead(status, headers).end());
  }

  /** Connections that are open now. */
  connections(): Promise<number> {
    return new Promise((resolve, reject) =>
      this.#server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
    );
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    this.requests.push(`${request.method} ${request.url}`);
    this.parts.push([request.headers.range, request.headers['if-range']].filter(Boolean).join(' if '));
    const answer = this.#answers.get(request.url ?? '');
    if (answer === undefined) response.writeHead(404).end('nothing here');
    else answer(request, response);
  }
}
