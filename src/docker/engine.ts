import type { IncomingMessage } from 'node:http';
import { finished, PassThrough, type Readable } from 'node:stream';
import type { Call } from '../call.js';
import type { Clock } from '../clock.js';
import { formatDuration } from '../duration.js';
import { requireMethods } from '../env.js';
import { invalidOption } from '../errors.js';
import { backoff, type BackoffOptions } from '../internal/backoff.js';
import { onAbort, sleep, withDeadline } from '../internal/signals.js';
import { EngineFault, isEngineFault } from './engine-fault.js';
import type { DockerLike } from './types.js';

/** One call of the engine's HTTP API. */
export interface EngineRequest {
  /** What is being done, for messages: completes "cannot …", as in `inspect image redis:7`. */
  readonly operation: string;
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Without the version prefix and without a query. */
  readonly path: string;
  /** Objects are sent as JSON. */
  readonly query?: Readonly<Record<string, string | number | boolean | object>>;
  readonly body?: object;
  /** Credentials for the registry that the engine will ask: the value of `X-Registry-Auth`. */
  readonly registryAuth?: string;
  /** The statuses that are answers; others reject. */
  readonly accept: readonly number[];
  /**
   * Milliseconds for the whole call, retries of the connection included; for a stream: until it opens. It must be
   * bigger than any grace the call carries; `Infinity` for what may take for ever. Default 60 s
   */
  readonly deadline?: number;
}

/** What the engine answered. */
export interface EngineAnswer<T> {
  readonly status: number;
  /** The parsed JSON; `undefined` when the answer was empty. */
  readonly body: T | undefined;
}

const DEADLINE_MS = 60_000;

/** A connection that was refused carried nothing: it is tried again while an engine restarts, for about 4 s (G-8). */
const CONNECT_TRIES = 5;
const CONNECT_BACKOFF: BackoffOptions = { first: 250, max: 2_000, jitter: 'none' };

/** The system calls in which a request fails before any of it is sent. */
const BEFORE_SENDING = new Set(['connect', 'getaddrinfo']);

/** The client turns a status that it is not told of into an error without its number; here every one is an answer. */
const EVERY_STATUS = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [i + 100, true]));

/** Enough of an engine's words to understand them; an intermediary may answer with a whole page. */
const MAX_TEXT = 500;

/**
 * Talks to a Docker engine through the embedder's client. Each call has its own deadline (G-8); an abort ends the
 * socket and rejects with the signal's own reason; no time limit of the client's cuts a call (IC-8).
 */
export class Engine {
  readonly #modem: DockerLike['modem'];
  readonly #clock: Clock;

  /** @throws HandoverError `ERR_INVALID_OPTION` for a client without `modem.dial` */
  constructor(docker: DockerLike, clock: Clock) {
    const modem = (docker as Partial<DockerLike> | undefined)?.modem;
    if (modem === undefined)
      throw invalidOption('docker', 'must be a Docker client, such as `new Docker()` of dockerode');
    requireMethods('docker.modem', modem, ['dial']);
    this.#modem = withoutTimeouts(modem);
    this.#clock = clock;
  }

  /**
   * One request, one JSON answer.
   *
   * @throws EngineFault; or the signal's reason, exactly
   */
  async call<T>(request: EngineRequest, call: Call = {}): Promise<EngineAnswer<T>> {
    return this.#bounded(request, call, async (signal) => {
      const response = await this.#open(request, signal);
      const text = await readText(response, request.operation, signal);
      return { status: response.statusCode ?? 0, body: parse(text, request.operation) as T | undefined };
    });
  }

  /**
   * Opens an answer that comes bit by bit; resolves with its body when the headers are there.
   *
   * The body ends, fails with an {@link EngineFault}, or fails with the signal's reason. Whoever does not read it to
   * its end destroys it.
   *
   * @throws EngineFault; or the signal's reason, exactly
   */
  async stream(request: EngineRequest, call: Call = {}): Promise<Readable> {
    const response = await this.#bounded(request, call, (signal) => this.#open(request, signal));
    const body = new PassThrough();
    const dispose = onAbort(call.signal, (reason) => body.destroy(reason as Error));
    // Who reads it is told; that nobody reads it yet must not end the process.
    body.on('error', () => undefined);
    body.once('close', () => {
      dispose();
      response.destroy();
    });
    finished(response, (cause) => {
      if (cause) body.destroy(lost(request.operation, cause));
    });
    response.pipe(body);
    return body;
  }

  #bounded<T>(request: EngineRequest, call: Call, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const ms = request.deadline ?? DEADLINE_MS;
    const late = (): EngineFault =>
      new EngineFault('late', request.operation, `it did not answer within ${formatDuration(ms)}`);
    return withDeadline(this.#clock, ms, call.signal, late, work);
  }

  /** The response of an accepted status, its body not read yet. */
  async #open(request: EngineRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const response = await this.#connect(request, signal);
    const status = response.statusCode ?? 0;
    if (request.accept.includes(status)) return response;
    const text = await readText(response, request.operation, signal);
    throw new EngineFault('status', request.operation, messageOf(text), { status });
  }

  async #connect(request: EngineRequest, signal: AbortSignal): Promise<IncomingMessage> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#ask(request, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (tries >= CONNECT_TRIES || !isEngineFault(error) || error.kind !== 'not-sent') throw error;
        await sleep(this.#clock, backoff(CONNECT_BACKOFF, tries, this.#clock), { signal });
      }
    }
  }

  /** An engine may close a kept connection just as it is used again: what only reads is asked once more, at once (G-8). */
  async #ask(request: EngineRequest, signal: AbortSignal): Promise<IncomingMessage> {
    try {
      return await this.#dial(request, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (request.method !== 'GET' || !isEngineFault(error) || error.kind !== 'lost') throw error;
      return this.#dial(request, signal);
    }
  }

  #dial(request: EngineRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const { operation, method, path, query, body, registryAuth } = request;
    return new Promise((resolve, reject) => {
      // Made anew for each call: the client changes what it is given. A `_body` of `{}` is sent as no body; without
      // one, the client would send the query as the body.
      const options = {
        method,
        path: query === undefined ? path : `${path}?`,
        options: { ...(query === undefined ? {} : { _query: query }), _body: body ?? {} },
        // With this key the client takes the value as it is; its own encoding would be a second one.
        ...(registryAuth !== undefined && { authconfig: { key: registryAuth } }),
        isStream: true,
        statusCodes: EVERY_STATUS,
        abortSignal: signal,
      };
      this.#modem.dial(options, (cause: NodeJS.ErrnoException | null, response: IncomingMessage | null) => {
        if (response === null || cause !== null) {
          reject(fault(operation, cause));
          return;
        }
        response.on('error', () => undefined);
        if (signal.aborted) response.destroy();
        resolve(response);
      });
    });
  }
}

/**
 * The same client without its own time limits: its `timeout` ends whatever is silent for a while, a slow pull as well
 * as a slow stop, and its `connectionTimeout` runs until the answer begins (IC-8). The embedder's object stays as it is.
 */
function withoutTimeouts(modem: DockerLike['modem']): DockerLike['modem'] {
  const limits = modem as { timeout?: unknown; connectionTimeout?: unknown };
  if (limits.timeout === undefined && limits.connectionTimeout === undefined) return modem;
  return Object.create(modem, {
    timeout: { value: undefined },
    connectionTimeout: { value: undefined },
  }) as DockerLike['modem'];
}

function fault(operation: string, cause: NodeJS.ErrnoException | null): EngineFault {
  if (cause === null) return new EngineFault('lost', operation, 'the client gave no answer');
  const sent = !BEFORE_SENDING.has(cause.syscall ?? '');
  return sent ? lost(operation, cause) : new EngineFault('not-sent', operation, cause.message, { cause });
}

function lost(operation: string, cause: Error): EngineFault {
  return new EngineFault('lost', operation, `the connection was lost (${cause.message})`, { cause });
}

async function readText(response: IncomingMessage, operation: string, signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = [];
  const dispose = onAbort(signal, () => response.destroy());
  try {
    for await (const chunk of response) chunks.push(chunk as Buffer);
  } catch (cause) {
    throw lost(operation, cause as Error);
  } finally {
    dispose();
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parse(text: string, operation: string): unknown {
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new EngineFault('lost', operation, `its answer is not JSON: ${text.slice(0, MAX_TEXT)}`, { cause });
  }
}

/** The engine's words: the `message` of its JSON, or whatever text there is. */
function messageOf(text: string): string {
  try {
    const { message } = JSON.parse(text) as { message?: unknown };
    if (typeof message === 'string') return message;
  } catch {
    // An answer from something between us and the engine, as a proxy's page.
  }
  return text.trim().slice(0, MAX_TEXT) || 'no reason given';
}
