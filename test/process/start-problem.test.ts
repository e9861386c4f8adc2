import { spawnSync } from 'node:child_process';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ProcessSpec } from 'handover/process';
import { beforeEach, describe, expect, it } from 'vitest';
import { useStage } from './stage.js';
import { context, shell } from './tasks.js';

const stage = useStage();

beforeEach(async () => {
  await mkdir(join(stage.host.root, 'folder'));
  await writeFile(join(stage.host.root, 'file'), '');
  spawnSync('mkfifo', [join(stage.host.root, 'pipe')]);
});

/** Beside the directory of tasks. */
const beside = (path: string): string => join('..', '..', '..', path);

describe('prestart finds out what could not be started, and leaves nothing', () => {
  it.each<[string, ProcessSpec]>([
    ['there is no program no-such-program', { argv: ['no-such-program'] }],
    ['there is no program sh in the PATH', { argv: ['sh'], env: { PATH: '/nowhere' } }],
    ['./missing is not a file that can be executed', { argv: ['./missing'] }],
    ['/etc/passwd is not a file that can be executed', { argv: ['/etc/passwd'] }],
    ['/etc is not a file that can be executed', { argv: ['/etc'] }],
    ['to start in is not there', shell('true', { cwd: 'nowhere' })],
    ['to start in is not there', shell('true', { cwd: beside('file') })],
    ['for stdout is not there', shell('true', { stdout: 'logs/out' })],
    ['for stderr is not there', shell('true', { stderr: '/nowhere/err' })],
    ['for stdout is not there', shell('true', { stdout: beside('file/out') })],
    ['for stdout is not a file', shell('true', { stdout: beside('folder') })],
    ['for stderr is not a file', shell('true', { stderr: beside('pipe') })],
    ['for stdout is not a file', shell('true', { stdout: '.' })],
    ['stdout cannot go to', shell('true', { stdout: '.handover.json' })],
    ['stderr cannot go to', shell('true', { stderr: '../main/.handover.json' })],
  ])('DP-1 S49 %s: %j', async (problem, spec) => {
    await expect(stage.driver.prestart(context(spec))).rejects.toMatchObject({
      code: 'ERR_DRIVER',
      message: expect.stringContaining(problem) as string,
      details: { driver: 'process', operation: 'prestart', owner: 'web-1/main' },
    });
    expect(await readdir(stage.host.tasks)).toEqual([]);
    expect((await readdir(stage.host.root)).sort()).toEqual(['file', 'folder', 'pipe', 'tasks']);
  });

  it('DP-1 IC-24 output cannot go into the content, which others share', async () => {
    const artifact = stage.host.origin.content('/app', 'content');
    const prestart = stage.driver.prestart(context(shell('true', { artifact, stdout: './app' })));
    await expect(prestart).rejects.toMatchObject({ message: expect.stringContaining('stdout cannot go to') as string });
  });

  it.each<ProcessSpec>([
    shell('true', { stdout: '/dev/null', stderr: '/dev/null' }),
    shell('true', { stdout: beside('file'), stderr: beside('folder/new') }),
    shell('true', { cwd: beside('folder') }),
    { argv: ['sh', '-c', 'true'], inheritEnv: [] },
    { argv: ['sh', '-c', 'true'], env: { PATH: ':/bin' } },
  ])('DP-1 what can be started is not refused, and starts: %j', async (spec) => {
    const handle = await stage.driver.start(await stage.driver.prestart(context(spec)), {});
    expect(await handle.wait({})).toMatchObject({ code: 0 });
  });
});
