import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import Docker from 'dockerode';
import { type Clock, systemClock } from 'handover';
import { FakeClock } from 'handover/testing';
import { afterEach, expect, it } from 'vitest';
import { Engine, type EngineRequest } from '../../src/docker/engine.js';
import { EngineFault } from '../../src/docker/engine-fault.js';
import type { DockerLike } from '../../src/docker/types.js';
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

/** A client that no engine takes the connection of, `times` times; then a working one. */
function refusing(times: number): { docker: DockerLike; tries: () => number } {
  const real = new Docker({ socketPath: server.socketPath });
  let tries = 0;
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { syscall: 'connect', code: 'ECONNREFUSED' });
  const dial: DockerLike['modem']['dial'] = (options, done) =>
    ++tries > times ? real.modem.dial(options as never, done) : done(refused, null);
  return { docker: { modem: { dial } }, tries: () => tries };
}

it('G-8 a refused connection is tried again with growing delays, then not-sent', async () => {
  server = await scriptedServer(json(200, {}));
  const clock = new FakeClock();
  const { docker, tries } = refusing(99);
  const fault = await clock.until(faultOf(new Engine(docker, clock).call(GET)));
  expect(fault).toMatchObject({ kind: 'not-sent', retryable: true });
  expect(tries()).toBe(5);
  expect(clock.now()).toBe(250 + 500 + 1000 + 2000);
  expect(clock.pending).toBe(0);
});

it('G-8 an engine that is back within the tries is called once', async () => {
  server = await scriptedServer(json(200, { back: true }));
  const clock = new FakeClock();
  const { docker } = refusing(2);
  const call = new Engine(docker, clock).call(GET);
  await clock.advance(750);
  expect((await call).body).toEqual({ back: true });
  expect(server.calls).toHaveLength(1);
});

it('G-4 an abort between the tries rejects with the very reason', async () => {
  server = await scriptedServer(json(200, {}));
  const clock = new FakeClock();
  const { docker, tries } = refusing(99);
  const controller = new AbortController();
  const call = new Engine(docker, clock).call(GET, { signal: controller.signal });
  await clock.advance(100);
  controller.abort('stop');
  await expect(call).rejects.toBe('stop');
  expect([tries(), clock.pending]).toEqual([1, 0]);
});

it.each(['no socket', 'a socket that nobody listens on'])('G-8 %s is not-sent', async (what) => {
  server = await scriptedServer(json(200, {}));
  const dead = join(mkdtempSync(join(tmpdir(), 'handover-dead-')), 'dead.sock');
  if (what !== 'no socket') writeFileSync(dead, '');
  const clock = { ...systemClock, timer: (ms: number, fire: () => void) => systemClock.timer(ms / 1_000, fire) };
  const engine = new Engine(new Docker({ socketPath: dead }), clock);
  expect(await faultOf(engine.call({ ...GET, deadline: Infinity }))).toMatchObject({ kind: 'not-sent' });
  rmSync(dirname(dead), { recursive: true });
});

const resetAtOnce: Answer = (response) => void response.socket?.destroy();
const resetInside: Answer = (response) => {
  response.writeHead(200, { 'content-length': '100' }).write('{"a":');
  setImmediate(() => response.socket?.destroy());
};
it.each([
  { when: 'before any answer', method: 'POST', answer: resetAtOnce, calls: 1 },
  { when: 'before any answer', method: 'DELETE', answer: resetAtOnce, calls: 1 },
  { when: 'before any answer', method: 'GET', answer: resetAtOnce, calls: 2 },
  { when: 'in the middle of the answer', method: 'GET', answer: resetInside, calls: 1 },
] as const)('case C8 a socket that is reset $when of a $method: fate unknown', async ({ method, answer, calls }) => {
  const engine = await start(answer);
  const fault = await faultOf(engine.call({ ...GET, method }));
  expect(fault).toMatchObject({ kind: 'lost', retryable: true });
  expect(server.calls).toHaveLength(calls);
});

/** A client with one kept connection, which the server closes at the very moment it is used again. */
async function closing(): Promise<Engine> {
  server = await scriptedServer((response, request) => {
    const used = (uses.get(request.socket) ?? 0) + 1;
    uses.set(request.socket, used);
    if (used > 1) request.socket.destroy();
    else void json(200, { fine: true })(response, request);
  });
  const uses = new WeakMap<object, number>();
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  // The type of the client's options has no `agent` next to a path of a socket.
  return new Engine(new Docker({ socketPath: server.socketPath, agent } as Docker.DockerOptions), systemClock);
}

it('G-8 a GET on a kept connection that the engine closes is asked once more, at once', async () => {
  const engine = await closing();
  await engine.call(GET);
  expect((await engine.call(GET)).body).toEqual({ fine: true });
  expect(server.calls).toEqual(['GET /thing', 'GET /thing', 'GET /thing']);
});

it.each(['POST', 'DELETE'] as const)('G-8 a %s on such a connection is not: it may have been done', async (method) => {
  const engine = await closing();
  await engine.call(GET);
  expect(await faultOf(engine.call({ ...GET, method }))).toMatchObject({ kind: 'lost' });
  expect(server.calls).toEqual(['GET /thing', `${method} /thing`]);
});

it('G-4 an abort while a GET is under way is no lost connection: it is not asked again', async () => {
  const controller = new AbortController();
  const engine = await start(() => controller.abort('stop'));
  await expect(engine.call(GET, { signal: controller.signal })).rejects.toBe('stop');
  await server.idle();
  expect(server.calls).toHaveLength(1);
});

it('S12 a client that throws at once rejects; the next call works', async () => {
  server = await scriptedServer(json(200, { fine: true }));
  const real = new Docker({ socketPath: server.socketPath });
  let broken = true;
  const docker = {
    modem: {
      dial: (options: object, done: (error: unknown, data: unknown) => void) => {
        if (broken) throw new Error('broken client');
        real.modem.dial(options as never, done);
      },
    },
  };
  const engine = new Engine(docker, systemClock);
  await expect(engine.call(GET)).rejects.toThrow('broken client');
  broken = false;
  expect((await engine.call(GET)).body).toEqual({ fine: true });
});

it('G-2 something that is no client is refused by name', async () => {
  server = await scriptedServer(json(200, {}));
  expect(() => new Engine(undefined as never, systemClock)).toThrow(/Option docker:/);
  expect(() => new Engine({ modem: {} } as never, systemClock)).toThrow(/docker\.modem: has no method dial/);
});
