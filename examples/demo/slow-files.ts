import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const SLICE_MS = 50;

/** A file server with a slow line. */
export interface SlowFiles {
  readonly url: string;
  end(): Promise<void>;
}

/**
 * @param files - path → content
 * @param bytesPerSecond - of each download
 */
export async function serveSlowly(files: Readonly<Record<string, string>>, bytesPerSecond: number): Promise<SlowFiles> {
  const server = createServer((request, response) => {
    const content = files[request.url ?? ''];
    if (content === undefined) {
      response.writeHead(404).end();
      return;
    }
    const bytes = Buffer.from(content);
    response.writeHead(200, { 'content-length': bytes.length });
    void drip(
      bytes,
      (slice) => response.write(slice),
      () => response.destroyed,
    ).then(() => response.end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  async function drip(bytes: Buffer, write: (slice: Buffer) => void, gone: () => boolean): Promise<void> {
    const size = Math.ceil((bytesPerSecond * SLICE_MS) / 1_000);
    for (let at = 0; at < bytes.length && !gone(); at += size) {
      write(bytes.subarray(at, at + size));
      await sleep(SLICE_MS);
    }
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async end() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
