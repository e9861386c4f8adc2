import http, { type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http';
import https from 'node:https';
import { PassThrough } from 'node:stream';
import { deferred } from '../internal/deferred.js';
import { onAbort } from '../internal/signals.js';

/** Compressed on its way, content would be other bytes, of another length, than what the reference means. */
const ALWAYS: OutgoingHttpHeaders = { 'accept-encoding': 'identity', 'user-agent': 'handover' };

/** How much of a body may wait for a slow disk, bytes. */
const BUFFERED = 1 << 20;

/** An answer to a request. */
export interface Answer {
  readonly status: number;
  /** The words that go with the status. */
  readonly phrase: string;
  readonly headers: IncomingHttpHeaders;
  /** Ends, or throws what has cut it, after all that had come. */
  readonly body: AsyncIterable<Buffer>;
}

/**
 * Asks for a URL once, and hands the answer to `use`. Node's own client is used without an agent: it has no time-outs
 * that could cut a slow body (IC-8), and no connection outlives the call.
 *
 * @param signal - abort ends the connection, and the call with whatever error that is
 * @throws system errors as they come
 */
export async function exchange<T>(
  url: URL,
  headers: OutgoingHttpHeaders,
  signal: AbortSignal | undefined,
  use: (answer: Answer) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const { get } = url.protocol === 'https:' ? https : http;
  const request = get(url, { agent: false, headers: { ...ALWAYS, ...headers } });
  const answer = answerTo(request);
  const dispose = onAbort(signal, () => request.destroy());
  try {
    return await use(await answer);
  } finally {
    dispose();
    request.destroy();
  }
}

/** Whoever reads an answer of Node itself loses, when it is cut, what has come and was not read yet. */
function answerTo(request: http.ClientRequest): Promise<Answer> {
  const answer = deferred<Answer>();
  const body = new PassThrough({ highWaterMark: BUFFERED });
  const cut: unknown[] = [];
  const fail = (error: unknown): void => {
    cut.push(error);
    body.end();
    answer.reject(error);
  };
  request.on('error', fail).on('response', (response) => {
    const { statusCode = 0, statusMessage = '', headers } = response;
    response.on('error', fail).pipe(body);
    answer.resolve({ status: statusCode, phrase: statusMessage, headers, body: toTheEnd(body, cut) });
  });
  return answer.promise;
}

/** The first error says more: whatever it is, Node adds that the answer was cut. */
async function* toTheEnd(body: PassThrough, cut: readonly unknown[]): AsyncGenerator<Buffer> {
  yield* body as AsyncIterable<Buffer>;
  if (cut.length > 0) throw cut[0];
}
