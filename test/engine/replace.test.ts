import { type ReplaceResult, findError, isHandoverError, replace } from 'handover';
import { expect, it } from 'vitest';
import { engineSuite } from './harness/index.js';
import { replaceWorld } from './replace-world.js';

const SLOW = { bytesPerSecond: 3_000_000 };
const ONE_TRY = { attempts: 1, stallTimeout: '1500ms', linger: 0 } as const;

/** `METHOD /path` → where in the sequence of engine calls it came first. */
function at(calls: readonly { readonly method: string; readonly path: string }[], what: RegExp): number {
  return calls.findIndex(({ method, path }) => what.test(`${method} ${path}`));
}

function reasonOf(result: ReplaceResult): string | undefined {
  return findError(result.cause, 'ERR_PULL_FAILED')?.details.reason;
}

engineSuite('replace() on a real engine', (engine) => {
  it('RO-1 stop-first, one fixed port, 30 MB behind 3 MB/s: the old one answers during the whole pull and is signalled only once the new container exists', async () => {
    const world = await replaceWorld(engine);
    const v2 = await world.push('v2', { paddingMb: 30 });
    world.registry.set(SLOW);
    const next = world.alloc('v2', v2.ref);
    const requests = world.watch();
    const from = world.proxy.calls.length;

    const result = await replace(world.current, next);

    const calls = world.proxy.calls.slice(from);
    const pulled = at(calls, /^POST \/images\/create/);
    const created = at(calls, /^POST \/containers\/create/);
    const signalled = at(calls, /^POST \/containers\/[^/]+\/kill/);
    const started = at(calls, /^POST \/containers\/[^/]+\/start/);
    expect([pulled, created, signalled, started].every((index) => index >= 0)).toBe(true);
    expect([pulled, created, signalled, started]).toEqual([pulled, created, signalled, started].sort((a, b) => a - b));
    // Not only in order: the creation had been answered when the signal was sent.
    expect(calls[created]!.answeredAt!).toBeLessThan(calls[signalled]!.at);
    expect(calls.filter(({ path }) => /\/(stop|kill)/.test(path))).toHaveLength(1);

    expect(result.outcome).toBe('replaced');
    expect(result.serving).toBe(next);
    const { samples, versions } = await requests.stop();
    expect(versions).toEqual(['v1', 'v2']);
    const pullEnded = calls[pulled + 1]!.at;
    const duringPull = samples.filter(({ start }) => start > calls[pulled]!.at && start < pullEnded);
    expect(duringPull.length).toBeGreaterThan(100);
    expect(duringPull.filter(({ ok }) => !ok)).toEqual([]);
    expect(await world.containers()).toEqual({ [next.id]: 'running' });
    await world.expectNoTimers();
  });

  it('RO-1 a tag that does not exist: kept-previous, cause not-found-or-denied, nothing left', async () => {
    const world = await replaceWorld(engine, { pull: ONE_TRY });
    const requests = world.watch();
    const result = await replace(world.current, world.alloc('v2', world.registry.ref(world.app, 'typo')));
    expect([result.outcome, reasonOf(result)]).toEqual(['kept-previous', 'not-found-or-denied']);
    expect(result.serving).toBe(world.current);
    await world.expectUntouched(requests);
  });

  it.each([
    {
      what: 'a registry that dies at half',
      faults: { cutAfterBytes: 2_000_000 },
      reasons: ['registry-unavailable', 'corrupt-stream', 'unknown'],
    },
    { what: 'a registry that goes silent', faults: { silentAfterBytes: 2_000_000 }, reasons: ['stalled'] },
  ])('RO-1 $what: kept-previous with the cause, nothing left', async ({ faults, reasons }) => {
    const world = await replaceWorld(engine, { pull: ONE_TRY });
    const v2 = await world.push('v2', { paddingMb: 4 });
    world.registry.set(faults);
    const requests = world.watch();
    const result = await replace(world.current, world.alloc('v2', v2.ref));
    expect(result.outcome).toBe('kept-previous');
    expect(reasons).toContain(reasonOf(result));
    await world.expectUntouched(requests);
  });

  it('RO-1 a refused registry: kept-previous, cause registry-unavailable, nothing left', async () => {
    const world = await replaceWorld(engine, { pull: ONE_TRY });
    const v2 = await world.push('v2');
    await world.registry.refuse();
    const requests = world.watch();
    const result = await replace(world.current, world.alloc('v2', v2.ref));
    expect([result.outcome, reasonOf(result)]).toEqual(['kept-previous', 'registry-unavailable']);
    await world.expectUntouched(requests);
  });

  it('case C10 a cancelled update: kept-previous, the old one untouched, nothing left', async () => {
    const world = await replaceWorld(engine, { pull: ONE_TRY });
    const v2 = await world.push('v2', { paddingMb: 10 });
    world.registry.set(SLOW);
    const control = new AbortController();
    const requests = world.watch();
    const next = world.alloc('v2', v2.ref);
    const reason = new Error('changed my mind');
    next.on('alloc:task', ({ alloc }) => {
      if (alloc.tasks['web']?.progress?.phase === 'downloading') control.abort(reason);
    });
    const result = await replace(world.current, next, { signal: control.signal });
    expect(result.outcome).toBe('kept-previous');
    expect(result.cause?.cause).toBe(reason);
    expect(next.state).toBe('discarded');
    await world.expectUntouched(requests, control.signal);
  });

  it('AL-3 the prepared container is pruned just before the signal: the stop is called off', async () => {
    const world = await replaceWorld(engine, { settings: { shutdown: { shutdownDelay: '300ms' } } });
    const v2 = await world.push('v2');
    const next = world.alloc('v2', v2.ref);
    const requests = world.watch();
    world.current.on('alloc:changed', ({ alloc }) => {
      if (alloc.state !== 'draining') return;
      void engine.docker
        .listContainers({ all: true, filters: { label: [`handover.alloc=${next.id}`] } })
        .then(([created]) => engine.docker.getContainer(created!.Id).remove());
    });
    const result = await replace(world.current, next);
    expect(result.outcome).toBe('kept-previous');
    expect(isHandoverError(result.cause, 'ERR_GATE_MISSED')).toBe(true);
    await world.expectUntouched(requests);
  });

  it('AL-3 start-first: the old one is stopped only once the new one was healthy for minHealthyTime and registered', async () => {
    const world = await replaceWorld(engine, { ephemeral: true });
    const v2 = await world.push('v2', { env: { HEALTHY_AFTER_MS: '500' } });
    const next = world.alloc('v2', v2.ref);
    const seen: string[] = [];
    world.current.on('alloc:changed', ({ alloc }) => {
      const { reached, registered } = next.status();
      seen.push(`${alloc.state}: ${next.state}, ${reached}, ${registered.length} registered`);
    });
    const result = await replace(world.current, next);
    expect(result.outcome).toBe('replaced');
    expect(result.outage).toBeUndefined();
    expect(seen).toContain('draining: running, healthy, 1 registered');
    expect(seen[0]).toBe('held: prestarting, none, 0 registered');
    expect(world.registrar.instances().map(({ id }) => id)).toEqual(next.status().registered.map(({ id }) => id));
    expect(await world.containers()).toEqual({ [next.id]: 'running' });
    await world.expectNoTimers();
  });

  it('case C44 start-first: a new one that never becomes healthy is removed, the old id still runs', async () => {
    const world = await replaceWorld(engine, {
      ephemeral: true,
      settings: {
        health: {
          minHealthyTime: '200ms',
          healthyDeadline: '2s',
          checks: [{ name: 'up', type: 'http', port: 'http', path: '/health', interval: '100ms' }],
        },
      },
    });
    const v2 = await world.push('v2', { env: { HEALTHY_AFTER_MS: '-1' } });
    const next = world.alloc('v2', v2.ref);
    const requests = world.watch();
    const result = await replace(world.current, next);
    expect(result.outcome).toBe('kept-previous');
    expect(isHandoverError(result.cause, 'ERR_UNHEALTHY')).toBe(true);
    await world.expectUntouched(requests);
  });

  it('seed: an update that changes only resources of a job with the same image does not pull again with default options', async () => {
    const world = await replaceWorld(engine);
    const image = (world.current.spec.tasks[0] as { spec: { image: string } }).spec.image;
    const next = world.alloc('v1b', image, { create: { HostConfig: { Memory: 64 * 1024 * 1024 } } });
    const from = world.proxy.calls.length;
    const blobs = world.registry.blobBytes;
    const result = await replace(world.current, next);
    expect(result.outcome).toBe('replaced');
    expect(world.proxy.calls.slice(from).filter(({ path }) => path.startsWith('/images/create'))).toEqual([]);
    expect(world.registry.blobBytes).toBe(blobs);
    await world.expectNoTimers();
  });

  it('SS-1 seed: deregistration acknowledged, then delay, then the first signal, then the kill timeout, then SIGKILL', async () => {
    const world = await replaceWorld(engine, {
      v1: { IGNORE_TERM: '1' },
      settings: { shutdown: { shutdownDelay: '400ms', killTimeout: '600ms' } },
    });
    const from = world.proxy.calls.length;
    const report = await world.current.stop({ reason: 'operator' }).result;
    const kills = world.proxy.calls.slice(from).filter(({ path }) => path.includes('/kill'));
    expect(kills.map(({ path }) => /signal=(\w+)/.exec(path)?.[1])).toEqual(['SIGTERM', 'SIGKILL']);
    expect(kills[1]!.at - kills[0]!.at).toBeGreaterThanOrEqual(590);
    const [task] = report.tasks;
    expect(task!.phases.map(({ phase }) => phase)).toEqual(
      expect.arrayContaining(['deregister', 'drain', 'signal', 'kill']) as unknown,
    );
    expect(task!.outcome).toBe('forced');
    expect(task!.phases.find(({ phase }) => phase === 'drain')!.ms).toBeGreaterThanOrEqual(390);
    expect(world.registrar.instances()).toEqual([]);
    expect(world.current.state).toBe('stopped');
    await world.current.destroy();
    expect(await world.containers()).toEqual({});
  });
});
