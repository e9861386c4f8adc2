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
    const prestart = stage.driver.prestart(context(shell('true', { artifact, stdout: '../main/app' })));
    await expect(prestart).rejects.toMatchObject({
      message: expect.stringMatching(/stdout cannot go to .*, which is the content of the artifact/) as string,
    });
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

describe('DP-1 a script whose interpreter is missing', () => {
  const script = (first: string, name = 'script'): Promise<void> =>
    writeFile(join(stage.host.root, name), first, { mode: 0o755 });

  it.each([
    ['#!/no/such/interp\n', '/no/such/interp'],
    ['#! \t/no/such/interp -x\necho', '/no/such/interp'],
    ['#!/no/such/interp', '/no/such/interp'],
    ['#!/bin/sh\r\necho\r\n', '/bin/sh\r'],
    ['#!../interp\n', '../interp'],
    ['#!/etc/passwd\n', '/etc/passwd'],
  ])('%j: the interpreter is named', async (content, interpreter) => {
    await script(content);
    const program = join(stage.host.root, 'script');
    await expect(stage.driver.prestart(context({ argv: [program] }))).rejects.toMatchObject({
      code: 'ERR_DRIVER',
      message: `web-1/main could not be started: ${program} is a script for ${JSON.stringify(interpreter)}, which is not a file that can be executed`,
    });
    expect(await readdir(stage.host.tasks)).toEqual([]);
  });

  it('one that is a script itself is looked at as well', async () => {
    await script('#!/no/such/interp\n', 'inner');
    await script(`#!${join(stage.host.root, 'inner')}\n`);
    const prestart = stage.driver.prestart(context({ argv: [join(stage.host.root, 'script')] }));
    await expect(prestart).rejects.toMatchObject({ message: expect.stringContaining('"/no/such/interp"') as string });
  });

  it('in the PATH it is passed over, as the system does', async () => {
    await script('#!/no/such/interp\n', 'sh');
    const PATH = `${stage.host.root}:/bin`;
    const handle = await stage.driver.start(
      await stage.driver.prestart(context({ argv: ['sh', '-c', 'exit 3'], env: { PATH } })),
      {},
    );
    expect(await handle.wait({})).toMatchObject({ code: 3 });
    const prestart = stage.driver.prestart(
      context({ argv: ['sh'], env: { PATH: stage.host.root } }, { task: 'other' }),
    );
    await expect(prestart).rejects.toMatchObject({ message: expect.stringContaining('"/no/such/interp"') as string });
  });

  it.each([
    ['#!/bin/sh\nexit 4\n', '.'],
    ['#! /bin/sh -e\nexit 4\n', '.'],
    ['#!/usr/bin/env sh\nexit 4\n', '.'],
    ['#!bin/sh\nexit 4\n', '/'],
    ['exit 4\n', '.'],
  ])('%j from %s starts', async (content, cwd) => {
    await script(content);
    const spec = { argv: [join(stage.host.root, 'script')], cwd };
    const handle = await stage.driver.start(await stage.driver.prestart(context(spec)), {});
    expect(await handle.wait({})).toMatchObject({ code: 4 });
  });
});
