import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFile, readdir, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { open } from 'lmdb';
import { describe, expect, it } from 'vitest';
import { lmdbStore } from 'handover/lmdb';
import { describeStateStore } from 'handover/testing';
import { type LmdbStore, folders } from './folder.js';

const { path, open: openStore, after } = folders();

let suite: { path: string; store: LmdbStore };
describeStateStore('lmdbStore', {
  runner: { describe, it },
  make: async () => {
    const at = await path();
    suite = { path: at, store: await openStore(at) };
    return suite.store;
  },
  again: async () => {
    await suite.store[Symbol.asyncDispose]();
    return openStore(suite.path);
  },
});

/** As somebody else would open the file. */
function openRaw(at: string) {
  return open<string, Buffer>({ path: at, noSubdir: true, keyEncoding: 'binary', encoding: 'string', maxDbs: 1 });
}

/** What is at the path and beside it, but for LMDB's lock file. */
async function content(at: string): Promise<readonly (readonly [string, string])[]> {
  const names = (await readdir(dirname(at))).filter((name) => !name.endsWith('-lock'));
  return Promise.all(names.map(async (name) => [name, await readFile(join(dirname(at), name), 'base64')] as const));
}

async function written(entries = 3): Promise<string> {
  const at = await path();
  const store = await lmdbStore({ path: at });
  for (let i = 0; i < entries; i++) await store.batch([{ put: `key ${i}`, value: { i, text: 'x'.repeat(i * 50) } }]);
  await store[Symbol.asyncDispose]();
  return at;
}

async function expectCorrupt(at: string, message: string | RegExp): Promise<void> {
  const before = await content(at);
  // Twice: the first attempt must not leave it open.
  for (let attempts = 0; attempts < 2; attempts++) {
    const error: unknown = await lmdbStore({ path: at }).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'ERR_STORE_CORRUPT', details: { path: at }, retryable: false });
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).toContain('Nothing of it was changed');
    expect(await content(at)).toEqual(before);
  }
}

describe('lmdbStore', () => {
  it('ST-1 files are for their owner only, and so is a folder that it makes', async () => {
    const at = join(dirname(await path()), 'made', 'deep', 'state.db');
    const store = await openStore(at);
    await store.batch([{ put: 'a', value: 1 }]);
    const mode = async (file: string): Promise<number> => (await stat(file)).mode & 0o777;
    expect(await readdir(dirname(at))).toEqual(['state.db', 'state.db-lock']);
    expect(await Promise.all([at, `${at}-lock`].map(mode))).toEqual([0o600, 0o600]);
    expect(await Promise.all([dirname(at), dirname(dirname(at))].map(mode))).toEqual([0o700, 0o700]);
  });

  it.each([{}, { path: '' }, { path: 1 }, { path: 'a', mode: 1 }])('G-2 refuses %j', async (options) => {
    await expect(lmdbStore(options as never)).rejects.toMatchObject({ code: 'ERR_INVALID_OPTION' });
  });

  it('ST-1 a path that the system refuses is ERR_DRIVER with the reason', async () => {
    const at = await path();
    await writeFile(at, '');
    await expect(lmdbStore({ path: join(at, 'below') })).rejects.toMatchObject({
      code: 'ERR_DRIVER',
      details: { driver: 'lmdb', operation: 'open' },
      message: expect.stringContaining('ENOTDIR') as string,
    });
  });

  it.each(['', '-lock'])(
    'G-2 ST-1 what is at the path%s and no regular file is refused, and not opened',
    async (end) => {
      const at = await path();
      const socket = createServer().listen(`${at}.socket`);
      after(async () => void socket.close());
      await once(socket, 'listening');
      await promisify(execFile)('mkfifo', [`${at}.fifo`]);
      const others = { device: '/dev/null', folder: dirname(at), socket: `${at}.socket`, fifo: `${at}.fifo` };
      for (const [kind, other] of Object.entries(others)) {
        const link = `${at}.${kind}.link`;
        await symlink(other, `${link}${end}`);
        await expect(lmdbStore({ path: link }), kind).rejects.toMatchObject({
          code: 'ERR_INVALID_OPTION',
          details: { path: 'path' },
          message: expect.stringContaining(`${link}${end}`) as string,
        });
      }
      await expect(lmdbStore({ path: '/dev/null' })).rejects.toMatchObject({ code: 'ERR_INVALID_OPTION' });
    },
  );

  it('ST-1 a link to a file is a file', async () => {
    const at = await path();
    await writeFile(`${at}.real`, '');
    await symlink(`${at}.real`, at);
    const store = await openStore(at);
    await store.batch([{ put: 'a', value: 1 }]);
    expect(await store.list('')).toEqual([['a', 1]]);
  });

  it('ST-1 an empty file is a new store', async () => {
    const at = await path();
    await writeFile(at, '');
    expect(await (await openStore(at)).list('')).toEqual([]);
  });

  it('ST-1 a relative path is what it was when the store was opened', async () => {
    const at = await path();
    const there = relative(process.cwd(), at);
    await openStore(there);
    await expect(lmdbStore({ path: there })).rejects.toMatchObject({ code: 'ERR_STORE_LOCKED', details: { path: at } });
  });
});

describe('closing', () => {
  it('ST-1 disposing waits for what is being written, and may be repeated', async () => {
    const at = await path();
    const store = await lmdbStore({ path: at });
    const writing = Promise.all(Array.from({ length: 20 }, (_, i) => store.batch([{ put: `${i}`, value: i }])));
    const closing = store[Symbol.asyncDispose]();
    expect(store[Symbol.asyncDispose]()).toBe(closing);
    await closing;
    expect(await (await openStore(at)).list('')).toHaveLength(20);
    await writing;
    await store[Symbol.asyncDispose]();
  });

  it('ST-1 the lock is held until everything is written', async () => {
    const at = await path();
    const store = await openStore(at);
    const onlooker = openRaw(at);
    let written = false;
    const writing = store.batch([{ put: 'a', value: 'x'.repeat(3_000_000) }]).then(() => (written = true));
    const closing = store[Symbol.asyncDispose]();
    await Promise.resolve();
    expect([written, onlooker.readerList()]).toEqual([false, expect.stringContaining(`${process.pid}`)]);
    await Promise.all([writing, closing]);
    expect(onlooker.readerList()).toContain('no active readers');
    await onlooker.close();
  });

  it('ST-1 a closed store is ERR_CLOSED', async () => {
    const store = await lmdbStore({ path: await path() });
    const closing = store[Symbol.asyncDispose]();
    for (const call of [store.batch([]), store.batch([{ del: 'a' }]), store.list('')]) {
      await expect(call).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    }
    await closing;
  });
});

describe('one at a time', () => {
  it('ST-1 a second one in the same process is ERR_STORE_LOCKED, and does the first no harm', async () => {
    const at = await path();
    const first = await openStore(at);
    await first.batch([{ put: 'a', value: 1 }]);
    for (let i = 0; i < 3; i++) {
      await expect(lmdbStore({ path: at })).rejects.toMatchObject({
        code: 'ERR_STORE_LOCKED',
        details: { path: at },
        retryable: true,
        message: expect.stringContaining(`in use by process ${process.pid};`) as string,
      });
    }
    await first.batch([{ put: 'b', value: 2 }]);
    expect(await first.list('')).toHaveLength(2);
    await first[Symbol.asyncDispose]();
    expect(await (await openStore(at)).list('')).toHaveLength(2);
  });

  it('ST-1 of several that begin at once in one process, one gets it', async () => {
    const at = await path();
    const all = await Promise.allSettled(Array.from({ length: 5 }, () => openStore(at)));
    const refused = all.filter((one) => one.status === 'rejected');
    expect(refused).toHaveLength(4);
    for (const { reason } of refused) expect(reason).toMatchObject({ code: 'ERR_STORE_LOCKED' });
  });

  it('ST-1 the lock is held through writing, reading and doing nothing', async () => {
    const at = await path();
    const store = await openStore(at);
    for (let i = 0; i < 30; i++) {
      await store.batch([{ put: `${i % 3}`, value: 'x'.repeat(i * 1000) }]);
      if (i % 2 > 0) await store.list('');
      // A turn of the event loop: LMDB lets go of its snapshots then.
      if (i % 3 > 0) await new Promise((resolve) => setImmediate(resolve));
      await expect(lmdbStore({ path: at })).rejects.toMatchObject({ code: 'ERR_STORE_LOCKED' });
    }
  });
});

describe('what cannot be used', () => {
  it('ST-1 a file of something else', async () => {
    const at = await path();
    for (const text of ['{}', 'no store\n'.repeat(5000)]) {
      await writeFile(at, text);
      await expectCorrupt(at, /it (is no LMDB file|ends before byte 160)/);
    }
    expect(await readdir(dirname(at))).toEqual(['state.db']);
  });

  it('ST-1 an LMDB file of somebody else', async () => {
    const at = await path();
    const other = openRaw(at);
    await other.put(Buffer.from('theirs'), 'x');
    await other.close();
    await expectCorrupt(at, 'it is an LMDB file of somebody else');
  });

  it('ST-1 a store of a newer version', async () => {
    const at = await written();
    const other = openRaw(at);
    await other.put(Buffer.from([0xff]), '2');
    await other.close();
    await expectCorrupt(at, 'it has format 2, and this version of handover knows 1 only');
  });

  it('ST-1 a value with a bit turned over, or of another key', async () => {
    const at = await written();
    const file = await readFile(at);
    const place = file.lastIndexOf('"i":2');
    file[place + 4]! ^= 1;
    await writeFile(at, file);
    await expectCorrupt(at, 'what it has under "key 2" is not what was written');

    const moved = await written();
    const other = openRaw(moved);
    await other.put(Buffer.from('key 1'), other.get(Buffer.from('key 0'))!);
    await other.close();
    await expectCorrupt(moved, 'what it has under "key 1" is not what was written');
  });

  it('ST-1 a value that is damaged while the store is open is an error of list(), not of what else is there', async () => {
    const at = await written();
    const store = await openStore(at);
    const other = openRaw(at);
    await other.put(Buffer.from('key 1'), 'no such record');
    await other.close();
    // After a batch of its own it reads the latest state, and not what it has seen a moment ago.
    await store.batch([{ put: 'own', value: 1 }]);
    await expect(store.list('key')).rejects.toMatchObject({ code: 'ERR_STORE_CORRUPT' });
    expect(await store.list('key 2')).toHaveLength(1);
  });
});
