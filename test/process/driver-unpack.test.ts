import { mkdir, mkdtemp, readdir, readFile, readlink, realpath, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { create, Header } from 'tar';
import { describe, expect, it, onTestFinished } from 'vitest';
import { unpack } from '../../src/process/unpack.js';
import { useStage } from './stage.js';
import { context, written } from './tasks.js';

const stage = useStage();

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'handover-unpack-'));
  onTestFinished(() => rm(path, { recursive: true }));
  return path;
}

type Thing = Readonly<{ path: string; type?: string; linkpath?: string; mode?: number; text?: string }>;

/** An archive as nobody's tool would make it. */
function archive(things: readonly Thing[]): Buffer {
  const blocks = things.flatMap(({ path, type = 'File', linkpath, mode = 0o644, text = '' }) => {
    const body = type === 'File' ? Buffer.from(text) : Buffer.alloc(0);
    const header = new Header({
      path,
      type: type as 'File',
      mode,
      size: body.length,
      uid: 4,
      gid: 4,
      ...(linkpath === undefined ? {} : { linkpath }),
    });
    const head = Buffer.alloc(512);
    header.encode(head);
    return [head, body, Buffer.alloc((512 - (body.length % 512)) % 512)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

/** An archive of an app, made as people make them. */
async function app(gzip: boolean): Promise<Buffer> {
  const from = await folder();
  await mkdir(join(from, 'bin'));
  await writeFile(join(from, 'bin/app'), '#!/bin/sh\necho "ready $(cat data)"; exec sleep 60\n', { mode: 0o755 });
  await symlink('app', join(from, 'bin/alias'));
  await writeFile(join(from, 'data'), 'unpacked');
  const file = join(from, 'x.tar');
  await create({ cwd: from, file, gzip, portable: true }, ['bin', 'data']);
  return readFile(file);
}

const TASK = () => join(stage.host.tasks, 'web-1', 'main');
const spec = (artifact: string) => ({ argv: ['bin/alias'] as const, artifact, unpack: true });

describe('an artifact that is an archive', () => {
  it.each([true, false])('DP-10 is unpacked into the task’s directory by the prestart: gzip=%s', async (gzip) => {
    const url = stage.host.origin.content('/app.tar.gz', await app(gzip));
    const prepared = await stage.driver.prestart(context(spec(url)));
    expect((await readdir(TASK())).sort()).toEqual(['.handover.json', 'bin', 'data']);
    const handle = await stage.mind(await stage.driver.start(prepared, {}));
    expect(await written(handle, 'ready')).toBe('ready unpacked\n');
  });

  it('DP-2 a leftover is unpacked anew, without its origin', async () => {
    const url = stage.host.origin.content('/app.tar', await app(false));
    await stage.driver.prestart(context(spec(url)));
    await rm(join(TASK(), 'bin'), { recursive: true });
    const { length } = stage.host.origin.requests;
    const prepared = await stage.host.driver().prestart(context(spec(url)));
    expect(await prepared.intact({})).toBe(true);
    expect(await readdir(join(TASK(), 'bin'))).toEqual(['alias', 'app']);
    expect(stage.host.origin.requests).toHaveLength(length);
  });

  it('DP-3 one that is bad leaves nothing, and is told by the name of its entry', async () => {
    const url = stage.host.origin.content('/app.tar', archive([{ path: 'ok' }, { path: '../../evil' }]));
    await expect(stage.driver.prestart(context(spec(url)))).rejects.toMatchObject({
      code: 'ERR_DRIVER',
      message: expect.stringContaining('its entry "../../evil" does not stay inside') as unknown,
      details: { operation: 'prestart', owner: 'web-1/main' },
    });
    expect(await readdir(stage.host.tasks)).toEqual([]);
  });

  it.each(['stdout.log', 'stderr.log', '.handover.json'])('DP-10 one that has %s in it is refused', async (path) => {
    const url = stage.host.origin.content('/app.tar', archive([{ path }]));
    await expect(stage.driver.prestart(context(spec(url)))).rejects.toThrow('would take the place of');
  });

  it.each([
    ['what is no archive', Buffer.from('hello, this is no archive')],
    ['one that is cut', archive([{ path: 'a', text: 'x'.repeat(9000) }]).subarray(0, 3000)],
  ])('DP-3 %s is refused, and nothing is left', async (_, bytes) => {
    const url = stage.host.origin.content('/app.tar', bytes);
    await expect(stage.driver.prestart(context(spec(url)))).rejects.toMatchObject({
      code: 'ERR_DRIVER',
      message: expect.stringContaining('could not be unpacked for web-1/main') as unknown,
    });
    expect(await readdir(stage.host.tasks)).toEqual([]);
  });

  it('G-4 an abort in the middle leaves nothing', async () => {
    const things = Array.from({ length: 3000 }, (_, i) => ({ path: `d${i}/f`, text: 'x'.repeat(700) }));
    const url = stage.host.origin.content('/app.tar', archive(things));
    const controller = new AbortController();
    const prestart = stage.driver.prestart(context(spec(url), { signal: controller.signal }));
    await expect.poll(() => readdir(TASK()).catch(() => []), { interval: 1 }).toContain('d5');
    controller.abort(new Error('enough'));
    await expect(prestart).rejects.toThrow('enough');
    expect(await readdir(stage.host.tasks)).toEqual([]);
  });
});

describe('unpack()', () => {
  it('DP-10 takes the rights of files, but no setuid, and no owner', async () => {
    const [from, to] = [await folder(), await folder()];
    const things = [
      { path: 'a', mode: 0o4755 },
      { path: 'b', mode: 0o600 },
      { path: 'd', type: 'Directory', mode: 0o2750 },
    ];
    await writeFile(join(from, 'x'), archive(things));
    await unpack(join(from, 'x'), to, new Map(), {});
    const modes = await Promise.all(things.map(async ({ path }) => stat(join(to, path))));
    expect(modes.map(({ mode }) => (mode & 0o7777).toString(8))).toEqual(['755', '600', '750']);
    expect(modes.map(({ uid }) => uid)).toEqual(things.map(() => process.getuid?.()));
  });

  it.each([
    ['to a name like that of its folder', [{ path: 'd/l', type: 'SymbolicLink', linkpath: 'd' }]],
    [
      'to a link',
      [
        { path: 'd/x.1' },
        { path: 'd/x', type: 'SymbolicLink', linkpath: 'x.1' },
        { path: 'd/l', type: 'SymbolicLink', linkpath: 'x' },
      ],
    ],
  ])('DP-10 makes a link %s', async (_, things) => {
    const [from, to] = [await folder(), await folder()];
    await writeFile(join(from, 'x'), archive(things));
    await unpack(join(from, 'x'), to, new Map(), {});
    expect(await readlink(join(to, 'd/l'))).toBe(things.at(-1)?.linkpath);
  });

  it('DP-10 whatever is in an archive, nothing is written outside of the folder', async () => {
    const around = await folder();
    const name = fc.oneof(
      fc.constantFrom('a', 'b', 'a/b', 'a/b/c', '../x', '/tmp/handover-evil', 'a/../../x', './a', '.', '..', 'b/..'),
      fc
        .array(fc.constantFrom('a', 'b', '..', '.', ''), { minLength: 1, maxLength: 4 })
        .map((parts) => parts.join('/')),
    );
    const thing = fc.record({
      path: name,
      type: fc.constantFrom('File', 'Directory', 'SymbolicLink', 'Link', 'FIFO'),
      linkpath: name,
      text: fc.constant('evil'),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(thing, { minLength: 1, maxLength: 6 }), async (things) => {
        const root = await mkdtemp(join(around, 'run-'));
        const inside = join(root, 'up/inside');
        await mkdir(inside, { recursive: true });
        await writeFile(join(root, 'up/x'), 'untouched');
        await writeFile(join(root, 'archive'), archive(things));
        await unpack(join(root, 'archive'), inside, new Map(), {}).catch(() => undefined);
        expect([await readdir(root), await readdir(join(root, 'up'))]).toEqual([
          ['archive', 'up'],
          ['inside', 'x'],
        ]);
        expect(await readFile(join(root, 'up/x'), 'utf8')).toBe('untouched');
        for (const made of await readdir(inside, { recursive: true })) {
          const leads = await realpath(join(inside, made)).catch(() => inside);
          expect(leads === inside || leads.startsWith(`${inside}/`)).toBe(true);
        }
        await rm(root, { recursive: true });
      }),
      { numRuns: 300 },
    );
    await expect(stat('/tmp/handover-evil')).rejects.toThrow('ENOENT');
  });
});
