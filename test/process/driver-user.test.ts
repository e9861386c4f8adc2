import { readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { useStage } from './stage.js';
import { context, shell, written } from './tasks.js';

const stage = useStage();
const NOBODY = { uid: 65_534, gid: 65_533 };
const isRoot = process.getuid?.() === 0;

// Who is not root cannot start anything as somebody else.
const asRoot = it.runIf(isRoot);

asRoot('DP-10 a task runs as its user and group, and in no other groups', async () => {
  const handle = await stage.run('grep -E "^(Uid|Gid|Groups):" /proc/self/status; echo done; exec sleep 60', NOBODY);
  const ids = (await written(handle, 'done'))
    .match(/^(Uid|Gid|Groups):.*$/gm)
    ?.map((line) => line.split(/\s+/).filter(Boolean));
  expect(ids).toEqual([
    ['Uid:', ...Array<string>(4).fill('65534')],
    ['Gid:', ...Array<string>(4).fill('65533')],
    ['Groups:'],
  ]);
});

asRoot('DP-10 it can write to its directory, and put nothing in the place of the record', async () => {
  const script =
    'echo mine > file; rm -f .handover.json; mv file .handover.json; echo "$?"; ls -A | grep -v partial; echo done; exec sleep 60';
  const handle = await stage.run(script, NOBODY);
  const out = await written(handle, 'done');
  expect(out.split('\n').slice(0, -2).sort()).toEqual(['.handover.json', '1', 'file', 'stderr.log', 'stdout.log']);
  const facts = await stat(join(handle.state.directory, 'file'));
  expect([facts.uid, facts.gid]).toEqual([NOBODY.uid, NOBODY.gid]);
  expect(await stage.host.driver().list({})).toMatchObject([{ started: true }]);
});

asRoot('DP-10 a link that it leaves for our output is not followed, nor is its folder taken over', async () => {
  const outside = join(stage.host.root, 'outside');
  await writeFile(outside, 'untouched');
  const spec = shell('echo evil', NOBODY);
  const prepared = await stage.driver.prestart(context(spec));
  await symlink(outside, join(prepared.directory, 'stdout.log'));
  await expect(stage.driver.start(prepared, {})).rejects.toMatchObject({ code: 'ERR_START_FAILED' });
  await stage.host.driver().prestart(context(spec));
  await expect(stat(join(prepared.directory, 'stdout.log'))).rejects.toThrow('ENOENT');
  expect(await readFile(outside, 'utf8')).toBe('untouched');
});

it('DP-1 somebody else than root cannot start a task as another user: told by the prestart', async () => {
  vi.spyOn(process, 'getuid').mockReturnValue(1000);
  vi.spyOn(process, 'getgid').mockReturnValue(100);
  await expect(stage.driver.prestart(context(shell('true', NOBODY)))).rejects.toMatchObject({
    code: 'ERR_DRIVER',
    message: expect.stringContaining(
      'cannot run as 65534:65533: only root may start it as somebody else, and this process is 1000:100',
    ) as unknown,
  });
  await expect(stage.driver.prestart(context(shell('true', { uid: 1000, gid: 5 })))).rejects.toThrow('only root');
  await expect(stage.driver.prestart(context(shell('true', { uid: 5, gid: 100 })))).rejects.toThrow('only root');
  vi.mocked(process.getuid!).mockReturnValue(process.geteuid!());
  vi.mocked(process.getgid!).mockReturnValue(process.getegid!());
  const own = { uid: process.geteuid!(), gid: process.getegid!() };
  await (await stage.driver.prestart(context(shell('true', own)))).discard();
  await rm(stage.host.tasks, { recursive: true });
});
