import { type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { isHandoverError } from 'handover';
import { type ArtifactLeases, type ProcessHandle, ProcessDriver, type ProcessState } from 'handover/process';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { deferred } from '../../src/internal/deferred.js';
import { bootId, identify, isAlive } from '../../src/internal/process-identity.js';
import { killSurvivors, signalGroup } from '../../src/process/identity.js';
import { fixture } from './fixtures/run.js';
import { TaskHost, context, record, runOf, runs, shell, stateFile, written } from './tasks.js';

let host: TaskHost;
let driver: ProcessDriver;
/** Whatever a test started; killed at the end, should the test fail. */
const started: ProcessHandle[] = [];
const fixtures: ChildProcess[] = [];

beforeEach(async () => {
  host = await TaskHost.open();
  driver = host.driver();
});
afterEach(async () => {
  for (const child of fixtures.splice(0)) child.kill('SIGKILL');
  const listed = (await driver.list({})).filter((task) => task.started);
  const left = await Promise.all(
    [...started.splice(0), ...listed].map(({ state }) => runOf(state).catch(() => undefined)),
  );
  for (const run of left) if (run !== undefined) killSurvivors(run);
  await host.close();
});

async function run(script: string, more: Parameters<typeof shell>[1] = {}, using = driver): Promise<ProcessHandle> {
  const handle = await using.start(await using.prestart(context(shell(script, more))), {});
  started.push(handle);
  return handle;
}

/** What a fixture has written by its end. */
async function output(name: 'starter' | 'waiter'): Promise<string> {
  const child = fixture(name, [host.tasks]);
  fixtures.push(child);
  return text(child.stdout);
}

describe('content and environment', () => {
  it('DP-10 the artifact is in the task’s directory under its base name, and can be the program', async () => {
    const artifact = host.origin.content('/v1/app.sh', '#!/bin/sh\necho version one\nexec sleep 60\n');
    const prepared = await driver.prestart(context({ argv: ['./app.sh'], artifact }));
    expect(host.origin.requests).toEqual(['GET /v1/app.sh']);
    const handle = await driver.start(prepared, {});
    started.push(handle);
    await written(handle, 'version one');
    expect(handle.state).toMatchObject({ directory: prepared.directory, reference: artifact });
    // A link, not a copy: one content on the disk, however many tasks run it.
    expect((await stat(join(prepared.directory, 'app.sh'))).nlink).toBe(2);
  });

  it('DP-10 only the variables that are named get through', async () => {
    vi.stubEnv('HANDOVER_TEST_SECRET', 'not for tasks');
    const handle = await run('env; echo end', { env: { GREETING: 'hello' } });
    const output = await written(handle, 'end');
    expect(output).toContain('GREETING=hello');
    expect(output).toContain(`PATH=${process.env['PATH'] ?? ''}`);
    expect(output).not.toContain('HANDOVER_TEST_SECRET');
    vi.unstubAllEnvs();
  });

  it('G-6 what is kept of a task has nothing of its environment', async () => {
    const handle = await run('exec sleep 60', { env: { PASSWORD: 'hush' } });
    expect(await readFile(stateFile(handle.state), 'utf8')).not.toContain('hush');
    expect(JSON.stringify(handle.state)).not.toContain('hush');
  });

  it('DP-10 output goes to the files that the spec names, and is appended', async () => {
    const more = { stdout: 'out.txt', stderr: join(host.root, 'err.txt') };
    await (await run('echo one; echo bad >&2', more)).wait({});
    const handle = await run('echo one; echo bad >&2', more);
    await handle.wait({});
    expect(await readFile(join(handle.state.directory, 'out.txt'), 'utf8')).toBe('one\none\n');
    expect(await readFile(join(host.root, 'err.txt'), 'utf8')).toBe('bad\nbad\n');
  });

  it('DP-8 endpoints are the ports of the spec, also after recovery', async () => {
    const handle = await run('exec sleep 60', { ports: { http: 8080 } });
    expect(handle.endpoints).toEqual({ http: { address: '127.0.0.1', port: 8080 } });
    const found = await host.driver().recover(handle.state, { owner: handle.id });
    expect(found?.endpoints).toEqual(handle.endpoints);
  });
});

describe('prestart', () => {
  it.each([
    { argv: ['no-such-program'] as const, problem: 'there is no program no-such-program' },
    { argv: ['./missing'] as const, problem: './missing is not a file that can be executed' },
    { argv: ['/etc/passwd'] as const, problem: '/etc/passwd is not a file that can be executed' },
    { argv: ['/etc'] as const, problem: '/etc is not a file that can be executed' },
    { argv: ['sh'] as const, cwd: 'nowhere', problem: 'to start in is not there' },
  ])('DP-1 finds out that $argv cannot be started ($problem) and leaves nothing', async ({ problem, ...spec }) => {
    await expect(driver.prestart(context(spec))).rejects.toMatchObject({
      code: 'ERR_DRIVER',
      message: expect.stringContaining(problem) as string,
      details: { driver: 'process', operation: 'prestart', owner: 'web-1/main' },
    });
    expect(await readdir(host.tasks)).toEqual([]);
  });

  it('DP-3 a failed fetch leaves neither directory nor lease', async () => {
    const artifacts = host.coordinator();
    const using = host.driver(artifacts);
    const artifact = host.origin.status('/app', 404);
    await expect(using.prestart(context(shell('true', { artifact })))).rejects.toMatchObject({
      code: 'ERR_PULL_FAILED',
      details: { reason: 'not-found-or-denied' },
    });
    expect(await readdir(host.tasks).catch(() => [])).toEqual([]);
    expect(artifacts.snapshot().flatMap(({ holders }) => holders)).toEqual([]);
  });

  it('IC-1 the lease is held from prestart to discard, or to destroy', async () => {
    const artifacts = host.coordinator();
    const using = host.driver(artifacts);
    const artifact = host.origin.content('/app', 'x');
    const holders = () => artifacts.snapshot().flatMap((image) => image.holders.map(({ owner }) => owner));
    const prepared = await using.prestart(context(shell('exec sleep 60', { artifact })));
    expect(holders()).toEqual(['web-1/main']);
    await prepared.discard();
    expect(holders()).toEqual([]);
    const handle = await run('exec sleep 60', { artifact }, using);
    expect(holders()).toEqual(['web-1/main']);
    await handle.kill({});
    await handle.wait({});
    await handle.destroy();
    expect(holders()).toEqual([]);
  });

  it('DP-2 adopting a leftover asks no origin', async () => {
    const spec = shell('exec sleep 60', { artifact: host.origin.content('/app', 'x') });
    const leftover = await driver.prestart(context(spec));
    const requests = host.origin.requests.length;
    const adopted = await host.driver().prestart(context(spec));
    expect(adopted.directory).toBe(leftover.directory);
    expect(await adopted.intact({})).toBe(true);
    expect(host.origin.requests).toHaveLength(requests);
  });

  it('DP-2 callers at the same time share one preparation, and one that leaves harms nobody', async () => {
    const asked = deferred();
    const answer = deferred();
    const artifact = host.origin.on('/app', (_, response) => {
      asked.resolve();
      void answer.promise.then(() => response.end('content'));
    });
    const leaving = new AbortController();
    const spec = shell('true', { artifact });
    const first = driver.prestart(context(spec, { signal: leaving.signal }));
    const second = driver.prestart(context(spec));
    await asked.promise;
    const reason = new Error('left');
    leaving.abort(reason);
    await expect(first).rejects.toBe(reason);
    const third = driver.prestart(context(spec));
    answer.resolve();
    expect(await third).toBe(await second);
    expect(await (await second).intact({})).toBe(true);
    expect(host.origin.requests).toEqual(['GET /app']);
  });

  it('DP-2 a task that runs is refused, by name', async () => {
    await run('exec sleep 60');
    await expect(host.driver().prestart(context(shell('exec sleep 60')))).rejects.toMatchObject({
      code: 'ERR_DRIVER',
      message: expect.stringContaining('web-1/main still runs') as string,
    });
  });

  it('DP-2 a leftover whose state cannot be read is cleared away', async () => {
    const leftover = await driver.prestart(context(shell('true')));
    await writeFile(join(leftover.directory, '.handover.json'), '{"allocId":');
    await writeFile(join(leftover.directory, 'old'), '');
    expect(await host.driver().list({})).toEqual([]);
    await host.driver().prestart(context(shell('true')));
    expect(await readdir(leftover.directory)).toEqual(['.handover.json']);
  });

  it('AL-3 what has lost its content is not intact', async () => {
    const artifact = host.origin.content('/app', 'x');
    const prepared = await driver.prestart(context(shell('true', { artifact })));
    await rm(join(prepared.directory, 'app'));
    expect(await prepared.intact({})).toBe(false);
  });

  it('DP-4 S48 content that vanished before it was linked is fetched again, once', async () => {
    const path = join(host.root, 'content');
    const calls: string[] = [];
    const lease = {
      artifact: { path },
      imageId: 'sha256:x',
      async verify() {
        calls.push('verify');
        await writeFile(path, 'content');
      },
      async [Symbol.asyncDispose]() {
        calls.push('release');
      },
    };
    const artifacts = { acquire: async () => lease, adopt: async () => undefined, release: async () => undefined };
    const using = new ProcessDriver({ directory: host.tasks, artifacts: artifacts as unknown as ArtifactLeases });
    const spec = shell('true', { artifact: 'https://h/app' });
    const prepared = await using.prestart(context(spec));
    expect(await readFile(join(prepared.directory, 'app'), 'utf8')).toBe('content');
    await prepared.discard();
    expect(calls).toEqual(['verify', 'release']);

    await rm(path);
    lease.verify = async () => void calls.push('verify in vain');
    await expect(using.prestart(context(spec))).rejects.toMatchObject({ code: 'ENOENT' });
    expect(calls).toEqual(['verify', 'release', 'verify in vain', 'release']);
  });

  it('DP-1 an undo that fails does not hide why, is told, and comes first in the owner’s next prestart', async () => {
    const calls: string[] = [];
    const warnings: string[] = [];
    let releases = 0;
    const lease = {
      artifact: { path: join(host.root, 'missing') },
      verify: async () => Promise.reject(new Error('the cause')),
      async [Symbol.asyncDispose]() {
        calls.push('release');
        if (++releases < 3) throw new Error('cannot be released');
      },
    };
    const acquire = async () => (calls.push('acquire'), lease);
    const artifacts = { acquire, adopt: async () => undefined, release: async () => undefined };
    const using = new ProcessDriver(
      { directory: host.tasks, artifacts: artifacts as unknown as ArtifactLeases },
      { onEvent: (event) => event.type === 'warning' && warnings.push(event.reason.code) },
    );
    const prestart = () => using.prestart(context(shell('true', { artifact: 'https://h/app' })));
    await expect(prestart()).rejects.toThrow('the cause');
    expect([calls.splice(0), warnings]).toEqual([['acquire', 'release'], ['undo-failed']]);
    await expect(prestart()).rejects.toThrow('cannot be released');
    expect(calls.splice(0)).toEqual(['release']);
    await expect(prestart()).rejects.toThrow('the cause');
    expect(calls).toEqual(['release', 'acquire', 'release']);
  });

  it('G-2 an artifact without a coordinator names the option', async () => {
    const using = new ProcessDriver({ directory: host.tasks });
    await expect(using.prestart(context(shell('true', { artifact: 'https://h/a' })))).rejects.toMatchObject({
      code: 'ERR_INVALID_OPTION',
      details: { path: 'artifact' },
    });
  });
});

describe('start', () => {
  it('S49 a program that vanished after prestart is ERR_START_FAILED, and discard still cleans up', async () => {
    const program = join(host.root, 'program');
    await writeFile(program, '#!/bin/sh\n', { mode: 0o755 });
    const prepared = await driver.prestart(context({ argv: [program] }));
    await rm(program);
    await expect(driver.start(prepared, {})).rejects.toMatchObject({
      code: 'ERR_START_FAILED',
      details: { allocId: 'web-1', task: 'main' },
      message: expect.stringContaining('ENOENT') as string,
    });
    await prepared.discard();
    expect(await readdir(host.tasks)).toEqual([]);
  });

  it('S49 a program that may not be executed any more is ERR_START_FAILED', async () => {
    const program = join(host.root, 'program');
    await writeFile(program, 'not a format that the system knows\u0000', { mode: 0o755 });
    const prepared = await driver.prestart(context({ argv: [program] }));
    await rm(program);
    await writeFile(program, '', { mode: 0o644 });
    const error: unknown = await driver.start(prepared, {}).catch((caught: unknown) => caught);
    expect(isHandoverError(error, 'ERR_START_FAILED') && error.message).toContain('EACCES');
  });

  it('S49 an output file that cannot be opened is ERR_START_FAILED', async () => {
    const prepared = await driver.prestart(context(shell('true', { stdout: 'no/such/folder' })));
    await expect(driver.start(prepared, {})).rejects.toMatchObject({ code: 'ERR_START_FAILED' });
  });

  it('DP-8 what was started is not started again', async () => {
    const prepared = await driver.prestart(context(shell('exec sleep 60')));
    started.push(await driver.start(prepared, {}));
    await expect(driver.start(prepared, {})).rejects.toMatchObject({ code: 'ERR_START_FAILED' });
  });

  it('G-4 an abort while the process comes up ends it before the call rejects', async () => {
    const prepared = await driver.prestart(context(shell('exec sleep 60')));
    const controller = new AbortController();
    const reason = new Error('called off');
    const start = driver.start(prepared, { signal: controller.signal });
    controller.abort(reason);
    await expect(start).rejects.toBe(reason);
    const [listed] = await driver.list({});
    const { pid } = listed!.state;
    expect(pid).toBeGreaterThan(1);
    expect(runs(pid)).toBe(false);
    await prepared.discard();
    expect(await driver.list({})).toEqual([]);
  });
});

describe('exits and signals', () => {
  it('DP-9 an end by a signal that is not ours is nobody’s that we know', async () => {
    const handle = await run('exec sleep 60');
    process.kill(handle.state.pid, 'SIGKILL');
    expect(await handle.wait({})).toMatchObject({ code: null, signal: 'SIGKILL', by: 'unknown', oom: false });
  });

  it('DP-9 a program that ends with a code after our signal: the code, by our signal', async () => {
    const handle = await run('trap "exit 5" TERM; echo ready; for i in $(seq 1000); do sleep 0.05; done');
    await written(handle, 'ready');
    await handle.signal('SIGTERM', {});
    expect(await handle.wait({})).toMatchObject({ code: 5, signal: null, by: 'signal' });
  });

  it('DP-10 a signal reaches the whole group', async () => {
    const handle = await run('sleep 60 & echo child $!; wait');
    const child = Number(/child (\d+)/.exec(await written(handle, 'child'))?.[1]);
    await handle.signal('SIGTERM', {});
    await handle.wait({});
    await expect.poll(() => runs(child)).toBe(false);
  });

  it('DP-10 what a dead leader left in its group is killed by destroy()', async () => {
    const handle = await run('sleep 60 & echo child $!');
    const child = Number(/child (\d+)/.exec(await written(handle, 'child'))?.[1]);
    expect(await handle.wait({})).toMatchObject({ code: 0, by: 'self' });
    expect(runs(child)).toBe(true);
    await handle.destroy();
    await expect.poll(() => runs(child)).toBe(false);
  });

  it('DP-10 a process that has ended does not run, even if nobody has taken its exit', async () => {
    // The parent has become a program that never asks for the exit of the child it has inherited.
    const handle = await run('(until [ -e go ]; do sleep 0.05; done) & echo child $!; exec sleep 60');
    const pid = Number(/child (\d+)/.exec(await written(handle, 'child'))?.[1]);
    const child = identify(pid);
    expect(isAlive(child)).toBe(true);
    await writeFile(join(handle.state.directory, 'go'), '');
    await expect.poll(() => runs(pid)).toBe(false);
    expect(identify(pid)).toEqual(child);
    expect(isAlive(child)).toBe(false);
  });

  it('S70 a signal that the system does not have is refused by name', async () => {
    const handle = await run('exec sleep 60');
    await expect(handle.signal('SIGNOTHING', {})).rejects.toMatchObject({
      code: 'ERR_INVALID_OPTION',
      details: { path: 'signal' },
    });
    expect(await handle.isRunning({})).toBe(true);
  });

  it('DP-10 nothing stays open in this process', async () => {
    const open = async (): Promise<number> => (await readdir('/proc/self/fd')).length;
    const once = async (): Promise<void> => {
      const handle = await run('exec sleep 60');
      await handle.kill({});
      await handle.wait({});
      await handle.destroy();
    };
    await once();
    const before = await open();
    for (let i = 0; i < 5; i++) await once();
    expect(await open()).toBe(before);
    expect(await readdir(host.tasks)).toEqual([]);
  });
});

describe('recovery', () => {
  it('DP-10 a number that is somebody else’s by now is never signalled', async () => {
    const handle = await run('exec sleep 60');
    // As if the process had ended, and the number had been given to a later one.
    const { pid, startedAt } = handle.state;
    // Its mark is another one, too: nobody else's process has ours.
    const reused = { mark: 'of-another', boot: bootId(), process: { pid, startedAt: startedAt - 1 } };
    await record(handle.state.directory, reused);

    const found = await host.driver().recover({ ...handle.state, ...reused.process }, { owner: handle.id });
    expect(await found?.isRunning({})).toBe(false);
    await found?.signal('SIGTERM', {});
    await found?.kill({});
    expect(await found?.wait({})).toMatchObject({ code: null, by: 'unknown' });
    await found?.destroy();
    expect(await handle.isRunning({})).toBe(true);
    expect(isAlive(handle.state)).toBe(true);
    expect(signalGroup(reused, 'SIGKILL')).toBe(false);
    killSurvivors(reused);
    expect(isAlive(handle.state)).toBe(true);
  });

  it.each([0, 1, -1, Number.NaN])('DP-10 the number %d, which is not a task’s, is never signalled', (pid) => {
    const kill = vi.spyOn(process, 'kill').mockReturnValue(true);
    expect(signalGroup({ mark: 'm', boot: bootId(), process: { pid, startedAt: 0 } }, 'SIGKILL')).toBe(false);
    try {
      killSurvivors({ mark: 'm', boot: bootId(), process: { pid, startedAt: 0 } });
    } catch (error) {
      expect(String(error)).toContain('not the number of a task');
    }
    expect(kill).not.toHaveBeenCalled();
  });

  it('DP-10 of a process that is not our child the end is known, and the code is not', async () => {
    const handle = await run('exec sleep 60');
    const found = await host.driver().recover(handle.state, { owner: handle.id });
    const wait = found?.wait({});
    process.kill(handle.state.pid, 'SIGTERM');
    expect(await wait).toMatchObject({ code: null, signal: null, by: 'unknown' });
  });

  it('DP-10 a recovered process that we ended says by whom, still without a code', async () => {
    const handle = await run('exec sleep 60');
    const found = await host.driver().recover(handle.state, { owner: handle.id });
    await found?.kill({});
    expect(await found?.wait({})).toMatchObject({ code: null, by: 'kill' });
  });

  it('DP-8 in the same process recover() gives the handle that knows the exit code', async () => {
    const handle = await run('exit 4');
    expect(await driver.recover(handle.state, { owner: handle.id })).toBe(handle);
  });

  it('DP-8 the state of another owner, or of an earlier start, finds nothing', async () => {
    const handle = await run('exec sleep 60');
    const using = host.driver();
    expect(await using.recover(handle.state, { owner: 'web-2/main' })).toBeUndefined();
    expect(await using.recover({ ...handle.state, pid: 1 }, { owner: handle.id })).toBeUndefined();
    expect(await using.recover({ ...handle.state, directory: '/etc' }, { owner: handle.id })).toBeUndefined();
  });

  it('DP-8 destroying a handle whose owner was prepared anew leaves the new one alone', async () => {
    const old = await run('exit 0');
    await old.wait({});
    const renewed = await run('exec sleep 60');
    await old.destroy();
    expect(await renewed.isRunning({})).toBe(true);
    expect((await driver.list({})).map(({ state }) => state)).toEqual([renewed.state]);
  });

  it('G-5 a task outlives the process that started it, which nothing keeps alive', async () => {
    const state = JSON.parse(await output('starter')) as ProcessState;
    const found = (await driver.recover(state, { owner: 'web-1/main' })) as ProcessHandle;
    started.push(found);
    expect(await found.isRunning({})).toBe(true);
    await found.signal('SIGTERM', {});
    expect(await found.wait({})).toMatchObject({ code: null, by: 'signal' });
    await found.destroy();
    expect(await readdir(host.tasks)).toEqual([]);
  }, 30_000);

  it('what a test runs as a process of its own ends when the test is gone', async () => {
    const child = fixture('waiter', [host.tasks, 'exec sleep 60']);
    fixtures.push(child);
    await expect.poll(() => driver.list({}), { timeout: 10_000 }).toMatchObject([{ started: true }]);
    // As if this process had been killed.
    child.stdin.destroy();
    expect(await once(child, 'exit')).toEqual([1, null]);
  }, 30_000);

  it('G-5 whoever waits for an exit is kept alive until it comes', async () => {
    expect(JSON.parse(await output('waiter'))).toEqual({ code: 7, by: 'self' });
  }, 30_000);
});
