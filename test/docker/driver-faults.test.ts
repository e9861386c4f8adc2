import type { DockerSpec } from 'handover/docker';
import { describe, expect, it } from 'vitest';
import { afterCall, bench, failure, moving } from './driver-bench.js';

const REASON = new Error('called off');
const CREATE = { method: 'POST', path: /^\/containers\/create/ } as const;
const START = { method: 'POST', path: /\/start$/ } as const;
const REMOVE = { method: 'DELETE', path: /^\/containers\// } as const;
const INSPECT = { method: 'GET', path: /^\/containers\/[^/]+\/json/ } as const;

describe('create', () => {
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
});

describe('start', () => {
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
    b.engine.fault({ ...INSPECT, times: 3 }, { lose: 'request' });
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
});

describe('remove', () => {
  it('case C34 somebody else is removing it: waited for until it is gone', async () => {
    const b = await bench();
    const prepared = await b.driver.prestart(b.ask('a'));
    b.engine.containers[0]!.state = 'removing';
    const discard = prepared.discard();
    await afterCall(b, /GET \/containers\/[^/]+\/json/, 0, 1);
    b.engine.remove(prepared.containerId);
    await moving(b, discard);
    expect(b.leases.held).toEqual(new Set());
  });

  it('case C34 that wait is bounded, and the image stays leased', async () => {
    const b = await bench();
    const prepared = await b.driver.prestart(b.ask('a'));
    b.engine.containers[0]!.state = 'removing';
    const error = await failure(moving(b, prepared.discard()));
    expect(error).toMatchObject({ code: 'ERR_DRIVER', details: { status: 409 } });
    expect(b.leases.held.size).toBe(1);
    b.engine.containers[0]!.state = 'exited';
    await prepared.discard();
    expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
  });

  it.each([{ lose: 'answer' }, { lose: 'request' }, { status: 500, message: 'device or resource busy' }] as const)(
    'G-8 %j is tried again',
    async (fault) => {
      const b = await bench();
      const prepared = await b.driver.prestart(b.ask('a'));
      b.engine.fault(REMOVE, fault);
      await moving(b, prepared.discard());
      expect(b.engine.containers).toEqual([]);
    },
  );

  it('destroy refuses what runs, and keeps its image', async () => {
    const b = await bench();
    const handle = await b.driver.start(await b.driver.prestart(b.ask('a')), {});
    expect(await failure(handle.destroy())).toMatchObject({ code: 'ERR_DRIVER', details: { status: 409 } });
    expect([b.engine.running().length, b.leases.held.size]).toEqual([1, 1]);
  });
});
