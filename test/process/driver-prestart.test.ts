import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type ArtifactLeases, ProcessDriver } from 'handover/process';
import { expect, it, vi } from 'vitest';
import { deferred } from '../../src/internal/deferred.js';
import { useStage } from './stage.js';
import { context, shell } from './tasks.js';

const stage = useStage();

it('DP-3 a failed fetch leaves neither directory nor lease', async () => {
  const artifacts = stage.host.coordinator();
  const using = stage.host.driver(artifacts);
  const artifact = stage.host.origin.status('/app', 404);
  await expect(using.prestart(context(shell('true', { artifact })))).rejects.toMatchObject({
    code: 'ERR_PULL_FAILED',
    details: { reason: 'not-found-or-denied' },
  });
  expect(await readdir(stage.host.tasks).catch(() => [])).toEqual([]);
  expect(artifacts.snapshot().flatMap(({ holders }) => holders)).toEqual([]);
});

it('IC-1 the lease is held from prestart to discard, or to destroy', async () => {
  const artifacts = stage.host.coordinator();
  const using = stage.host.driver(artifacts);
  const artifact = stage.host.origin.content('/app', 'x');
  const holders = () => artifacts.snapshot().flatMap((image) => image.holders.map(({ owner }) => owner));
  const prepared = await using.prestart(context(shell('exec sleep 60', { artifact })));
  expect(holders()).toEqual(['web-1/main']);
  await prepared.discard();
  expect(holders()).toEqual([]);
  const handle = await stage.run('exec sleep 60', { artifact }, using);
  expect(holders()).toEqual(['web-1/main']);
  await handle.kill({});
  await handle.wait({});
  await handle.destroy();
  expect(holders()).toEqual([]);
});

it('DP-2 adopting a leftover asks no origin', async () => {
  const spec = shell('exec sleep 60', { artifact: stage.host.origin.content('/app', 'x') });
  const leftover = await stage.driver.prestart(context(spec));
  const requests = stage.host.origin.requests.length;
  const adopted = await stage.host.driver().prestart(context(spec));
  expect(adopted.directory).toBe(leftover.directory);
  expect(await adopted.intact({})).toBe(true);
  expect(stage.host.origin.requests).toHaveLength(requests);
});

it('DP-2 callers at the same time share one preparation, and one that leaves harms nobody', async () => {
  const asked = deferred();
  const answer = deferred();
  const artifact = stage.host.origin.on('/app', (_, response) => {
    asked.resolve();
    void answer.promise.then(() => response.end('content'));
  });
  const leaving = new AbortController();
  const spec = shell('true', { artifact });
  const first = stage.driver.prestart(context(spec, { signal: leaving.signal }));
  const second = stage.driver.prestart(context(spec));
  await asked.promise;
  const reason = new Error('left');
  leaving.abort(reason);
  await expect(first).rejects.toBe(reason);
  const third = stage.driver.prestart(context(spec));
  answer.resolve();
  expect(await third).toBe(await second);
  expect(await (await second).intact({})).toBe(true);
  expect(stage.host.origin.requests).toEqual(['GET /app']);
});

it('DP-2 a task that runs is refused, by name', async () => {
  await stage.run('exec sleep 60');
  await expect(stage.host.driver().prestart(context(shell('exec sleep 60')))).rejects.toMatchObject({
    code: 'ERR_DRIVER',
    message: expect.stringContaining('web-1/main still runs') as string,
  });
});

it('DP-2 a leftover whose state cannot be read is cleared away', async () => {
  const leftover = await stage.driver.prestart(context(shell('true')));
  await writeFile(join(leftover.directory, '.handover.json'), '{"allocId":');
  await writeFile(join(leftover.directory, 'old'), '');
  expect(await stage.host.driver().list({})).toEqual([]);
  await stage.host.driver().prestart(context(shell('true')));
  expect(await readdir(leftover.directory)).toEqual(['.handover.json']);
});

it('AL-3 what has lost its content is not intact', async () => {
  const artifact = stage.host.origin.content('/app', 'x');
  const prepared = await stage.driver.prestart(context(shell('true', { artifact })));
  await rm(join(prepared.directory, 'app'));
  expect(await prepared.intact({})).toBe(false);
});

it('DP-4 S48 content that vanished before it was linked is fetched again, once', async () => {
  const path = join(stage.host.root, 'content');
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
  const using = new ProcessDriver({ directory: stage.host.tasks, artifacts: artifacts as unknown as ArtifactLeases });
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
    artifact: { path: join(stage.host.root, 'missing') },
    verify: async () => Promise.reject(new Error('the cause')),
    async [Symbol.asyncDispose]() {
      calls.push('release');
      if (++releases < 3) throw new Error('cannot be released');
    },
  };
  const acquire = async () => (calls.push('acquire'), lease);
  const artifacts = { acquire, adopt: async () => undefined, release: async () => undefined };
  const using = new ProcessDriver(
    { directory: stage.host.tasks, artifacts: artifacts as unknown as ArtifactLeases },
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
  const using = new ProcessDriver({ directory: stage.host.tasks });
  await expect(using.prestart(context(shell('true', { artifact: 'https://h/a' })))).rejects.toMatchObject({
    code: 'ERR_INVALID_OPTION',
    details: { path: 'artifact' },
  });
});

it('DP-2 a crash while content is placed: what is left is listed, and goes by prestart and discard, asking no origin', async () => {
  const spec = shell('true', { artifact: stage.host.origin.content('/app', 'x') });
  const { directory } = await stage.driver.prestart(context(spec));
  await rm(join(directory, 'app'));
  const requests = stage.host.origin.requests.length;

  const artifacts = stage.host.coordinator();
  const using = stage.host.driver(artifacts);
  expect(await using.list({})).toMatchObject([{ allocId: 'web-1', task: 'main', started: false }]);
  await (await using.prestart(context(spec))).discard();
  expect(await using.list({})).toEqual([]);
  expect(await readdir(stage.host.tasks)).toEqual([]);
  expect(artifacts.snapshot().flatMap(({ holders }) => holders)).toEqual([]);
  expect(stage.host.origin.requests).toHaveLength(requests);
});

it('DP-2 the record is there before the content is', async () => {
  const path = join(stage.host.root, 'missing');
  const listed: unknown[] = [];
  const lease = {
    artifact: { path },
    imageId: 'sha256:x',
    async verify() {
      listed.push(...(await using.list({})));
      throw new Error('seen enough');
    },
    [Symbol.asyncDispose]: async () => undefined,
  };
  const artifacts = { acquire: async () => lease, adopt: async () => undefined, release: async () => undefined };
  const using = new ProcessDriver({ directory: stage.host.tasks, artifacts: artifacts as unknown as ArtifactLeases });
  const prestart = using.prestart(context(shell('true', { artifact: 'https://h/app' })));
  await expect(prestart).rejects.toThrow('seen enough');
  expect(listed).toMatchObject([{ allocId: 'web-1', task: 'main', started: false }]);
});

it('G-2 a relative directory stays where it was at construction', async () => {
  const cwd = vi.spyOn(process, 'cwd').mockReturnValue(stage.host.root);
  const using = new ProcessDriver({ directory: 'elsewhere' });
  cwd.mockRestore();
  const { directory } = await using.prestart(context(shell('true')));
  expect(directory).toBe(join(stage.host.root, 'elsewhere', 'web-1', 'main'));
});
