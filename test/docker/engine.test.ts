import { getEventListeners, once } from 'node:events';
import { text } from 'node:stream/consumers';
import Docker from 'dockerode';
import { type Clock, isHandoverError, systemClock } from 'handover';
import { FakeClock } from 'handover/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { Engine, type EngineRequest } from '../../src/docker/engine.js';
import { EngineFault } from '../../src/docker/engine-fault.js';
import { deferred } from '../../src/internal/deferred.js';
import { type Answer, json, scriptedServer, type ScriptedServer } from './scripted-server.js';

const GET: EngineRequest = { operation: 'look', method: 'GET', path: '/thing', accept: [200] };

let server: ScriptedServer;
afterEach(() => server.close());

async function start(answer: Answer, clock: Clock = systemClock): Promise<Engine> {
  server = await scriptedServer(answer);
  return new Engine(new Docker({ socketPath: server.socketPath }), clock);
}

async function faultOf(promise: Promise<unknown>): Promise<EngineFault> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(EngineFault);
  return error as EngineFault;
}

describe('what is sent', () => {
  it('query values as they are, objects as JSON; the request is not changed', async () => {
    const engine = await start(json(200, {}));
    const request = Object.freeze({
      ...GET,
      query: Object.freeze({ all: true, n: 0, name: 'a b', filters: Object.freeze({ label: ['x=y'] }) }),
    });
    await engine.call(request);
    await engine.call(request);
    const query = 'all=true&n=0&name=a%20b&filters=%7B%22label%22%3A%5B%22x%3Dy%22%5D%7D';
    expect(server.calls).toEqual([`GET /thing?${query}`, `GET /thing?${query}`]);
  });

  it.each([
    { body: { Image: 'x' }, query: { name: 'n' }, sent: '{"Image":"x"}' },
    { body: undefined, query: { name: 'n' }, sent: '' },
    { body: undefined, query: undefined, sent: '' },
  ])('POST with body $body and query $query sends the body "$sent"', async ({ body, query, sent }) => {
    const engine = await start(json(201, {}));
    await engine.call({ ...GET, method: 'POST', accept: [201], ...(body && { body }), ...(query && { query }) });
    expect(server.bodies).toEqual([sent]);
  });
});

describe('answers', () => {
  it.each([
    { status: 200, body: { a: 1 }, expected: { a: 1 } },
    { status: 204, body: undefined, expected: undefined },
    { status: 304, body: undefined, expected: undefined },
    { status: 404, body: { message: 'no such thing' }, expected: { message: 'no such thing' } },
  ])('G-8 status $status is an answer when it is accepted', async ({ status, body, expected }) => {
    const engine = await start(json(status, body));
    expect(await engine.call({ ...GET, accept: [status] })).toEqual({ status, body: expected });
  });

  it.each([304, 400, 404, 409, 500])('G-8 status %i rejects when it is not accepted', async (status) => {
    const engine = await start(json(status, status === 304 ? undefined : { message: 'the words' }));
    const fault = await faultOf(engine.call(GET));
    expect(fault).toMatchObject({ kind: 'status', status, retryable: status >= 500 });
    if (status !== 304) expect(fault.message).toContain('the words');
    expect(isHandoverError(fault, 'ERR_DRIVER')).toBe(true);
  });

  it('case C4 a page instead of JSON is a fault with its text, not a crash', async () => {
    const engine = await start((response) => void response.writeHead(502).end('<html>502 Bad Gateway</html>'));
    expect(await faultOf(engine.call(GET))).toMatchObject({ kind: 'status', text: '<html>502 Bad Gateway</html>' });
  });

  it('case C4 an accepted answer that is not JSON leaves the outcome unknown', async () => {
    const engine = await start((response) => void response.end('<html>hello</html>'));
    expect(await faultOf(engine.call(GET))).toMatchObject({ kind: 'lost' });
  });
});

describe('ends from our side', () => {
  /** Never answers; or sends the start of an answer and then nothing. */
  const silent: Answer = () => undefined;
  const silentAfterHeaders: Answer = (response) => void response.writeHead(200).write('{"a":1');

  it.each([
    { when: 'no answer', answer: silent },
    { when: 'half an answer', answer: silentAfterHeaders },
  ])('case C65 an abort during $when rejects with the very reason and ends the socket', async ({ answer }) => {
    const arrived = deferred();
    const engine = await start((response, request) => {
      arrived.resolve();
      return answer(response, request);
    });
    const reason = new Error('changed my mind');
    const controller = new AbortController();
    const call = engine.call(GET, { signal: controller.signal });
    await arrived.promise;
    controller.abort(reason);
    await expect(call).rejects.toBe(reason);
    await server.idle();
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  });

  it('G-4 aborted before it began: nothing is sent', async () => {
    const engine = await start(json(200, {}));
    const reason = new Error('too early');
    await expect(engine.call(GET, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(server.calls).toEqual([]);
  });

  it('G-8 the deadline ends the call as late, and its socket', async () => {
    const clock = new FakeClock();
    const arrived = deferred();
    const engine = await start(() => arrived.resolve(), clock);
    const call = faultOf(engine.call({ ...GET, deadline: 5_000 }));
    await arrived.promise;
    await clock.advance(4_999);
    expect(server.sockets).toBe(1);
    await clock.advance(1);
    expect(await call).toMatchObject({ kind: 'late', retryable: true });
    expect((await call).message).toContain('5s');
    await server.idle();
    expect(clock.pending).toBe(0);
  });

  it('IC-8 no timeout of the client cuts a call, and the client keeps it', async () => {
    server = await scriptedServer(async (response, request) => {
      // Real time: the client's own timer is the real one.
      await new Promise((resolve) => setTimeout(resolve, 120));
      await json(200, { slow: true })(response, request);
    });
    const docker = new Docker({ socketPath: server.socketPath, timeout: 30 });
    Object.assign(docker.modem, { connectionTimeout: 30 });
    const engine = new Engine(docker, systemClock);
    expect((await engine.call(GET)).body).toEqual({ slow: true });
    expect((docker.modem as { timeout?: number }).timeout).toBe(30);
  });
});

describe('streams', () => {
  it('gives the bytes as they come, to the end', async () => {
    const more = deferred();
    const engine = await start(async (response) => {
      response.writeHead(200).write('first');
      await more.promise;
      response.end('second');
    });
    const body = await engine.stream(GET);
    const [first] = (await once(body, 'data')) as [Buffer];
    expect(first.toString()).toBe('first');
    more.resolve();
    expect(await text(body)).toBe('second');
  });

  it('G-8 a refused stream rejects with its status', async () => {
    const engine = await start(json(404, { message: 'gone' }));
    expect(await faultOf(engine.stream(GET))).toMatchObject({ kind: 'status', status: 404, text: 'gone' });
  });

  it('IC-8 the deadline ends when the stream opens', async () => {
    const clock = new FakeClock();
    const more = deferred();
    const engine = await start(async (response) => {
      response.writeHead(200).write('a');
      await more.promise;
      response.end('b');
    }, clock);
    const body = await engine.stream(GET);
    expect(clock.pending).toBe(0);
    await clock.advance('1d');
    more.resolve();
    expect(await text(body)).toBe('ab');
  });

  it('case C8 a reset in the middle fails the body, also when nobody reads it yet', async () => {
    const engine = await start((response) => {
      response.writeHead(200).write('a');
      setImmediate(() => response.socket?.destroy());
    });
    const body = await engine.stream(GET);
    await new Promise((closed) => body.once('close', closed));
    expect(await faultOf(text(body))).toMatchObject({ kind: 'lost' });
  });

  it('case C65 an abort while the body is read fails it with the very reason and ends the socket', async () => {
    const engine = await start((response) => void response.writeHead(200).write('a'));
    const controller = new AbortController();
    const body = await engine.stream(GET, { signal: controller.signal });
    const read = text(body);
    const reason = new Error('enough');
    controller.abort(reason);
    await expect(read).rejects.toBe(reason);
    await server.idle();
  });

  it('G-4 who stops reading ends the socket, and nothing stays on the signal', async () => {
    const engine = await start((response) => void response.writeHead(200).write('a'));
    const { signal } = new AbortController();
    const body = await engine.stream(GET, { signal });
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    for await (const _chunk of body) break;
    await server.idle();
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });
});
