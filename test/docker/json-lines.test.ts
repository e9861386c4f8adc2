import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CorruptStream, JsonLines, type JsonObject } from '../../src/docker/json-lines.js';

function decode(...chunks: readonly (string | Uint8Array)[]): JsonObject[] {
  const objects: JsonObject[] = [];
  const lines = new JsonLines((object) => objects.push(object));
  for (const chunk of chunks) lines.push(typeof chunk === 'string' ? Buffer.from(chunk) : chunk);
  lines.end();
  return objects;
}

/** Cuts bytes at the given places. */
function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const at = [0, ...[...places].sort((a, b) => a - b).map((place) => place % (bytes.length + 1)), bytes.length];
  return at.sort((a, b) => a - b).flatMap((end, i) => (i === 0 ? [] : [bytes.subarray(at[i - 1], end)]));
}

describe('IC-11 the stream', () => {
  it.each([
    { what: 'one line', chunks: ['{"a":1}\n'], objects: [{ a: 1 }] },
    {
      what: 'several lines in a chunk',
      chunks: ['{"a":1}\n{"a":2}\n{"a":3}\n'],
      objects: [{ a: 1 }, { a: 2 }, { a: 3 }],
    },
    { what: 'a line over several chunks', chunks: ['{"a', '":', '1}', '\n'], objects: [{ a: 1 }] },
    { what: 'carriage returns', chunks: ['{"a":1}\r\n{"a":2}\r', '\n'], objects: [{ a: 1 }, { a: 2 }] },
    { what: 'blank lines', chunks: ['\n\r\n{"a":1}\n\n  \n'], objects: [{ a: 1 }] },
    { what: 'a last line without an end', chunks: ['{"a":1}\n{"error":"x"}'], objects: [{ a: 1 }, { error: 'x' }] },
    { what: 'nothing', chunks: [], objects: [] },
    { what: 'empty chunks', chunks: ['', '{"a":1}', '', '\n', ''], objects: [{ a: 1 }] },
  ])('case C5 $what', ({ chunks, objects }) => {
    expect(decode(...chunks)).toEqual(objects);
  });

  it('a chunk that ends inside a character', () => {
    const bytes = Buffer.from('{"name":"größe 🐳"}\n');
    for (let at = 0; at <= bytes.length; at++) {
      expect(decode(bytes.subarray(0, at), bytes.subarray(at))).toEqual([{ name: 'größe 🐳' }]);
    }
  });

  it.each([
    { what: 'a page', text: '<html>502 Bad Gateway</html>\r\n' },
    { what: 'a line cut short', text: '{"status":"Downl' },
    { what: 'two objects on a line', text: '{"a":1}{"a":2}\n' },
    { what: 'an array', text: '[1]\n' },
    { what: 'null', text: 'null\n' },
    { what: 'a number', text: '12\n' },
  ])('case C4 $what is corrupt, after what came before it', ({ text }) => {
    const objects: JsonObject[] = [];
    const lines = new JsonLines((object) => objects.push(object));
    lines.push(Buffer.from('{"a":1}\n'));
    expect(() => {
      lines.push(Buffer.from(text));
      lines.end();
    }).toThrow(CorruptStream);
    expect(objects).toEqual([{ a: 1 }]);
  });

  it('the error shows the start of the text', () => {
    expect(() => decode('<html>502 Bad Gateway</html>')).toThrow(/<html>502 Bad Gateway/);
  });

  it('a line without end is given up at 1 MiB, whatever its chunks are', () => {
    const lines = new JsonLines(() => undefined);
    const chunk = Buffer.alloc(64 * 1024, 'x');
    for (let i = 0; i < 16; i++) lines.push(chunk);
    expect(() => lines.push(Buffer.from('x'))).toThrow(/longer than 1048576 bytes/);
    const long = Buffer.from(`{"a":"${'x'.repeat(1024 * 1024 - 8)}"}`);
    expect(long.length).toBe(1024 * 1024);
    expect(decode(long, '\n{"b":1}\n')).toHaveLength(2);
  });

  it('any chunking gives the same objects', () => {
    const object = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue(), { noNullPrototype: true });
    fc.assert(
      fc.property(
        fc.array(object, { maxLength: 20 }),
        fc.constantFrom('\n', '\r\n', '\n\n'),
        fc.boolean(),
        fc.array(fc.nat(2_000), { maxLength: 40 }),
        (objects, newline, terminated, places) => {
          const text = objects.map((each) => JSON.stringify(each)).join(newline) + (terminated ? newline : '');
          const whole = objects.map((each) => JSON.parse(JSON.stringify(each)) as unknown);
          expect(decode(...cut(Buffer.from(text), places))).toEqual(whole);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('B7 chunks of one byte cost as much a byte as large ones: nothing is copied again and again', () => {
    let copied = 0;
    const concat = Buffer.concat.bind(Buffer);
    const spy = (list: readonly Uint8Array[], length?: number): Buffer => {
      const joined = concat(list, length);
      copied += joined.length;
      return joined;
    };
    Object.assign(Buffer, { concat: spy });
    try {
      const bytes = Buffer.from(`{"a":"${'x'.repeat(10_000)}"}\n`);
      decode(
        ...cut(
          bytes,
          Array.from({ length: bytes.length }, (_, i) => i),
        ),
      );
      expect(copied).toBe(bytes.length);
    } finally {
      Object.assign(Buffer, { concat });
    }
  });
});
