import { getEventListeners } from 'node:events';
import type { DockerState } from 'handover/docker';
import { dockerTarget } from 'handover/docker';
import type { ShutdownTarget, TaskHandle } from 'handover';
import { describe, expect, it } from 'vitest';
import { type Bench, bench, failure, moving } from './driver-bench.js';

const REASON = new Error('called off');
const WAIT = { method: 'POST', path: /\/wait/ } as const;
const INSPECT = { method: 'GET', path: /^\/containers\/[^/]+\/json/ } as const;
const KILL = { method: 'POST', path: /\/kill/ } as const;

async function started(b: Bench, env: readonly string[] = []): Promise<TaskHandle<DockerState>> {
  return b.driver.start(await b.driver.prestart(b.ask('a', { create: { Env: env } })), {});
}

/** A container that this library did not make. */
async function stranger(hostConfig: object = {}, image: object = {}): Promise<Bench & { target: ShutdownTarget }> {
  const b = await bench();
  b.engine.put('db:v1', image);
  b.engine.create('db', { Image: 'db:v1', HostConfig: hostConfig });
  b.engine.startContainer('db');
  return { ...b, target: dockerTarget(b.docker, 'db', {}, { clock: b.clock }) };
}

describe('wait', () => {
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

  it('case C41 a wait whose connection broke goes on with a look and a new wait', async () => {
    const b = await bench();
    const handle = await started(b);
    const wait = handle.wait({});
    b.calls();
    b.engine.disconnect();
    await b.engine.called(/condition=not-running/);
    b.engine.exit(handle.state.containerId, 4);
    expect(await wait).toMatchObject({ code: 4, by: 'self' });
    expect(b.calls()).toEqual(['GET /containers/a/json', 'POST /containers/a/wait?condition=not-running']);
  });

  it('case C41 an exit while the engine was away is found by a look', async () => {
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
});

describe('signals', () => {
  it.each([
    [404, 'No such container: a'],
    [409, 'Cannot kill container: a: Container a is not running'],
    [500, 'Cannot kill container: a: no such process'],
  ])('S73 case C33 %i "%s" is a success, and no signal of ours', async (status, message) => {
    const b = await bench();
    const handle = await started(b);
    b.engine.fault(KILL, { status, message });
    await handle.signal('SIGTERM', {});
    b.engine.exit(handle.state.containerId, 0);
    expect(await handle.wait({})).toMatchObject({ by: 'self' });
  });

  it('G-8 a signal whose fate is unknown rejects, is not sent again here, and counts as sent', async () => {
    const b = await bench();
    const handle = await started(b);
    b.engine.fault(KILL, { lose: 'answer' });
    expect(await failure(handle.signal('SIGTERM', {}))).toMatchObject({ details: { kind: 'lost' }, retryable: true });
    expect(b.engine.containers[0]?.signals).toEqual(['SIGTERM']);
    expect(await handle.wait({})).toMatchObject({ by: 'signal' });
  });

  it('case C35 an engine that cannot kill says so', async () => {
    const b = await bench();
    const handle = await started(b);
    const message = 'tried to kill container, but did not receive an exit event';
    b.engine.fault(KILL, { status: 500, message });
    expect((await failure(handle.kill({}))).message).toContain(message);
    expect(await handle.isRunning({})).toBe(true);
  });

  it('case C36 a call that is not answered ends by its own deadline', async () => {
    const b = await bench();
    const handle = await started(b);
    b.engine.fault(KILL, { silence: 'request' });
    const kill = failure(handle.kill({}));
    await b.engine.called(/\/kill/);
    await b.clock.advance('60s');
    expect(await kill).toMatchObject({ details: { kind: 'late' } });
  });

  it('a task that ignores SIGTERM goes on until it is killed', async () => {
    const b = await bench();
    const handle = await started(b, ['IGNORE_TERM=1']);
    await handle.signal('SIGTERM', {});
    expect(await handle.isRunning({})).toBe(true);
    await handle.kill({});
    expect(await handle.wait({})).toMatchObject({ by: 'kill', signal: 'SIGKILL', code: null });
  });

  it('S70 the stop signal is that of the image', async () => {
    const b = await bench();
    b.engine.publish('app:v1', { stopSignal: 'SIGQUIT' });
    expect((await started(b)).stopSignal).toBe('SIGQUIT');
  });

  it('isRunning rejects when nobody knows', async () => {
    const b = await bench();
    const handle = await started(b);
    b.engine.fault({ ...INSPECT, times: 3 }, { lose: 'request' });
    expect(await failure(moving(b, handle.isRunning({})))).toMatchObject({ code: 'ERR_DRIVER', retryable: true });
  });
});

describe('SS-11 disarm and rearm', () => {
  it('S72 a paused one is thawed, so that it can take its signal', async () => {
    const { engine, target } = await stranger();
    engine.containers[0]!.state = 'paused';
    await target.disarm!({});
    await target.signal('SIGTERM', {});
    expect(await target.wait({})).toMatchObject({ code: 0, by: 'signal' });
  });

  it('case C38 a restart policy is switched off: it stays down', async () => {
    const { engine, target } = await stranger({ RestartPolicy: { Name: 'always' } }, { stopSignal: 'SIGQUIT' });
    await target.disarm!({});
    await target.signal('SIGTERM', {});
    expect(await target.wait({})).toMatchObject({ by: 'signal' });
    expect(engine.containers[0]?.state).toBe('exited');
  });

  it('case C38 without that, the engine starts it again', async () => {
    const { engine, docker, clock } = await stranger({ RestartPolicy: { Name: 'always' } }, { stopSignal: 'SIGQUIT' });
    const target = dockerTarget(docker, 'db', { keepRestartPolicy: true }, { clock });
    await target.disarm!({});
    await target.signal('SIGTERM', {});
    expect(engine.containers[0]?.state).toBe('restarting');
  });

  it('S72 one that waits for its restart is stopped for good', async () => {
    const { engine, target } = await stranger({ RestartPolicy: { Name: 'on-failure', MaximumRetryCount: 5 } });
    engine.exit('db', 1);
    expect(engine.containers[0]?.state).toBe('restarting');
    await target.disarm!({});
    await target.kill({});
    expect(await target.isRunning({})).toBe(false);
    expect(engine.containers[0]?.state).toBe('exited');
  });

  it('SS-9 rearm puts back exactly what was changed', async () => {
    const policy = { Name: 'on-failure', MaximumRetryCount: 5 };
    const { engine, target } = await stranger({ RestartPolicy: policy });
    engine.containers[0]!.state = 'paused';
    await target.disarm!({});
    expect(engine.containers[0]).toMatchObject({ state: 'running', hostConfig: { RestartPolicy: { Name: 'no' } } });
    await target.rearm!({});
    expect(engine.containers[0]).toMatchObject({ state: 'paused', hostConfig: { RestartPolicy: policy } });
    const before = engine.calls.length;
    await target.rearm!({});
    expect(engine.calls.length).toBe(before);
  });

  it('S72 S73 nothing to disarm is a success', async () => {
    const { engine, target } = await stranger();
    engine.remove('db');
    await target.disarm!({});
    await target.signal('SIGTERM', {});
    expect(await target.isRunning({})).toBe(false);
    expect(await target.wait({})).toMatchObject({ by: 'unknown' });
  });
});

describe('dockerTarget', () => {
  it('a name means the container that had it first, not the one that has it now', async () => {
    const { engine, docker, target } = await stranger();
    expect(await target.isRunning({})).toBe(true);
    await docker.getContainer('db').rename({ name: 'db-old' });
    engine.create('db', { Image: 'db:v1' });
    engine.startContainer('db');
    await target.signal('SIGTERM', {});
    await target.wait({});
    expect(engine.running()).toEqual(['db']);
  });

  it.each(['exited', 'dead', 'removing', 'created'] as const)('S72 one that is %s counts as stopped', async (state) => {
    const { engine, target } = await stranger();
    engine.containers[0]!.state = state;
    await target.signal('SIGTERM', {});
    expect(await target.isRunning({})).toBe(false);
    await target.wait({});
  });

  it('S72 one with --rm is gone after its exit', async () => {
    const { engine, target } = await stranger({ AutoRemove: true });
    await target.disarm!({});
    const wait = target.wait({});
    await engine.called(/condition=not-running/);
    await target.signal('SIGTERM', {});
    expect(await wait).toMatchObject({ code: 0, by: 'signal' });
    expect(engine.containers).toEqual([]);
  });

  it('S70 the stop signal is known once it was looked at', async () => {
    const { target } = await stranger({}, { stopSignal: 'SIGINT' });
    expect(target.stopSignal).toBeUndefined();
    await target.isRunning({});
    expect(target.stopSignal).toBe('SIGINT');
  });

  it('G-2 an option that is not one is refused', async () => {
    const { docker } = await bench();
    expect(() => dockerTarget(docker, 'db', { keep: true } as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path: 'keep' } }),
    );
  });
});
