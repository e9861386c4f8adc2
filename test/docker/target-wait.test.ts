import { getEventListeners } from 'node:events';
import { dockerTarget } from 'handover/docker';
import { expect, it } from 'vitest';
import { bench, moving } from './driver-bench.js';
import { started, stranger } from './target-bench.js';

const REASON = new Error('called off');
const WAIT = { method: 'POST', path: /\/wait/ } as const;
const INSPECT = { method: 'GET', path: /^\/containers\/[^/]+\/json/ } as const;

it('DP-9 an exit of its own', async () => {
  const b = await bench();
  const handle = await started(b);
  const wait = handle.wait({});
  b.engine.exit(handle.state.containerId, 3);
  expect(await wait).toEqual({ code: 3, signal: null, oom: false, by: 'self', at: b.clock.wall() });
});

it('DP-9 out of memory', async () => {
  const b = await bench();
  const handle = await started(b);
  b.engine.exit(handle.state.containerId, 137, { oom: true });
  expect(await handle.wait({})).toMatchObject({ oom: true, by: 'self', signal: 'SIGKILL' });
});

it('case C39 a quick exit is not missed', async () => {
  const b = await bench();
  const create = { Env: ['EXIT_AFTER_MS=0', 'EXIT_CODE=5'] };
  const handle = await b.driver.start(await b.driver.prestart(b.ask('a', { create })), {});
  expect(await handle.wait({})).toMatchObject({ code: 5, by: 'self' });
  await handle.destroy();
  expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
});

it('G-4 a wait that was called off before it began lets go of the connection too', async () => {
  const b = await bench();
  const handle = await started(b);
  await expect(handle.wait({ signal: AbortSignal.abort('let go') })).rejects.toBe('let go');
  await b.engine.idle();
  expect(b.engine.running()).toHaveLength(1);
});

it('DP-8 a restart by hand is no end: it is waited for again, on the same container', async () => {
  const b = await bench();
  const handle = await started(b);
  const wait = handle.wait({});
  b.engine.restart(handle.state.containerId);
  await b.engine.called(/condition=not-running/);
  expect(await handle.isRunning({})).toBe(true);
  await b.docker.getContainer(handle.state.containerId).restart();
  await b.engine.called(/condition=not-running/, 2);
  b.engine.exit(handle.state.containerId, 3);
  expect(await wait).toMatchObject({ code: 3, by: 'self' });
  expect(b.clock.pending).toBe(0);
});

it.each(['started again already', 'waiting for that'])(
  'DP-8 nor is one by a restart policy that somebody gave it, %s',
  async (moment) => {
    const b = await bench();
    const handle = await started(b);
    const wait = handle.wait({});
    const { containerId } = handle.state;
    await b.docker.getContainer(containerId).update({ RestartPolicy: { Name: 'always' } });
    if (moment === 'started again already') b.engine.fault(INSPECT, { delay: 200 });
    b.engine.exit(containerId, 1);
    await b.engine.called(/condition=not-running/);
    await handle.disarm!({});
    await handle.signal('SIGTERM', {});
    expect(await wait).toMatchObject({ by: 'signal' });
    expect(b.engine.containers[0]?.state).toBe('exited');
  },
);

it('DP-8 an exit that no look confirms is looked at until one does', async () => {
  const b = await bench();
  const handle = await started(b);
  const wait = handle.wait({});
  b.engine.fault({ ...INSPECT, times: 5 }, { status: 500, message: 'context deadline exceeded' });
  b.engine.exit(handle.state.containerId, 9);
  expect(await moving(b, wait)).toMatchObject({ code: 9, by: 'self' });
});

it('DP-9 one that its own --rm took away keeps the code that was seen', async () => {
  const { engine, docker, clock } = await stranger({ AutoRemove: true });
  const wait = dockerTarget(docker, 'db', {}, { clock }).wait({});
  await engine.called(/condition=not-running/);
  engine.exit('db', 4);
  expect(await wait).toMatchObject({ code: 4, by: 'self' });
});

it('case C41 a wait whose connection broke goes on with a look and a new wait', async () => {
  const b = await bench();
  const handle = await started(b);
  const wait = handle.wait({});
  b.calls();
  b.engine.disconnect();
  await b.engine.called(/condition=not-running/);
  b.engine.exit(handle.state.containerId, 4);
  expect(await wait).toMatchObject({ code: 4, by: 'self' });
  const look = 'GET /containers/a/json';
  expect(b.calls()).toEqual([look, 'POST /containers/a/wait?condition=not-running', look]);
});

it('case C41 case C58 an exit while the engine was away is found by a look: no stream of events is trusted', async () => {
  const b = await bench();
  const handle = await started(b);
  const wait = handle.wait({});
  await b.engine.down();
  b.engine.exit(handle.state.containerId, 137);
  await b.clock.advance('20s');
  await b.engine.up();
  expect(await moving(b, wait)).toMatchObject({ code: 137, signal: null, by: 'unknown' });
});

it('G-8 looks that the engine fails are repeated for as long as somebody waits', async () => {
  const b = await bench();
  const handle = await started(b);
  b.engine.fault({ ...INSPECT, times: 10 }, { status: 500, message: 'context deadline exceeded' });
  const wait = handle.wait({});
  b.engine.disconnect();
  b.engine.exit(handle.state.containerId, 8);
  expect(await moving(b, wait)).toMatchObject({ code: 8 });
});

it('case C39 gone without a trace: the code is unknown, and says so', async () => {
  const b = await bench();
  const handle = await started(b);
  await b.engine.down();
  b.engine.remove(handle.state.containerId);
  await b.engine.up();
  expect(await handle.wait({})).toMatchObject({ code: null, signal: null, by: 'unknown' });
});

it.each(['{"StatusCode":0,"Error":{"Message":"driver failed"}}', '', '<html>'])(
  'case C40 a wait that answers %j tells nothing: looked at again',
  async (garbage) => {
    const b = await bench();
    b.engine.fault(WAIT, { garbage });
    const handle = await started(b);
    const wait = handle.wait({});
    await b.engine.called(/condition=not-running/);
    b.engine.exit(handle.state.containerId, 6);
    expect(await wait).toMatchObject({ code: 6 });
  },
);

it('G-4 one that leaves does not end the wait of another, and nothing stays on its signal', async () => {
  const b = await bench();
  const handle = await started(b);
  const controller = new AbortController();
  const first = handle.wait({ signal: controller.signal });
  const second = handle.wait({});
  controller.abort(REASON);
  await expect(first).rejects.toBe(REASON);
  b.engine.exit(handle.state.containerId, 0);
  expect(await second).toMatchObject({ code: 0 });
  expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  expect(b.clock.pending).toBe(0);
});

it('G-4 when the last one leaves the connection is let go; a later wait looks first', async () => {
  const b = await bench();
  const handle = await started(b);
  const controller = new AbortController();
  const first = handle.wait({ signal: controller.signal });
  controller.abort(REASON);
  await expect(first).rejects.toBe(REASON);
  await b.engine.idle();
  b.engine.exit(handle.state.containerId, 7);
  b.calls();
  expect(await handle.wait({})).toMatchObject({ code: 7 });
  expect(b.calls()).toEqual(['GET /containers/a/json']);
});

it('G-4 a wait between two looks can be called off', async () => {
  const b = await bench();
  const handle = await started(b);
  const controller = new AbortController();
  await b.engine.down();
  const wait = handle.wait({ signal: controller.signal });
  await b.clock.advance('30s');
  controller.abort(REASON);
  await expect(wait).rejects.toBe(REASON);
  expect(b.clock.pending).toBe(0);
});

it('a container that never ran has no exit that anybody knows', async () => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a'));
  const target = dockerTarget(b.docker, prepared.containerId, {}, { clock: b.clock });
  expect(await target.wait({})).toMatchObject({ code: null, by: 'unknown' });
});
