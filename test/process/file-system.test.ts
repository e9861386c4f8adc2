import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { makeFolder, readJson, writeJson } from '../../src/process/file-system.js';

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'handover-files-'));
  onTestFinished(() => rm(path, { recursive: true }));
  return path;
}

it('ST-1 JSON that cannot be put in its place leaves nothing beside it', async () => {
  const path = await folder();
  await mkdir(join(path, 'taken'));
  await expect(writeJson(join(path, 'taken'), {})).rejects.toMatchObject({ code: 'EISDIR' });
  expect(await readdir(path)).toEqual(['taken']);
});

it('ST-1 JSON takes the place of what was there, and what is not JSON is nothing', async () => {
  const file = join(await folder(), 'file');
  expect(await readJson(file)).toBeUndefined();
  await writeFile(file, '{"half');
  expect(await readJson(file)).toBeUndefined();
  await writeJson(file, { whole: 1 });
  expect(await readJson(file)).toEqual({ whole: 1 });
});

it('a folder is made with those above it, once', async () => {
  const path = join(await folder(), 'a', 'b');
  await Promise.all([makeFolder(path), makeFolder(path)]);
  await writeFile(join(path, 'file'), '');
  await makeFolder(path);
  expect(await readdir(path)).toEqual(['file']);
  await expect(makeFolder(join(path, 'file', 'c'))).rejects.toMatchObject({ code: 'ENOTDIR' });
});

it('G-8 a folder below a link that leads nowhere is an error, not an endless try', async () => {
  const path = await folder();
  await symlink(join(path, 'gone'), join(path, 'link'));
  await expect(makeFolder(join(path, 'link', 'a'))).rejects.toMatchObject({ code: 'ENOENT' });
});
