import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { StateStore } from 'handover';
import { lmdbStore } from 'handover/lmdb';
import { memoryStore } from 'handover/testing';
import { deed } from './deeds.js';
import { folders } from './folder.js';

const WRITER = fileURLToPath(new URL('fixtures/writer.ts', import.meta.url));
const { path, open, after } = folders();

class Writer {
  readonly lines: AsyncIterableIterator<string>;
  readonly #ended: Promise<unknown>;

  private constructor(readonly process: ChildProcess & { readonly stdout: Readable }) {
    this.lines = createInterface(process.stdout)[Symbol.asyncIterator]();
    this.#ended = once(process, 'close');
    after(() => this.kill());
  }

  /** @param limit - the most KiB that it may write to a file */
  static start(at: string, atOnce: number, limit = 'unlimited'): Writer {
    const command = [
      '-c',
      `ulimit -f ${limit} && exec "$@"`,
      '-',
      process.execPath,
      '--import',
      'tsx',
      WRITER,
      at,
      `${atOnce}`,
    ];
    // The lifeline: its input ends with us.
    const errors = limit === 'unlimited' ? 'inherit' : 'ignore'; // LMDB complains there of a full disk
    return new Writer(spawn('bash', command, { stdio: ['pipe', 'pipe', errors] }));
  }

  async line(): Promise<string> {
    return ((await this.lines.next()) as { value?: string }).value ?? '';
  }

  async kill(): Promise<void> {
    this.process.kill('SIGKILL');
    await this.#ended;
  }

  async exit(): Promise<number | null> {
    await this.#ended;
    return this.process.exitCode;
  }
}

/** What the store must hold after so many deeds. */
async function expectDone(store: StateStore, deeds: number): Promise<void> {
  const model = memoryStore();
  for (let n = 1; n <= deeds; n++) await model.batch(deed(n));
  expect(await store.list('')).toEqual(await model.list(''));
}

async function doneDeeds(store: StateStore): Promise<number> {
  return Number((await store.list('count'))[0]?.[1] ?? 0);
}

/** Lets writers work and kills them, over and over. */
async function killWriters(at: string, kills: number): Promise<number> {
  let done = 0;
  for (let kill = 0; kill < kills; kill++) {
    const writer = Writer.start(at, 1 + (kill % 4));
    expect(await writer.line()).toBe(`open ${writer.process.pid}`);
    let acknowledged = done;
    for (let left = Math.floor(Math.random() * 60); left > 0; left--) {
      acknowledged = Math.max(acknowledged, acknowledgedBy(await writer.line()));
    }
    await writer.kill();
    for await (const line of writer.lines) acknowledged = Math.max(acknowledged, acknowledgedBy(line));
    const store = await lmdbStore({ path: at });
    done = await doneDeeds(store);
    expect(done).toBeGreaterThanOrEqual(acknowledged);
    await expectDone(store, done);
    await store[Symbol.asyncDispose]();
  }
  return done;
}

function acknowledgedBy(line: string): number {
  expect(line).toMatch(/^acknowledged \d+$/);
  return Number(line.split(' ')[1]);
}

describe('the store of a process that is killed', () => {
  it('ST-1 whatever was acknowledged is there, no half batch is, and it can be opened at once (20 kills)', async () => {
    const done = await Promise.all([killWriters(await path(), 10), killWriters(await path(), 10)]);
    expect(Math.min(...done)).toBeGreaterThan(20);
  }, 120_000);
});

describe('two processes', () => {
  it('ST-1 of two that begin at once one gets the store, and the other is told which (ERR_STORE_LOCKED)', async () => {
    const at = await path();
    for (let round = 0; round < 3; round++) {
      const writers = [Writer.start(at, 1), Writer.start(at, 1)];
      const told = await Promise.all(writers.map((writer) => writer.line()));
      const winner = told.findIndex((line) => line.startsWith('open '));
      expect(told[winner]).toBe(`open ${writers[winner]?.process.pid}`);
      expect(told[1 - winner]).toMatch(/^failed ERR_STORE_LOCKED /);
      expect(told[1 - winner]).toContain(`in use by process ${writers[winner]?.process.pid};`);
      expect(await writers[1 - winner]!.exit()).toBe(0);
      await expect(open(at)).rejects.toMatchObject({ code: 'ERR_STORE_LOCKED' });
      await writers[winner]!.kill();
    }
    await open(at);
  }, 60_000);

  it('ST-1 the lock is of the store, not of its path', async () => {
    const at = await path();
    const store = await open(at);
    await store.batch([{ put: 'a', value: 1 }]);
    const other = Writer.start(`${at.replace(/[^/]+$/, '')}./state.db`, 1);
    expect(await other.line()).toMatch(new RegExp(`^failed ERR_STORE_LOCKED .*process ${process.pid};`));
    await other.exit();
    expect(await store.list('')).toEqual([['a', 1]]);
  }, 30_000);
});

describe('a disk that is full', () => {
  it('ST-1 AL-13 the batch is ERR_DRIVER and not made, and the process and the store go on', async () => {
    const at = await path();
    const writer = Writer.start(at, 1, '200');
    expect(await writer.line()).toMatch(/^open /);
    let [line, acknowledged] = [await writer.line(), 0];
    for (; line.startsWith('acknowledged '); line = await writer.line()) {
      acknowledged = acknowledgedBy(line);
    }
    expect(line).toMatch(/^failed ERR_DRIVER /);
    expect(JSON.parse(line.slice('failed ERR_DRIVER '.length))).toMatchObject({
      details: { driver: 'lmdb', operation: 'write', path: at },
      retryable: true,
      cause: { message: 'Input/output error' },
    });
    expect(await writer.line()).toBe(`large${' rejected'.repeat(4)}`);
    expect(await writer.line()).toBe('closed');
    expect(await writer.exit()).toBe(0);
    const store = await open(at);
    expect(await store.list('after')).toEqual([['after', true]]);
    await store.batch([{ del: 'after' }]);
    expect(acknowledged).toBeGreaterThan(5);
    await expectDone(store, acknowledged);
  }, 30_000);
});
