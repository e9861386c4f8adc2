import type { Readable } from 'node:stream';
import type { Call } from '../call.js';
import { abortable, onAbort } from '../internal/signals.js';
import type { Containers } from './driver-containers.js';

interface WaitBody {
  readonly StatusCode: number;
  readonly Error?: { readonly Message?: string } | null;
}

/**
 * Reads the answer of a wait.
 *
 * @returns the exit code; `undefined` when the answer does not tell: the connection ended (C41), or the engine's own
 *   wait failed (C40)
 */
export async function readWait(stream: Readable): Promise<number | undefined> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of stream) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as WaitBody;
    return (body.Error?.Message ?? '') === '' ? body.StatusCode : undefined;
  } catch {
    return undefined;
  }
}

/**
 * A wait that was opened before the start, so that no exit is too quick for it (C39). Everybody who waits shares it. It
 * is let go when the last of those who waited has left: an open connection would keep the process alive.
 */
export class NextExit {
  readonly #controller: AbortController;
  readonly #code: Promise<number | undefined>;
  #waiting = 0;

  private constructor(controller: AbortController, stream: Readable) {
    this.#controller = controller;
    this.#code = readWait(stream);
  }

  static async open(containers: Containers, id: string, call: Call): Promise<NextExit> {
    const controller = new AbortController();
    const dispose = onAbort(call.signal, (reason) => controller.abort(reason));
    try {
      const stream = await containers.openWait(id, 'next-exit', { signal: controller.signal });
      return new NextExit(controller, stream);
    } finally {
      dispose();
    }
  }

  /** @returns the exit code; `undefined` when it has to be looked for otherwise */
  async code(call: Call): Promise<number | undefined> {
    this.#waiting += 1;
    try {
      return await abortable(this.#code, call.signal);
    } finally {
      this.#waiting -= 1;
      if (this.#waiting === 0) this.close();
    }
  }

  close(): void {
    this.#controller.abort(new Error('nobody waits any more'));
  }
}
