import { ShutdownSequencer } from 'handover';
import { dockerTarget } from 'handover/docker';
import { describe, expect, it, vi } from 'vitest';
import { afterCall, bench, failure, moving } from './driver-bench.js';
import { started, stranger } from './target-bench.js';

const INSPECT = { method: 'GET', path: /^\/containers\/[^/]+\/json/ } as const;
const KILL = { method: 'POST', path: /\/kill/ } as const;

describe('signals', () => {
  it.each([
    [404, 'No such container: a'],
    [409, 'Cannot kill container: a: Container a is not running'],
    [500, 'Cannot kill container: a: no such process'],
    // Podman's.
    [409, 'can only kill running containers. a is in state exited: container state improper'],
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

  it.each([
    { name: 'SIGKILL', by: 'kill' },
    { name: 'SIGTERM', by: 'signal' },
  ])('DP-9 G-8 $name sent again to what had ended by it leaves who ended it as it was', async ({ name, by }) => {
    const b = await bench();
    const handle = await started(b);
    await handle.signal(name, {});
    await expect.poll(() => handle.isRunning({})).toBe(false);
    await handle.signal(name, {});
    expect(await handle.wait({})).toMatchObject({ by, ...(by === 'kill' && { signal: name }) });
  });

  it('DP-9 G-8 a kill whose answer was lost still counts when the next one finds nobody', async () => {
    const b = await bench();
    const handle = await started(b);
    b.engine.fault(KILL, { lose: 'answer' });
    await failure(handle.kill({}));
    await handle.kill({});
    expect(await handle.wait({})).toMatchObject({ by: 'kill' });
  });

  it('DP-9 of two kills under way at once, the one that finds nobody does not undo the other', async () => {
    const b = await bench();
    const handle = await started(b);
    b.engine.fault(KILL, { delay: 20 });
    const late = handle.kill({});
    await b.engine.called(/\/kill/);
    await handle.kill({});
    await late;
    expect(await handle.wait({})).toMatchObject({ by: 'kill' });
  });

  it('G-8 a signal that the engine refuses was not sent', async () => {
    const b = await bench();
    const handle = await started(b);
    b.engine.fault(KILL, { status: 400, message: 'Invalid signal: TERM' });
    expect(await failure(handle.signal('SIGTERM', {}))).toMatchObject({ details: { status: 400 } });
    b.engine.exit(handle.state.containerId, 0);
    expect(await handle.wait({})).toMatchObject({ by: 'self' });
  });

  it('G-8 a signal for which nobody took the connection was not sent', async () => {
    const b = await bench();
    const handle = await started(b);
    const refused = Object.assign(new Error('connect ECONNREFUSED'), { syscall: 'connect' });
    const dial = vi.spyOn(b.docker.modem, 'dial').mockImplementation((_, done) => done?.(refused, null));
    expect(await failure(moving(b, handle.signal('SIGTERM', {})))).toMatchObject({ details: { kind: 'not-sent' } });
    dial.mockRestore();
    b.engine.exit(handle.state.containerId, 0);
    expect(await handle.wait({})).toMatchObject({ by: 'self' });
  });

  it('a signal that was called off beforehand was not sent', async () => {
    const b = await bench();
    const handle = await started(b);
    b.calls();
    const reason = new Error('called off');
    await expect(handle.signal('SIGTERM', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(b.calls()).toEqual([]);
    b.engine.exit(handle.state.containerId, 0);
    expect(await handle.wait({})).toMatchObject({ by: 'self' });
  });

  it('case C35 an engine that cannot kill says so, and may have killed', async () => {
    const b = await bench();
    const handle = await started(b);
    const message = 'tried to kill container, but did not receive an exit event';
    b.engine.fault(KILL, { status: 500, message });
    expect((await failure(handle.kill({}))).message).toContain(message);
    expect(await handle.isRunning({})).toBe(true);
    b.engine.exit(handle.state.containerId, 137);
    expect(await handle.wait({})).toMatchObject({ by: 'kill' });
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

  it('case C60 a grace below a second is ours to keep, to the millisecond: the engine is sent signals, never a time', async () => {
    const b = await bench();
    const handle = await started(b, ['IGNORE_TERM=1']);
    const seen = b.engine.calls.length;
    const { result } = new ShutdownSequencer({ killTimeout: 100 }, { clock: b.clock }).run(handle);
    await afterCall(b, /kill\?signal=SIGTERM/, 99);
    expect(b.engine.containers[0]?.signals).toEqual(['SIGTERM']);
    await b.clock.advance(1);
    expect(await moving(b, result)).toMatchObject({ outcome: 'forced' });
    expect(b.engine.containers[0]?.signals).toEqual(['SIGTERM', 'SIGKILL']);
    expect(b.engine.calls.slice(seen).filter((call) => call.includes('/stop'))).toEqual([]);
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

  it('S70 a stop signal that engines do not know counts as none', async () => {
    const b = await bench();
    b.engine.publish('app:v1', { stopSignal: 'SIGFOO' });
    expect((await started(b)).stopSignal).toBeUndefined();
  });

  it('G-2 what is no signal is refused before any call, and counts as not sent', async () => {
    const b = await bench();
    const handle = await started(b);
    b.calls();
    expect(await failure(handle.signal('SIGFOO', {}))).toMatchObject({
      code: 'ERR_INVALID_OPTION',
      details: { path: 'signal' },
    });
    expect(b.calls()).toEqual([]);
  });

  it('isRunning rejects when nobody knows', async () => {
    const b = await bench();
    const handle = await started(b);
    b.engine.fault({ ...INSPECT, times: 6 }, { lose: 'request' });
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

  it.each([
    {
      fault: { status: 409, message: 'busy' },
      last: 'on-failure',
      why: 'it was not done, and somebody changed it since',
    },
    { fault: { lose: 'answer' }, last: 'always', why: 'it was done, and nobody heard' },
  ] as const)('SS-9 disarmed again after it failed, rearm puts back the last policy: $why', async ({ fault, last }) => {
    const b = await stranger({ RestartPolicy: { Name: 'always' } });
    const [container] = b.engine.containers;
    b.engine.fault({ path: /\/update$/ }, fault);
    if ('status' in fault) {
      await failure(b.target.disarm!({}));
      container!.hostConfig = { RestartPolicy: { Name: last } };
    }
    await moving(b, b.target.disarm!({}));
    await b.target.disarm!({});
    expect(container?.hostConfig.RestartPolicy).toEqual({ Name: 'no' });
    await b.target.rearm!({});
    expect(container?.hostConfig.RestartPolicy).toEqual({ Name: last });
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
