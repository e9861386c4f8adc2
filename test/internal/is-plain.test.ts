import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { isPlain } from '../../src/internal/is-plain.js';

it.each([{}, { a: 1 }, Object.create(null), runInNewContext('({ a: 1 })'), JSON.parse('{"__proto__": 1}')])(
  'G-2 plain (%#)',
  (value: unknown) => {
    expect(isPlain(value)).toBe(true);
  },
);

it.each([
  [],
  new Map(),
  new Date(),
  Promise.resolve(),
  new (class Own {
    a = 1;
  })(),
  Object.create({}),
  runInNewContext('[]'),
  runInNewContext('new Map()'),
  () => undefined,
  null,
  undefined,
  'x',
  5,
])('G-2 not plain (%#)', (value: unknown) => {
  expect(isPlain(value)).toBe(false);
});
