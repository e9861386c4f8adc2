import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { ProcessHandle } from 'handover/process';
import { expect, it, vi } from 'vitest';
import { bootId } from '../../src/internal/process-identity.js';
import { killSurvivors } from '../../src/process/identity.js';
import { PreparedProcess } from '../../src/process/prepared.js';
import { useStage } from './stage.js';
import { context, record, runOf, runs, shell, written } from './tasks.js';

const stage = useStage();

/** The number that a task has written after a word. */
async function child(handle: ProcessHandle, word = 'child'): Promise<number> {
  const text = await written(handle, `${word} `);
  return Number(new RegExp(`${word} (\\d+)`).exec(text)?.[1]);
}

/** Makes of a start what a process leaves that is killed between the spawn and its record. */
async function unrecord(handle: ProcessHandle, script: string): Promise<void> {
  const { mark, boot } = await runOf(handle.state);
  await record(handle.state.directory, { mark, boot }, context(shell(script)).specHash);
}

it('DP-10 a stranger’s group is not killed, though its leader has ended and had our number', async () => {
  const leader = spawn('sh', ['-c', 'sleep 60 & echo $!'], { detached: true, stdio: ['ignore', 'pipe', 'ignore'] });
  const [member] = (await once(leader.stdout, 'data')) as [Buffer];
  stage.mindStranger(Number(member));
  if (leader.exitCode === null) await once(leader, 'exit');
  const left = { mark: 'ours', boot: bootId(), process: { pid: leader.pid ?? 0, startedAt: 1 } };
  const directory = join(stage.host.tasks, 'web-1', 'main');
  await record(directory, left);

  const found = await stage.driver.recover({ directory, ...left.process }, { owner: 'web-1/main' });
  await found?.destroy();
  expect(await readdir(stage.host.tasks)).toEqual([]);
  await record(directory, left);
  await stage.driver.prestart(context(shell('true')));
  killSurvivors({ mark: left.mark, boot: left.boot });
  expect(runs(Number(member))).toBe(true);
});

it('DP-10 a record from before a reboot is nobody’s, whatever runs under its number', async () => {
  const handle = await stage.run('exec sleep 60');
  const { pid } = handle.state;
  const earlier = { ...(await runOf(handle.state)), boot: 'an earlier one' };
  await record(handle.state.directory, earlier);

  const using = stage.host.driver();
  const found = await using.recover(handle.state, { owner: handle.id });
  expect(await found?.isRunning({})).toBe(false);
  await found?.kill({});
  await found?.destroy();
  await record(handle.state.directory, { mark: earlier.mark, boot: earlier.boot });
  expect(await using.list({})).toMatchObject([{ started: false }]);
  await using.prestart(context(shell('exec sleep 60')));
  expect(runs(pid)).toBe(true);
});

it('DP-10 a group is ours while one of its members carries the mark, whatever the spec sets', async () => {
  const script = 'sleep 60 & env -i PATH="$PATH" sleep 60 & echo child $!';
  const handle = await stage.run(script, { env: { HANDOVER_TASK: 'a name of my own' } });
  const unmarked = await child(handle);
  await handle.wait({});
  await expect.poll(() => readFile(`/proc/${unmarked}/environ`, 'utf8')).not.toContain('HANDOVER_TASK');
  const found = await stage.host.driver().recover(handle.state, { owner: handle.id });
  await found?.destroy();
  await expect.poll(() => runs(unmarked)).toBe(false);
});

it('DP-10 who has left the group is left alone, though it carries the mark', async () => {
  const handle = await stage.run('setsid sleep 60 & echo child $!');
  const daemon = await child(handle);
  stage.mindStranger(daemon);
  await expect.poll(() => readFile(`/proc/${daemon}/comm`, 'utf8')).toBe('sleep\n');
  await handle.wait({});
  await handle.destroy();
  expect(runs(daemon)).toBe(true);
});

it('DP-2 the intent to start is on disk before anything is started', async () => {
  const handle = await stage.run('cat .handover.json; echo " mark $HANDOVER_TASK"');
  const [, json = '', mark] = /(.*) mark (.*)/.exec(await written(handle, ' mark ')) ?? [];
  expect(JSON.parse(json)).toMatchObject({ run: { mark, boot: bootId() } });
});

it('DP-2 a crash between the start and its record: the process is found, and no second one is started', async () => {
  const script = 'exec sleep 60';
  const handle = await stage.run(script);
  await unrecord(handle, script);

  const using = stage.host.driver();
  expect(await using.list({})).toMatchObject([{ started: true, state: handle.state }]);
  await expect(using.prestart(context(shell(script)))).rejects.toMatchObject({
    code: 'ERR_DRIVER',
    message: expect.stringContaining('still runs') as string,
  });
  const found = await using.recover(handle.state, { owner: handle.id });
  expect(await found?.isRunning({})).toBe(true);
  await found?.kill({});
  expect(await found?.wait({})).toMatchObject({ by: 'kill' });
  // Its end is on record as that of a task that was started.
  expect(await stage.host.driver().list({})).toMatchObject([{ started: true, state: handle.state }]);
  await found?.destroy();
  expect(await readdir(stage.host.tasks)).toEqual([]);
});

it('DP-2 a crash between the start and its record: what an ended leader has left is killed', async () => {
  const script = 'sleep 60 & echo child $!';
  const handle = await stage.run(script);
  const member = await child(handle);
  await handle.wait({});
  await unrecord(handle, script);

  const using = stage.host.driver();
  expect(await using.list({})).toMatchObject([{ started: false }]);
  await using.prestart(context(shell(script)));
  await expect.poll(() => runs(member)).toBe(false);
});

it('DP-2 a crash before the start: what was prepared is adopted, and is started once', async () => {
  const spec = shell('exec sleep 60');
  const directory = join(stage.host.tasks, 'web-1', 'main');
  await record(directory, { mark: 'of nothing', boot: bootId() }, context(spec).specHash);
  expect(await stage.driver.list({})).toMatchObject([{ started: false, state: { pid: 0 } }]);
  const prepared = await stage.driver.prestart(context(spec));
  const handle = await stage.driver.start(prepared, {});
  await stage.mind(handle);
  expect(await prepared.intact({})).toBe(false);
  expect(await handle.isRunning({})).toBe(true);
});

it('G-4 an abort while the start is recorded ends the group too, though its leader has ended', async () => {
  const prepared = await stage.driver.prestart(context(shell('sleep 60 & echo $! >member')));
  if (!(prepared instanceof PreparedProcess)) throw new Error('not what the driver prepares');
  const controller = new AbortController();
  const reason = new Error('called off');
  const write = prepared.folder.write.bind(prepared.folder);
  vi.spyOn(prepared.folder, 'write').mockImplementation(async (kept) => {
    await write(kept);
    const leader = kept.run?.process?.pid;
    if (leader === undefined) return;
    await expect.poll(() => runs(leader)).toBe(false);
    controller.abort(reason);
  });
  await expect(stage.driver.start(prepared, { signal: controller.signal })).rejects.toBe(reason);
  const member = Number(await readFile(join(prepared.directory, 'member'), 'utf8'));
  stage.mindStranger(member);
  await expect.poll(() => runs(member)).toBe(false);
});
