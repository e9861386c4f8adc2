import type { DockerSpec } from 'handover/docker';
import { expect, it } from 'vitest';
import { bench, failure, moving } from './driver-bench.js';

const REASON = new Error('called off');
const START = { method: 'POST', path: /\/start$/ } as const;
const INSPECT = { method: 'GET', path: /^\/containers\/[^/]+\/json/ } as const;

it.each([
  [500, 'driver failed programming external connectivity: Bind for 0.0.0.0:8080 failed: port is already allocated'],
  [400, 'OCI runtime create failed: exec: "/bin/nope": stat /bin/nope: no such file or directory'],
])('S49 a start that fails with %i tells why, and can be discarded', async (status, message) => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a'));
  b.engine.fault(START, { status, message });
  const error = await failure(b.driver.start(prepared, {}));
  expect(error).toMatchObject({
    code: 'ERR_START_FAILED',
    retryable: false,
    details: { allocId: 'a', task: 'web' },
  });
  expect(error.message).toContain(message);
  await b.engine.idle();
  expect(await prepared.intact({})).toBe(true);
  await prepared.discard();
  expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
});

it('S49 a host port that another container has fails the start only', async () => {
  const b = await bench();
  const spec: Partial<DockerSpec> = { ports: { http: { container: 8080, host: 8080 } } };
  await b.driver.start(await b.driver.prestart(b.ask('a', spec)), {});
  const next = await b.driver.prestart(b.ask('b', spec));
  expect(await failure(b.driver.start(next, {}))).toMatchObject({
    code: 'ERR_START_FAILED',
    message: expect.stringContaining('port is already allocated') as string,
  });
});

it.each(['answer', 'request'] as const)('G-8 a start whose %s was lost runs once', async (lose) => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a'));
  b.engine.fault(START, { lose });
  const handle = await b.driver.start(prepared, {});
  expect(await handle.isRunning({})).toBe(true);
  expect(b.calls().filter((call) => call.includes('/start'))).toHaveLength(lose === 'answer' ? 1 : 2);
});

it('G-8 a start that was lost, of a task that has ended meanwhile, is not repeated', async () => {
  const b = await bench();
  const create = { Env: ['EXIT_AFTER_MS=0', 'EXIT_CODE=3'] };
  const prepared = await b.driver.prestart(b.ask('a', { create }));
  b.engine.fault(START, { lose: 'answer' });
  b.engine.fault(INSPECT, { delay: 20 });
  const handle = await b.driver.start(prepared, {});
  expect(await handle.wait({})).toMatchObject({ code: 3, by: 'self' });
  expect(b.calls().filter((call) => call.includes('/start'))).toHaveLength(1);
});

it('DP-1 after a start of unknown fate, discard removes what runs', async () => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a'));
  b.engine.fault(START, { lose: 'answer' });
  b.engine.fault({ ...INSPECT, times: 6 }, { lose: 'request' });
  const start = b.driver.start(prepared, {});
  expect(await failure(moving(b, start))).toMatchObject({
    code: 'ERR_START_FAILED',
    retryable: true,
  });
  expect(b.engine.running()).toHaveLength(1);
  await prepared.discard();
  expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
});

it('DP-9 a start of what runs already is a success', async () => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a'));
  b.engine.startContainer(prepared.containerId);
  expect(await (await b.driver.start(prepared, {})).isRunning({})).toBe(true);
});

it('AL-3 a prepared container that was pruned is not intact, cannot be started, can be discarded', async () => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a'));
  expect(await prepared.intact({})).toBe(true);
  b.engine.remove(prepared.containerId);
  expect(await prepared.intact({})).toBe(false);
  expect(await failure(b.driver.start(prepared, {}))).toMatchObject({ code: 'ERR_START_FAILED' });
  await prepared.discard();
  expect(b.leases.held).toEqual(new Set());
});

it('G-4 an abort while it is on its way kills what was started, and discard removes it', async () => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a'));
  const controller = new AbortController();
  b.engine.fault(START, { delay: 20 });
  const start = b.driver.start(prepared, { signal: controller.signal });
  await b.engine.called(/\/start$/);
  controller.abort(REASON);
  await expect(start).rejects.toBe(REASON);
  expect(b.engine.running()).toEqual([]);
  await prepared.discard();
  expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
});

it('G-4 an abort of a start that was lost is not followed by another start', async () => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a'));
  const controller = new AbortController();
  b.engine.fault(START, { silence: 'request' });
  const start = failure(b.driver.start(prepared, { signal: controller.signal }));
  await b.engine.called(/\/start$/);
  controller.abort(REASON);
  await b.clock.advance('60s');
  expect(await start).toBe(REASON);
  expect(b.calls().filter((call) => call.includes('/start'))).toHaveLength(1);
});

it('DP-1 a discard waits for the start in flight, and is a no-op once it has resolved', async () => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a'));
  b.engine.fault(START, { delay: 20 });
  const start = b.driver.start(prepared, {});
  await b.engine.called(/\/start$/);
  await prepared.discard();
  expect(await (await start).isRunning({})).toBe(true);
  expect(b.leases.held.size).toBe(1);
});
