import { describe, expect, it } from 'vitest';
import { readOps } from '../../src/store/store.js';

const self: unknown[] = [];
self.push({ self });

describe('readOps', () => {
  it.each([
    { value: undefined, says: 'it is undefined' },
    { value: { a: [0, { b: undefined }] }, says: '.a[1].b is undefined' },
    { value: [-0], says: '[0] is -0' },
    { value: [NaN], says: '[0] is NaN' },
    { value: { at: -Infinity }, says: '.at is -Infinity' },
    { value: { size: 1n }, says: '.size is a bigint' },
    { value: { toJSON: () => 'secret' }, says: '.toJSON is a function' },
    { value: { at: new Date(0) }, says: '.at is an object of a class' },
    { value: Array(1), says: '[0] is undefined' },
    { value: self, says: '[0].self contains itself' },
  ])('G-6 ST-1 the refusal says "$says", names the key, and tells nothing of the value', ({ value, says }) => {
    const problem = `Option ops.1.value: of the key "image/a" is not JSON: ${says}`;
    expect(() => readOps([{ del: 'x' }, { put: 'image/a', value }])).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', message: problem, details: { path: 'ops.1.value' } }),
    );
  });

  it('ST-1 the same object twice is no circle, and one without a prototype is plain', () => {
    const shared = { a: 1 };
    const bare = Object.assign(Object.create(null), { b: shared }) as object;
    expect(readOps([{ put: 'k', value: [shared, shared, bare] }])).toEqual([
      { key: 'k', json: '[{"a":1},{"a":1},{"b":{"a":1}}]' },
    ]);
  });

  it('ST-1 the refusal of a key says how long it is and may be', () => {
    expect(() => readOps([{ del: 'é'.repeat(990) }])).toThrow(
      'Option ops.0.del: must have 1 to 1978 bytes in UTF-8, and has 1980',
    );
  });
});
