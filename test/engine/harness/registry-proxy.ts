import { EventEmitter, once } from 'node:events';
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** How the proxy misbehaves. Byte limits count the blob bytes of all answers together, from the last `set` on. */
export interface RegistryFaults {
  /** Rate of all blob bodies together, in bytes per second. */
  readonly bytesPerSecond?: number;
  /** From this many bytes on, each blob answer is ended by destroying its socket. */
  readonly cutAfterBytes?: number;
  /** From this many bytes on nothing more is sent; the sockets stay open. */
  readonly silentAfterBytes?: number;
  /** Given instead of the registry's answer, to requests whose path matches (default: to all). */
  readonly answer?: {
    readonly status: number;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body?: string;
    readonly path?: RegExp;
  };
}

export interface RegistryRequest {
  readonly method: string;
  readonly path: string;
  readonly status: number;
}

const SLICE = 16_384;
/** Timers are late: how much of the lost time, in ms, the throttle makes good. */
const CATCH_UP = 50;
const BLOB = /^\/v2\/.+\/blobs\/sha256:/;

/**
 * A slow or broken registry: an HTTP proxy on a free port of 127.0.0.1 in front of the real one. Engines pull
 * `proxy.ref(name, tag)` through it. Each test makes its own, and closes it.
 */
export class RegistryProxy {
  readonly port: number;
  readonly requests: RegistryRequest[] = [];
  readonly #server: Server;
  readonly #upstream: number;
  readonly #sockets = new Set<Socket>();
  readonly #events = new EventEmitter().setMaxListeners(0);
  #faults: RegistryFaults = {};
  #blobBytes = 0;
  #nextSliceAt = 0;

  private constructor(server: Server, upstream: number) {
    this.#server = server;
    this.#upstream = upstream;
    this.port = (server.address() as AddressInfo).port;
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.once('close', () => this.#sockets.delete(socket));
    });
    server.on('request', (incoming, outgoing) => this.#handle(incoming, outgoing));
  }

  static async start(registryPort: number, faults: RegistryFaults = {}): Promise<RegistryProxy> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const proxy = new RegistryProxy(server, registryPort);
    proxy.set(faults);
    return proxy;
  }

  ref(name: string, tag: string): string {
    return `127.0.0.1:${this.port}/${name}:${tag}`;
  }

  /** Blob bytes sent since the last `set`. */
  get blobBytes(): number {
    return this.#blobBytes;
  }

  /** Replaces all faults, also for answers that are on their way. */
  set(faults: RegistryFaults): void {
    this.#faults = faults;
    this.#blobBytes = 0;
    this.#nextSliceAt = 0;
    this.#events.emit('changed');
  }

  /** Closes the port: connections are refused until `accept`. */
  async refuse(): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server, 'close');
  }

  /** Opens the same port again. */
  async accept(): Promise<void> {
    this.#server.listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async close(): Promise<void> {
    await this.refuse();
  }

  #handle(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const path = incoming.url ?? '/';
    const note = (status: number): void => void this.requests.push({ method: incoming.method ?? '', path, status });
    const { answer } = this.#faults;
    if (answer !== undefined && (answer.path ?? /^/).test(path)) {
      note(answer.status);
      outgoing.writeHead(answer.status, answer.headers).end(answer.body);
      return;
    }
    const { method, headers } = incoming;
    const upstream = request({ host: '127.0.0.1', port: this.#upstream, method, path, headers });
    upstream.on('error', () => outgoing.destroy());
    outgoing.once('close', () => upstream.destroy());
    upstream.on('response', (response) => {
      note(response.statusCode ?? 0);
      outgoing.writeHead(response.statusCode ?? 502, response.headers);
      // The headers go at once, also of a body that never starts.
      outgoing.flushHeaders();
      if (!BLOB.test(path) || method !== 'GET') response.pipe(outgoing);
      else void this.#sendBlob(response, outgoing).catch(() => outgoing.destroy());
    });
    incoming.pipe(upstream);
  }

  async #sendBlob(body: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const gone = new AbortController();
    outgoing.once('close', () => gone.abort());
    for await (const chunk of body as AsyncIterable<Buffer>) {
      for (let rest = chunk; rest.length > 0;) {
        const size = await this.#admit(Math.min(rest.length, SLICE), gone.signal);
        if (size === 0) return void outgoing.destroy();
        if (!outgoing.write(rest.subarray(0, size))) await once(outgoing, 'drain', { signal: gone.signal });
        rest = rest.subarray(size);
      }
    }
    outgoing.end();
  }

  /** How many of so many bytes may go now, 0 for the cut; waits while the throttle or the silence says so. */
  async #admit(wanted: number, gone: AbortSignal): Promise<number> {
    for (;;) {
      const { bytesPerSecond, cutAfterBytes = Infinity, silentAfterBytes = Infinity } = this.#faults;
      if (this.#blobBytes >= cutAfterBytes) return 0;
      if (this.#blobBytes >= silentAfterBytes) {
        await once(this.#events, 'changed', { signal: gone });
        continue;
      }
      const size = Math.min(wanted, cutAfterBytes - this.#blobBytes, silentAfterBytes - this.#blobBytes);
      this.#blobBytes += size;
      if (bytesPerSecond === undefined) return size;
      const now = performance.now();
      this.#nextSliceAt = Math.max(this.#nextSliceAt, now - CATCH_UP) + (size / bytesPerSecond) * 1000;
      await sleep(Math.max(0, this.#nextSliceAt - now), undefined, { signal: gone });
      return size;
    }
  }
}
