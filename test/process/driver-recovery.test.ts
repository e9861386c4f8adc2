import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import type { ProcessHandle, ProcessState } from 'handover/process';
import { expect, it, vi } from 'vitest';
import { bootId, isAlive } from '../../src/internal/process-identity.js';
import { killSurvivors, signalGroup } from '../../src/process/identity.js';
import { useStage } from './stage.js';
import { record } from './tasks.js';

const stage = useStage();

it('DP-10 a number that is somebody else’s by now is never signalled', async () => {
  const handle = await stage.run('exec sleep 60');
  // As if the process had ended, and the number had been given to a later one.
  const { pid, startedAt } = handle.state;
  // Its mark is another one, too: nobody else's process has ours.
  const reused = { mark: 'of-another', boot: bootId(), process: { pid, startedAt: startedAt - 1 } };
  await record(handle.state.directory, reused);

  const found = await stage.host.driver().recover({ ...handle.state, ...reused.process }, { owner: handle.id });
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
  const handle = await stage.run('exec sleep 60');
  const found = await stage.host.driver().recover(handle.state, { owner: handle.id });
  const wait = found?.wait({});
  process.kill(handle.state.pid, 'SIGTERM');
  expect(await wait).toMatchObject({ code: null, signal: null, by: 'unknown' });
});

it('DP-10 a recovered process that we ended says by whom, still without a code', async () => {
  const handle = await stage.run('exec sleep 60');
  const found = await stage.host.driver().recover(handle.state, { owner: handle.id });
  await found?.kill({});
  expect(await found?.wait({})).toMatchObject({ code: null, by: 'kill' });
});

it('DP-8 in the same process recover() gives the handle that knows the exit code', async () => {
  const handle = await stage.run('exit 4');
  expect(await stage.driver.recover(handle.state, { owner: handle.id })).toBe(handle);
});

it('DP-8 the state of another owner, or of an earlier start, finds nothing', async () => {
  const handle = await stage.run('exec sleep 60');
  const using = stage.host.driver();
  expect(await using.recover(handle.state, { owner: 'web-2/main' })).toBeUndefined();
  expect(await using.recover({ ...handle.state, pid: 1 }, { owner: handle.id })).toBeUndefined();
  expect(await using.recover({ ...handle.state, directory: '/etc' }, { owner: handle.id })).toBeUndefined();
});

it('DP-8 destroying a handle whose owner was prepared anew leaves the new one alone', async () => {
  const old = await stage.run('exit 0');
  await old.wait({});
  const renewed = await stage.run('exec sleep 60');
  await old.destroy();
  expect(await renewed.isRunning({})).toBe(true);
  expect((await stage.driver.list({})).map(({ state }) => state)).toEqual([renewed.state]);
});

it('G-5 a task outlives the process that started it, which nothing keeps alive', async () => {
  const state = JSON.parse(await stage.output('starter')) as ProcessState;
  const found = (await stage.driver.recover(state, { owner: 'web-1/main' })) as ProcessHandle;
  await stage.mind(found);
  expect(await found.isRunning({})).toBe(true);
  await found.signal('SIGTERM', {});
  expect(await found.wait({})).toMatchObject({ code: null, by: 'signal' });
  await found.destroy();
  expect(await readdir(stage.host.tasks)).toEqual([]);
}, 30_000);

it('what a test runs as a process of its own ends when the test is gone', async () => {
  const child = stage.fixture('waiter', [stage.host.tasks, 'exec sleep 60']);
  await expect.poll(() => stage.driver.list({}), { timeout: 10_000 }).toMatchObject([{ started: true }]);
  // As if this process had been killed.
  child.stdin.destroy();
  expect(await once(child, 'exit')).toEqual([1, null]);
}, 30_000);

it('G-5 whoever waits for an exit is kept alive until it comes', async () => {
  expect(JSON.parse(await stage.output('waiter'))).toEqual({ code: 7, by: 'self' });
}, 30_000);
