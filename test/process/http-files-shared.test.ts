import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { deferred } from '../../src/internal/deferred.js';
import { CONTENT, CUT, REST, cut, expectWhole } from './cut.js';
import { whereabouts } from '../../src/internal/process-identity.js';
import { FilesBench, ignore, noise, sha256 } from './files-bench.js';
import { type Fixture, fixture } from './fixtures/run.js';

const HOUR = 60 * 60;

let bench: FilesBench;
const fixtures: Fixture[] = [];

beforeEach(async () => {
  bench = await FilesBench.open();
});
afterEach(async () => {
  for (const child of fixtures.splice(0)) child.kill('SIGKILL');
  await bench.close();
});

describe('processes', () => {
  /** A fetch by a process of its own, up to so many bytes. */
  async function fetcher(url: string, upTo: string): Promise<Fixture> {
    const child = fixture('fetcher', [bench.directory, url]);
    fixtures.push(child);
    for await (const line of createInterface(child.stdout)) if (line === upTo) return child;
    throw new Error(`ended before ${upTo}`);
  }

  it('IC-24 a process that was killed in the middle: the next one goes on with what it had', async () => {
    const url = bench.origin.ranged('/app', CONTENT, { cuts: [CUT], cut: 'silence' });
    const child = await fetcher(url, `downloading ${CUT}`);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(await bench.source().list({})).toEqual([]);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', `${REST} if "v1"`]);
    await expectWhole(bench, url);
  }, 30_000);

  it('IC-24 a process that is at it is left alone: another one fetches the whole by itself', async () => {
    const url = bench.origin.ranged('/app', CONTENT, { cuts: [CUT], cut: 'silence' });
    const child = await fetcher(url, `downloading ${CUT}`);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', '']);
    expect(await bench.partials()).toHaveLength(1);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts[2]).toBe(`${REST} if "v1"`);
    await expectWhole(bench, url);
  }, 30_000);

  it('IC-24 several at once, of one process: each has a place of its own, and one goes on with what is there', async () => {
    const url = await cut(bench);
    const [floating, wanted] = [url, `${url}#sha256=${sha256(CONTENT)}`];
    await Promise.all([floating, wanted, floating].map((reference) => bench.source().fetch(reference, ignore)));
    expect([...bench.origin.parts].sort()).toEqual(['', '', '', `${REST} if "v1"`]);
    await expectWhole(bench, wanted);
    await expectWhole(bench, floating);
  });

  const NOBODY = 999_999_999;
  const owner = (o: { namespace?: string; pid?: number; startedAt?: number }): string => {
    const { namespace, pid, startedAt } = { ...whereabouts(), ...o };
    return `${namespace}-${pid}-${startedAt}`;
  };
  it.each([
    { whose: 'left free', as: 'free', resumed: true },
    { whose: 'of a process that is gone', as: owner({ pid: NOBODY }), resumed: true },
    { whose: 'of a process whose number is this one’s by now', as: owner({ startedAt: 1 }), resumed: true },
    { whose: 'of this process', as: owner({}), resumed: false },
    { whose: 'of a process in another container', as: owner({ namespace: '1', pid: NOBODY }), resumed: false },
    { whose: 'from before the last boot', as: 'free', boot: 'abcd', resumed: false },
  ])('IC-24 a partial $whose is gone on with: $resumed', async ({ as, boot, resumed }) => {
    const url = await cut(bench);
    const [partial] = await bench.partials();
    const [key, at, uuid] = basename(partial!).split('.');
    await rename(partial!, join(partial!, '..', `${key}.${boot ?? at}.${uuid}.${as}`));
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts[1]).toBe(resumed ? `${REST} if "v1"` : '');
    expect(await bench.partials()).toHaveLength(resumed ? 0 : 1);
  });

  it.each([
    { broken: 'content is missing', files: { 'facts.json': '{"validator":"\\"v1\\""}' } },
    { broken: 'content is empty', files: { 'facts.json': '{"validator":"\\"v1\\""}', content: '' } },
    { broken: 'facts are missing', files: { content: 'x' } },
    { broken: 'facts are half written', files: { 'facts.json': '{"valid', content: 'x' } },
    { broken: 'facts are others', files: { 'facts.json': '{"validator":1}', content: 'x' } },
  ])('ST-1 a partial whose $broken counts as none, and goes', async ({ files }) => {
    const url = await cut(bench);
    const [partial] = await bench.partials();
    await rm(partial!, { recursive: true });
    await mkdir(partial!);
    for (const [name, content] of Object.entries(files)) await writeFile(join(partial!, name), content);
    await bench.source().fetch(url, ignore);
    expect(bench.origin.parts).toEqual(['', '']);
    await expectWhole(bench, url);
  });

  it.each([
    { as: 'free', boot: undefined, goes: true },
    { as: 'free', boot: 'abcd', goes: true },
    { as: owner({ namespace: '1' }), boot: undefined, goes: true },
    { as: owner({}), boot: undefined, goes: false },
    { as: owner({}), boot: 'abcd', goes: true },
  ])('IC-24 what nobody has written to for a day ($as, boot $boot) is collected: $goes', async ({ as, boot, goes }) => {
    await cut(bench);
    const [fresh] = await bench.partials();
    const [key, at, uuid] = basename(fresh!).split('.');
    const old = join(fresh!, '..', `${key!.replaceAll(/./g, 'e')}.${boot ?? at}.${uuid}.${as}`);
    await mkdir(old);
    await writeFile(join(old, 'content'), 'x');
    const now = (await stat(join(fresh!, 'content'))).mtimeMs / 1_000;
    const other = bench.origin.content('/other', 'x');

    await utimes(join(old, 'content'), now, now - 24 * HOUR + 60);
    await bench.source().fetch(other, ignore);
    expect([...(await bench.partials())].sort()).toEqual([fresh, old].sort());

    await utimes(join(old, 'content'), now, now - 24 * HOUR - 60);
    await bench.source().fetch(other, ignore);
    expect([...(await bench.partials())].sort()).toEqual((goes ? [fresh] : [fresh, old]).sort());
  });

  it('ST-1 what is not ours in the folder is left alone', async () => {
    await mkdir(join(bench.directory, 'partials'), { recursive: true });
    const notes = join(bench.directory, 'partials', 'notes.txt');
    await writeFile(notes, 'mine');
    await utimes(notes, 0, 0);
    const url = await cut(bench);
    await bench.source().fetch(url, ignore);
    expect(await readdir(join(bench.directory, 'partials'))).toEqual(['notes.txt']);
  });
});

describe('a full disk', () => {
  /** Runs the test on a file system of its own, where there is room for so much. */
  async function onSmallDisk(
    test: TestContext,
    room: string,
    work: (directory: string) => Promise<void>,
  ): Promise<void> {
    const directory = join(bench.directory, 'small');
    await mkdir(directory);
    const mayMount = process.platform === 'linux' && process.getuid?.() === 0;
    const mounted = mayMount && spawnSync('mount', ['-t', 'tmpfs', '-o', room, 'tmpfs', directory]).status === 0;
    if (!mounted) return test.skip('a small file system can be mounted by root on Linux only');
    try {
      await work(directory);
    } finally {
      spawnSync('umount', [directory]);
    }
  }

  it('case C16 is no-space, permanent; what is there goes, what is free too, and then there is room again', (test) =>
    onSmallDisk(test, 'size=256k', async (directory) => {
      const source = bench.source({ directory });
      const other = bench.origin.ranged('/other', CONTENT, { cuts: [CUT] });
      await bench.failure(other, source);
      const url = bench.origin.ranged('/app', noise(300_000));
      expect(await bench.failure(url, source)).toMatchObject({ reason: 'no-space', retryable: false });
      expect(await readdir(directory, { recursive: true })).toEqual(['partials']);
      const small = bench.origin.ranged('/app', noise(200_000));
      await source.fetch(small, ignore);
      expect((await source.find(small, {}))?.bytes).toBe(200_000);
    }));

  it('case C16 nothing is taken from a fetch that is under way', (test) =>
    onSmallDisk(test, 'size=256k', async (directory) => {
      const source = bench.source({ directory });
      const controller = new AbortController();
      const begun = deferred();
      const other = bench.origin.ranged('/other', CONTENT, { cuts: [CUT], cut: 'silence' });
      const fetched = source.fetch(other, {
        signal: controller.signal,
        onProgress: ({ bytes }) => bytes.done === CUT && begun.resolve(),
      });
      await begun.promise;
      expect(await bench.failure(bench.origin.ranged('/app', noise(300_000)), source)).toMatchObject({
        reason: 'no-space',
      });
      controller.abort(new Error('called off'));
      await expect(fetched).rejects.toThrow('called off');
      await source.fetch(other, ignore);
      expect(bench.origin.parts.at(-1)).toBe(`${REST} if "v1"`);
    }));

  it.for([3, 4, 5])('case C16 no room for more than %d files is no-space too, with nothing left', (inodes, test) =>
    onSmallDisk(test, `nr_inodes=${inodes}`, async (directory) => {
      const source = bench.source({ directory });
      const url = bench.origin.ranged('/app', CONTENT);
      expect(await bench.failure(url, source)).toMatchObject({ reason: 'no-space', retryable: false });
      expect(await readdir(join(directory, 'partials'))).toEqual([]);
      expect(await source.list({})).toEqual([]);
    }),
  );
});
