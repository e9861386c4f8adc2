import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** An HTTP origin on a loopback port, whose answers are content or whatever a test wants to go wrong. */
export class Origin {
  readonly requests: string[] = [];
  readonly #answers = new Map<string, Answer>();
  readonly #server = createServer((request, response) => {
    this.requests.push(`${request.method} ${request.url}`);
    const answer = this.#answers.get(request.url ?? '');
    if (answer === undefined) response.writeHead(404).end('nothing here');
    else answer(request, response);
  });

  static async open(): Promise<Origin> {
    const origin = new Origin();
    origin.#server.listen(0, '127.0.0.1');
    await once(origin.#server, 'listening');
    return origin;
  }

  url(path: string): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}${path}`;
  }

  /** @returns the URL */
  on(path: string, answer: Answer): string {
    this.#answers.set(path, answer);
    return this.url(path);
  }

  content(path: string, content: string | Buffer): string {
    return this.on(path, (_, response) =>
      response.writeHead(200, { 'content-length': Buffer.byteLength(content) }).end(content),
    );
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
}
