import type { LogChunk } from 'handover';
import { describe, expect, it, onTestFinished } from 'vitest';
import { framesOf } from '../../src/docker/frames.js';
import { Tail } from '../../src/internal/tail.js';
import { type Bench, bench, moving } from './driver-bench.js';
import { all, app, type Handle, handleCases } from './handle-cases.js';

async function startOn(b: Bench, spec: Parameters<Bench['ask']>[1]): Promise<Handle> {
  const prepared = await b.driver.prestart(b.ask('a', spec));
  return await b.driver.start(prepared, {});
}

describe('on a fake engine', () => {
  handleCases(async (spec) => {
    const b = await bench();
    const stop = setInterval(() => void b.clock.advance(100), 1);
    onTestFinished(() => clearInterval(stop));
    return startOn(b, spec);
  });
});

const LOGS = /\/logs\?/;

describe('a connection that is lost while output is followed', () => {
  /** Reads in the background. */
  function follow(handle: Handle): { readonly text: () => string; readonly end: Promise<string> } {
    let text = '';
    const end = (async () => {
      for await (const { chunk } of handle.logs({ follow: true })) text += Buffer.from(chunk).toString('utf8');
      return text;
    })();
    return { text: () => text, end };
  }

  it('G-8 it goes on after the last piece; nothing is lost, nothing comes twice', async () => {
    const b = await bench();
    const handle = await startOn(b, app('one\n', '', 0, 3_600_000));
    const id = handle.state.containerId;
    const long = 'y'.repeat(40_000);
    const { text, end } = follow(handle);
    b.engine.write(id, 'stdout', `${long}\n`);
    await expect.poll(text).toBe(`one\n${long}\n`);
    await b.engine.down();
    b.engine.write(id, 'stderr', 'meanwhile\n');
    await b.engine.up();
    await moving(b, b.engine.called(LOGS, 2));
    await expect.poll(text).toBe(`one\n${long}\nmeanwhile\n`);
    b.engine.write(id, 'stdout', 'after\n');
    b.engine.exit(id, 0);
    expect(await moving(b, end)).toBe(`one\n${long}\nmeanwhile\nafter\n`);
  });

  it('G-8 the container ended meanwhile: the rest is read, and that is all', async () => {
    const b = await bench();
    const handle = await startOn(b, app('one\n', '', 0, 3_600_000));
    const { text, end } = follow(handle);
    await expect.poll(text).toBe('one\n');
    await b.engine.down();
    b.engine.write(handle.state.containerId, 'stdout', 'last words\n');
    b.engine.exit(handle.state.containerId, 1);
    await b.engine.up();
    expect(await moving(b, end)).toBe('one\nlast words\n');
  });

  it('G-8 the container is gone: that is all', async () => {
    const b = await bench();
    const handle = await startOn(b, app('one\n', '', 0, 3_600_000));
    const { text, end } = follow(handle);
    await expect.poll(text).toBe('one\n');
    await b.engine.down();
    b.engine.remove(handle.state.containerId);
    await b.engine.up();
    expect(await moving(b, end)).toBe('one\n');
  });

  it('G-8 of a terminal, whose output has no times, it ends with the error', async () => {
    const b = await bench();
    const handle = await startOn(b, { ...app('one\n', '', 0, 3_600_000), create: { Tty: true } });
    const { text, end } = follow(handle);
    await expect.poll(text).toBe('one\r\n');
    const failed = expect(end).rejects.toMatchObject({ code: 'ERR_DRIVER', details: { kind: 'lost' } });
    b.engine.disconnect();
    await failed;
  });

  it('G-8 not followed, it ends with the error', async () => {
    const b = await bench();
    const handle = await startOn(b, app('one\n', '', 0, 3_600_000));
    b.engine.fault({ path: LOGS, times: 2 }, { lose: 'request' });
    await expect(all(handle)).rejects.toMatchObject({ code: 'ERR_DRIVER', details: { kind: 'lost' } });
  });

  it('an engine that refuses is not asked again', async () => {
    const b = await bench();
    const handle = await startOn(b, app('one\n', '', 0, 3_600_000));
    b.engine.fault({ path: LOGS }, { status: 500, message: 'disk on fire' });
    await expect(all(handle, { follow: true })).rejects.toThrow('disk on fire');
  });
});

it('G-4 whoever stops reading ends the connection', async () => {
  const b = await bench();
  const handle = await startOn(b, app('one\n', '', 0, 3_600_000));
  for await (const chunk of handle.logs({ follow: true })) {
    expect(Buffer.from(chunk.chunk).toString('utf8')).toBe('one\n');
    break;
  }
  b.engine.exit(handle.state.containerId, 0);
  await b.engine.idle();
});

describe('the engine’s stream', () => {
  const frame = (kind: number, text: string): Buffer => {
    const head = Buffer.from([kind, 0, 0, 0, 0, 0, 0, Buffer.byteLength(text)]);
    return Buffer.concat([head, Buffer.from(text)]);
  };
  const read = async (chunks: readonly Buffer[]): Promise<readonly [LogChunk['stream'], string][]> => {
    const frames: [LogChunk['stream'], string][] = [];
    async function* source(): AsyncGenerator<Buffer> {
      yield* chunks;
    }
    for await (const { stream, bytes } of framesOf(source(), 'read')) frames.push([stream, bytes.toString('utf8')]);
    return frames;
  };

  it('DP-8 is read no further than it is wanted', async () => {
    let asked = 0;
    async function* source(): AsyncGenerator<Buffer> {
      for (;;) {
        asked += 1;
        yield frame(1, 'piece');
      }
    }
    for await (const { bytes } of framesOf(source(), 'read')) if (asked === 5 || bytes.length === 0) break;
    expect(asked).toBe(5);
  });

  it('is cut anywhere', async () => {
    const bytes = Buffer.concat([frame(1, 'ab'), frame(2, ''), frame(0, 'in'), frame(2, 'c')]);
    const frames = [
      ['stdout', 'ab'],
      ['stderr', ''],
      ['stdout', 'in'],
      ['stderr', 'c'],
    ];
    for (let at = 0; at <= bytes.length; at++) {
      expect(await read([bytes.subarray(0, at), bytes.subarray(at)])).toEqual(frames);
    }
    expect(await read([...bytes].map((byte) => Buffer.from([byte])))).toEqual(frames);
  });

  it('that ends in a piece was lost, in its head as in its middle', async () => {
    for (const cut of [1, 7, 8, 9]) {
      await expect(read([frame(1, 'abc').subarray(0, cut)])).rejects.toMatchObject({ kind: 'lost', operation: 'read' });
    }
  });

  it('has the engine’s own words too', async () => {
    await expect(read([frame(3, ' Error grabbing logs: EOF\n')])).rejects.toMatchObject({
      kind: 'status',
      text: 'Error grabbing logs: EOF',
    });
  });
});

it.each([
  ['', ''],
  ['abc', 'abc'],
  ['abcdefghij', 'cdefghij'],
  ['aaaaaaa€b', 'aaaa€b'],
  ['€€€€', '€€'],
  ['a€€😀', '€😀'],
])('the end of %j is %j: no half character', (text, end) => {
  const tail = new Tail(8);
  for (const byte of Buffer.from(text)) tail.add(Buffer.from([byte]));
  expect(tail.text).toBe(end);
});
