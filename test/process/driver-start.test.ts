import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isHandoverError } from 'handover';
import { expect, it } from 'vitest';
import { identify, isAlive } from '../../src/internal/process-identity.js';
import { useStage } from './stage.js';
import { context, runs, shell, written } from './tasks.js';

const stage = useStage();

it('S49 a program that vanished after prestart is ERR_START_FAILED, and discard still cleans up', async () => {
  const program = join(stage.host.root, 'program');
  await writeFile(program, '#!/bin/sh\n', { mode: 0o755 });
  const prepared = await stage.driver.prestart(context({ argv: [program] }));
  await rm(program);
  await expect(stage.driver.start(prepared, {})).rejects.toMatchObject({
    code: 'ERR_START_FAILED',
    details: { allocId: 'web-1', task: 'main' },
    message: expect.stringContaining('ENOENT') as string,
  });
  await prepared.discard();
  expect(await readdir(stage.host.tasks)).toEqual([]);
});

it('S49 a program that may not be executed any more is ERR_START_FAILED', async () => {
  const program = join(stage.host.root, 'program');
  await writeFile(program, 'not a format that the system knows\u0000', { mode: 0o755 });
  const prepared = await stage.driver.prestart(context({ argv: [program] }));
  await rm(program);
  await writeFile(program, '', { mode: 0o644 });
  const error: unknown = await stage.driver.start(prepared, {}).catch((caught: unknown) => caught);
  expect(isHandoverError(error, 'ERR_START_FAILED') && error.message).toContain('EACCES');
});

it('S49 a place for output that has vanished since is ERR_START_FAILED', async () => {
  const logs = join(stage.host.root, 'logs');
  await mkdir(logs);
  const prepared = await stage.driver.prestart(context(shell('true', { stdout: join(logs, 'out') })));
  await rm(logs, { recursive: true });
  await expect(stage.driver.start(prepared, {})).rejects.toMatchObject({ code: 'ERR_START_FAILED' });
});

it('G-2 what is just short enough starts, and what is too big in all says so', async () => {
  const long = 'x'.repeat(131_071);
  const fits = { argv: ['sh', '-c', 'exit ${#1}', 'sh', long], env: { AB: 'x'.repeat(131_068) } };
  const handle = await stage.driver.start(await stage.driver.prestart(context(fits)), {});
  expect(await handle.wait({})).toMatchObject({ code: 131_071 % 256 });
  const big = { argv: ['sh', '-c', 'true', ...Array.from({ length: 64 }, () => long)] };
  const prepared = await stage.driver.prestart(context(big, { task: 'big' }));
  await expect(stage.driver.start(prepared, {})).rejects.toMatchObject({
    code: 'ERR_START_FAILED',
    message: expect.stringContaining('arguments and environment are together too big for the system') as string,
  });
  await prepared.discard();
});

it('DP-8 what was started is not started again', async () => {
  const prepared = await stage.driver.prestart(context(shell('exec sleep 60')));
  await stage.mind(await stage.driver.start(prepared, {}));
  await expect(stage.driver.start(prepared, {})).rejects.toMatchObject({ code: 'ERR_START_FAILED' });
});

it('G-4 an abort while the process comes up ends it before the call rejects', async () => {
  const prepared = await stage.driver.prestart(context(shell('exec sleep 60')));
  const controller = new AbortController();
  const reason = new Error('called off');
  const start = stage.driver.start(prepared, { signal: controller.signal });
  controller.abort(reason);
  await expect(start).rejects.toBe(reason);
  const [listed] = await stage.driver.list({});
  const { pid } = listed!.state;
  expect(pid).toBeGreaterThan(1);
  expect(runs(pid)).toBe(false);
  await prepared.discard();
  expect(await stage.driver.list({})).toEqual([]);
});

it('DP-9 an end by a signal that is not ours is nobody’s that we know', async () => {
  const handle = await stage.run('exec sleep 60');
  process.kill(handle.state.pid, 'SIGKILL');
  expect(await handle.wait({})).toMatchObject({ code: null, signal: 'SIGKILL', by: 'unknown', oom: false });
});

it('DP-9 a program that ends with a code after our signal: the code, by our signal', async () => {
  const handle = await stage.run('trap "exit 5" TERM; echo ready; for i in $(seq 1000); do sleep 0.05; done');
  await written(handle, 'ready');
  await handle.signal('SIGTERM', {});
  expect(await handle.wait({})).toMatchObject({ code: 5, signal: null, by: 'signal' });
});

it('DP-10 a signal reaches the whole group', async () => {
  const handle = await stage.run('sleep 60 & echo child $!; wait');
  const child = Number(/child (\d+)/.exec(await written(handle, 'child'))?.[1]);
  await handle.signal('SIGTERM', {});
  await handle.wait({});
  await expect.poll(() => runs(child)).toBe(false);
});

it('DP-10 what a dead leader left in its group is killed by destroy()', async () => {
  const handle = await stage.run('sleep 60 & echo child $!');
  const child = Number(/child (\d+)/.exec(await written(handle, 'child'))?.[1]);
  expect(await handle.wait({})).toMatchObject({ code: 0, by: 'self' });
  expect(runs(child)).toBe(true);
  await handle.destroy();
  await expect.poll(() => runs(child)).toBe(false);
});

it('DP-10 a process that has ended does not run, even if nobody has taken its exit', async () => {
  // The parent has become a program that never asks for the exit of the child it has inherited.
  const handle = await stage.run('(until [ -e go ]; do sleep 0.05; done) & echo child $!; exec sleep 60');
  const pid = Number(/child (\d+)/.exec(await written(handle, 'child'))?.[1]);
  const child = identify(pid);
  expect(isAlive(child)).toBe(true);
  await writeFile(join(handle.state.directory, 'go'), '');
  await expect.poll(() => runs(pid)).toBe(false);
  expect(identify(pid)).toEqual(child);
  expect(isAlive(child)).toBe(false);
});

it('S70 a signal that the system does not have is refused by name', async () => {
  const handle = await stage.run('exec sleep 60');
  await expect(handle.signal('SIGNOTHING', {})).rejects.toMatchObject({
    code: 'ERR_INVALID_OPTION',
    details: { path: 'signal' },
  });
  expect(await handle.isRunning({})).toBe(true);
});

it('DP-10 nothing stays open in this process', async () => {
  const open = async (): Promise<number> => (await readdir('/proc/self/fd')).length;
  const once = async (): Promise<void> => {
    const handle = await stage.run('exec sleep 60');
    await handle.kill({});
    await handle.wait({});
    await handle.destroy();
  };
  await once();
  const before = await open();
  for (let i = 0; i < 5; i++) await once();
  expect(await open()).toBe(before);
  expect(await readdir(stage.host.tasks)).toEqual([]);
});
