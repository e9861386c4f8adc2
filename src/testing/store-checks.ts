import assert from 'node:assert/strict';
import { isHandoverError } from '../errors.js';
import type { StoreOp } from '../store/store.js';
import type { StateStoreSuite, StoreBench } from './store-suite.js';
import type { Check } from './suite-runner.js';

/** Checks of a store; that of its durability only when it can be opened again. */
export function storeChecks({ again }: StateStoreSuite): readonly Check<StoreBench>[] {
  return [...LIST_CHECKS, ...BATCH_CHECKS, ...REFUSALS, ...(again === undefined ? [] : [durable(again)])];
}

/** In the order of their bytes in UTF-8; by UTF-16 the last two would change places. */
const ORDERED = ['\0', '\n', ' ', '/', 'A', 'a', 'a\0', 'a/', 'a/b', 'aa', 'b', 'é', '\uffff', '\u{1f600}'];

const VALUES: readonly unknown[] = [
  ...[null, true, false, 0, -1.5, 1e300, Number.MAX_SAFE_INTEGER, '', 'text', '\0', '\u{1f600}', '\ud800'],
  ...[
    [],
    {},
    [[]],
    { a: { b: [1, null, { c: '' }] } },
    JSON.parse('{"__proto__":1,"":2}') as unknown,
    'x'.repeat(100_000),
  ],
];

const circle: { self?: unknown } = {};
circle.self = circle;

const NOT_JSON: readonly unknown[] = [
  ...[undefined, () => 1, Symbol('s'), 1n, NaN, Infinity, -Infinity, new Date(0), new Map(), new Error('no')],
  ...[{ a: undefined }, [undefined], { a: [1, { b: NaN }] }, { toJSON: () => 1 }, Array(1), circle],
];

const LIST_CHECKS: readonly Check<StoreBench>[] = [
  [
    'ST-1 list() gives what begins with the prefix, in the order of the bytes of the keys',
    async (bench) => {
      const shuffled = [...ORDERED.slice(7).reverse(), ...ORDERED.slice(0, 7)];
      await bench.put(Object.fromEntries(shuffled.map((name) => [name, name])));
      const listed = async (prefix: string): Promise<readonly unknown[]> =>
        (await bench.list(prefix)).map(([name]) => name);
      assert.deepEqual(await listed(''), ORDERED);
      for (const prefix of [...ORDERED, 'none', 'a/b/c', '\ufff0']) {
        assert.deepEqual(
          await listed(prefix),
          ORDERED.filter((name) => name.startsWith(prefix)),
        );
      }
    },
  ],
  [
    'ST-1 the empty prefix gives everything',
    async (bench) => {
      await bench.put({ a: 1 });
      assert.ok((await bench.store.list('')).some(([key]) => key === bench.key('a')));
    },
  ],
  [
    'ST-1 a prefix may be longer than any key',
    async (bench) => {
      await bench.put({ a: 1 });
      for (const length of [1977, 1978, 1979, 5000]) assert.deepEqual(await bench.store.list('x'.repeat(length)), []);
      const most = bench.key('k'.repeat(1977 - bench.key('').length));
      await bench.store.batch(['a', 'b'].map((end) => ({ put: most + end, value: end })));
      assert.equal((await bench.store.list(most)).length, 2);
      assert.deepEqual(await bench.store.list(`${most}b`), [[`${most}b`, 'b']]);
      assert.deepEqual(await bench.store.list(`${most}bx`), []);
    },
  ],
  [
    'ST-1 values come back as they were put, and are the caller’s own',
    async (bench) => {
      for (const [i, value] of VALUES.entries()) await bench.put({ [`${1000 + i}`]: value });
      assert.deepEqual(
        (await bench.list()).map(([, value]) => value),
        VALUES,
      );
      const mine = { list: [1] };
      await bench.put({ mine });
      mine.list.push(2);
      const [[, first]] = (await bench.list('mine')) as [[string, typeof mine]];
      assert.deepEqual(first, { list: [1] });
      first.list.push(3);
      assert.deepEqual(await bench.list('mine'), [['mine', { list: [1] }]]);
    },
  ],
];

const BATCH_CHECKS: readonly Check<StoreBench>[] = [
  [
    'ST-1 the changes of a batch are made in their order; deleting what is not there is done already',
    async (bench) => {
      const [a, b, c] = ['a', 'b', 'c'].map((name) => bench.key(name)) as [string, string, string];
      await bench.store.batch([
        { put: a, value: 1 },
        { put: b, value: 1 },
        { del: a },
        { put: b, value: 2 },
        { del: c },
      ]);
      assert.deepEqual(await bench.list(), [['b', 2]]);
      await bench.store.batch([{ del: b }, { put: b, value: 3 }]);
      assert.deepEqual(await bench.list(), [['b', 3]]);
      await bench.store.batch([]);
      assert.deepEqual(await bench.list(), [['b', 3]]);
    },
  ],
  [
    'ST-1 batches take effect in the order in which they were given, without being waited for',
    async (bench) => {
      const batches = Array.from({ length: 50 }, (_, i) => bench.put({ [`own ${i}`]: i, shared: i }));
      await Promise.all(batches);
      assert.deepEqual(await bench.list('shared'), [['shared', 49]]);
      assert.equal((await bench.list('own')).length, 50);
    },
  ],
  [
    'ST-1 of a batch that has not resolved, all or nothing is listed',
    async (bench) => {
      for (let round = 0; round < 20; round++) {
        const writing = bench.put(Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`${i}`, round])));
        const seen = new Set((await bench.list()).map(([, value]) => value));
        assert.ok(seen.size <= 1, `values of ${seen.size} batches at once`);
        await writing;
        assert.deepEqual(new Set((await bench.list()).map(([, value]) => value)), new Set([round]));
      }
    },
  ],
];

async function refuses(bench: StoreBench, op: unknown, ...named: readonly string[]): Promise<void> {
  const ops = [{ put: bench.key('before'), value: 1 }, op, { put: bench.key('after'), value: 1 }];
  await assert.rejects(bench.store.batch(ops as readonly StoreOp[]), (error) => {
    assert.ok(isHandoverError(error, 'ERR_INVALID_OPTION'), String(error));
    assert.ok(error.details.path.startsWith('ops.1'), error.details.path);
    for (const name of named) assert.ok(error.message.includes(name), error.message);
    return true;
  });
  assert.deepEqual(await bench.list(), []);
}

const REFUSALS: readonly Check<StoreBench>[] = [
  [
    'ST-1 a value that is not JSON is refused, naming its key, and nothing of its batch is made',
    async (bench) => {
      for (const value of NOT_JSON)
        await refuses(bench, { put: bench.key('bad'), value }, bench.key('bad'), 'ops.1.value');
    },
  ],
  [
    'ST-1 a key has 1 to 1978 bytes of Unicode; any other is refused, and nothing of its batch is made',
    async (bench) => {
      const pad = 'é'.repeat((1978 - Buffer.byteLength(bench.key(''))) / 2);
      const longest = bench.key(pad) + 'x'.repeat(1978 - Buffer.byteLength(bench.key(pad)));
      for (const key of ['', `${longest}x`, 'half \ud800', 1, undefined]) {
        await refuses(bench, { put: key, value: 1 });
        await refuses(bench, { del: key });
      }
      await bench.store.batch([{ put: longest, value: 1 }]);
      assert.deepEqual(await bench.store.list(longest), [[longest, 1]]);
    },
  ],
  [
    'ST-1 what is no change is refused',
    async (bench) => {
      const key = bench.key('a');
      for (const op of [null, 'put', {}, { put: key }, { put: key, value: 1, del: key }, { del: key, value: 1 }]) {
        await refuses(bench, op);
      }
      for (const ops of [undefined, { put: key, value: 1 }]) {
        await assert.rejects(bench.store.batch(ops as never), (error) => isHandoverError(error, 'ERR_INVALID_OPTION'));
      }
      for (const prefix of [undefined, 1, '\udc00']) {
        await assert.rejects(bench.store.list(prefix as never), (error) =>
          isHandoverError(error, 'ERR_INVALID_OPTION'),
        );
      }
    },
  ],
];

function durable(again: () => Promise<StoreBench['store']>): Check<StoreBench> {
  return [
    'ST-1 what was written is there when the store is opened again',
    async (bench) => {
      await bench.put({ a: { b: [1] }, gone: 1 });
      await bench.store.batch([{ del: bench.key('gone') }]);
      bench.store = await again();
      assert.deepEqual(await bench.list(), [['a', { b: [1] }]]);
    },
  ];
}
