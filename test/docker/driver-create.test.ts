import { expect, it } from 'vitest';
import { afterCall, bench, failure } from './driver-bench.js';

const REASON = new Error('called off');
const CREATE = { method: 'POST', path: /^\/containers\/create/ } as const;
const REMOVE = { method: 'DELETE', path: /^\/containers\// } as const;

it('S48 DP-4 an image that went between pull and create is verified once, then it works', async () => {
  const b = await bench();
  b.engine.fault(CREATE, { status: 404, message: 'No such image: app:v1' });
  await b.driver.prestart(b.ask('a'));
  expect([b.leases.verified, b.engine.containers.length]).toEqual([['app:v1'], 1]);
});

it('S48 DP-4 gone again after that, the real cause is told and all is released', async () => {
  const b = await bench();
  b.engine.fault({ ...CREATE, times: 2 }, { status: 404, message: 'No such image: app:v1' });
  const error = await failure(b.driver.prestart(b.ask('a')));
  expect(error).toMatchObject({ code: 'ERR_DRIVER', details: { status: 404 } });
  expect(error.message).toContain('No such image: app:v1');
  expect([b.leases.verified, b.leases.held]).toEqual([['app:v1'], new Set()]);
});

it('DP-4 what verify() says is the cause', async () => {
  const b = await bench();
  b.leases.onVerify = () => {
    throw REASON;
  };
  b.engine.fault(CREATE, { status: 404, message: 'No such image: app:v1' });
  await expect(b.driver.prestart(b.ask('a'))).rejects.toBe(REASON);
  expect(b.leases.held).toEqual(new Set());
});

it('another 404 is not taken for a missing image', async () => {
  const b = await bench();
  b.engine.fault(CREATE, { status: 404, message: 'page not found' });
  expect(await failure(b.driver.prestart(b.ask('a')))).toMatchObject({ code: 'ERR_DRIVER' });
  expect(b.leases.verified).toEqual([]);
});

it('DP-3 a refusal releases the image, and its words are told', async () => {
  const b = await bench();
  b.engine.fault(CREATE, { status: 400, message: 'invalid mount config' });
  const error = await failure(b.driver.prestart(b.ask('a')));
  expect(error.message).toContain('invalid mount config');
  expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
});

it('G-8 an answer that was lost: the same container is found under its name', async () => {
  const b = await bench();
  b.engine.fault(CREATE, { lose: 'answer' });
  const { containerId } = await b.driver.prestart(b.ask('a'));
  expect(b.engine.containers.map((c) => c.id)).toEqual([containerId]);
});

it('G-8 a request that was lost is sent again', async () => {
  const b = await bench();
  b.engine.fault(CREATE, { lose: 'request' });
  await b.driver.prestart(b.ask('a'));
  expect(b.engine.containers).toHaveLength(1);
});

it('DP-1 a create that hangs and lands late does not leave a second container', async () => {
  const b = await bench();
  b.engine.fault(CREATE, { silence: 'answer' });
  const prestart = b.driver.prestart(b.ask('a'));
  await afterCall(b, /containers\/create/, '60s');
  const { containerId } = await prestart;
  expect(b.engine.containers.map((c) => c.id)).toEqual([containerId]);
});

it('DP-1 lost twice: refused as unknown, and what landed is swept away', async () => {
  const b = await bench();
  b.engine.fault(CREATE, { lose: 'answer' });
  b.engine.fault(CREATE, { lose: 'request' });
  const error = await failure(b.driver.prestart(b.ask('a')));
  expect(error).toMatchObject({ code: 'ERR_DRIVER', retryable: true, details: { kind: 'lost' } });
  expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
});

it('G-8 an answer that is not JSON counts as lost', async () => {
  const b = await bench();
  b.engine.fault(CREATE, { garbage: '<html>' });
  await b.driver.prestart(b.ask('a'));
  expect(b.engine.containers).toHaveLength(1);
});

it('case C43 S46 our name held by a stranger is a typed conflict, and the stranger is untouched', async () => {
  const b = await bench();
  await b.driver.prestart(b.ask('a'));
  const { name } = b.engine.containers[0]!;
  b.engine.remove(name);
  const stranger = b.engine.create(name, { Image: 'app:v1' });
  const error = await failure(b.again().prestart(b.ask('a')));
  expect(error).toMatchObject({ code: 'ERR_NAME_TAKEN', details: { name, by: stranger.id.slice(0, 12) } });
  expect(b.engine.containers).toEqual([stranger]);
  expect(b.leases.held).toEqual(new Set());
});

it('case C43 S46 our name held by our own earlier attempt is adopted', async () => {
  const b = await bench();
  const { containerId } = await b.driver.prestart(b.ask('a'));
  b.engine.fault({ method: 'GET', path: /^\/containers\/json/ }, { garbage: '[]' });
  const adopted = await b.again().prestart(b.ask('a'));
  expect(adopted.containerId).toBe(containerId);
});

it('our name held by our own container that runs is refused, untouched', async () => {
  const b = await bench();
  const prepared = await b.driver.prestart(b.ask('a'));
  b.engine.startContainer(prepared.containerId);
  b.engine.fault({ method: 'GET', path: /^\/containers\/json/ }, { garbage: '[]' });
  const error = await failure(b.again().prestart(b.ask('a')));
  expect(error).toMatchObject({ details: { operation: 'prestart', containerId: prepared.containerId } });
  expect(b.engine.running()).toHaveLength(1);
});

it('S44 two callers at the same time share one create', async () => {
  const b = await bench();
  const [one, two] = await Promise.all([b.driver.prestart(b.ask('a')), b.driver.prestart(b.ask('a'))]);
  expect(one).toBe(two);
  expect(b.calls().filter((call) => call.includes('/create'))).toHaveLength(1);
});

it('DP-3 an abort while it is on its way is obeyed when its outcome is known, and leaves nothing', async () => {
  const b = await bench();
  const controller = new AbortController();
  b.engine.fault(CREATE, { delay: 20 });
  const prestart = b.driver.prestart(b.ask('a', {}, { signal: controller.signal }));
  await b.engine.called(/containers\/create/);
  controller.abort(REASON);
  await expect(prestart).rejects.toBe(REASON);
  expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
});

it('DP-3 an abort during the pull makes no container', async () => {
  const b = await bench();
  const controller = new AbortController();
  b.engine.fault({ path: /^\/images\/create/ }, { silence: 'request' });
  const prestart = b.driver.prestart(b.ask('a', {}, { signal: controller.signal }));
  await b.engine.called(/images\/create/);
  controller.abort(REASON);
  await expect(prestart).rejects.toBe(REASON);
  expect(b.calls().some((call) => call.includes('containers/create'))).toBe(false);
  expect(b.leases.held).toEqual(new Set());
});

it('DP-1 an undo that the engine refuses is told, and done with the next prestart', async () => {
  const b = await bench();
  const controller = new AbortController();
  b.engine.fault(CREATE, { delay: 20 });
  b.engine.fault({ ...REMOVE, times: 1 }, { status: 400, message: 'not now' });
  const prestart = b.driver.prestart(b.ask('a', {}, { signal: controller.signal }));
  await b.engine.called(/containers\/create/);
  controller.abort(REASON);
  await expect(prestart).rejects.toBe(REASON);
  expect([b.engine.containers.length, b.warnings]).toEqual([1, ['undo-failed']]);
  await b.driver.prestart(b.ask('b'));
  await b.engine.called(/DELETE \/containers/, 2);
  expect(b.engine.containers.map((c) => c.labels['handover.alloc'])).toEqual(['b']);
});
