import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { deferred } from '../../src/internal/deferred.js';

/** Answers one request. */
export type Answer = (response: ServerResponse, request: IncomingMessage) => void | Promise<void>;

/** An HTTP server on a unix socket that answers as the test says, byte by byte where it matters. */
export interface ScriptedServer {
  readonly socketPath: string;
  /** `GET /images/json?all=1`, in the order of arrival. */
  readonly calls: readonly string[];
  readonly bodies: readonly string[];
  /** Connections that are open now. */
  readonly sockets: number;
  /** Resolves when no connection is open any more. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

/** @param answer - for every request */
export async function scriptedServer(answer: Answer): Promise<ScriptedServer> {
  const folder = mkdtempSync(join(tmpdir(), 'handover-server-'));
  const socketPath = join(folder, 'engine.sock');
  const calls: string[] = [];
  const bodies: string[] = [];
  const sockets = new Set<Socket>();
  let changed = deferred();
  const server = createServer((request, response) => {
    calls.push(`${request.method ?? ''} ${request.url ?? ''}`);
    void text(request).then((body) => {
      bodies.push(body);
      return answer(response, request);
    });
  });
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => {
      sockets.delete(socket);
      changed.resolve();
      changed = deferred();
    });
  });
  server.listen(socketPath);
  await once(server, 'listening');
  return {
    socketPath,
    calls,
    bodies,
    get sockets() {
      return sockets.size;
    },
    async idle() {
      while (sockets.size > 0) await changed.promise;
    },
    async close() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A JSON answer. */
export function json(status: number, body: unknown): Answer {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(body === undefined ? undefined : JSON.stringify(body));
  };
}

/** A stream of progress lines: HTTP 200, then the chunks as they are, then the end. */
export function chunks(...parts: readonly (string | Buffer)[]): Answer {
  return async (response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    for (const part of parts) {
      response.write(part);
      // A turn of the loop, so that the client gets the chunks one by one.
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
  };
}
