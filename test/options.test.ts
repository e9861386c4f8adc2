import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import * as v from 'valibot';
import {
  block,
  duration,
  flag,
  looseObject,
  method,
  oneOf,
  openObject,
  parseOptions,
  port,
  record,
  requiredDuration,
  strictObject,
  text,
  wholeNumber,
} from '../src/options.js';

const SCHEMA = strictObject({
  removal: block({ enabled: flag(true), delay: duration(180_000, { never: true }) }),
  pull: block({ attempts: wholeNumber(5, 1), concurrency: wholeNumber(3, 1, 10), policy: oneOf(['a', 'b'], 'a') }),
  timeout: duration(500),
});
const DEFAULTS = {
  removal: { enabled: true, delay: 180_000 },
  pull: { attempts: 5, concurrency: 3, policy: 'a' },
  timeout: 500,
};

describe('one defaulting point', () => {
  it.each([
    {},
    { removal: undefined, pull: undefined, timeout: undefined },
    { removal: {}, pull: {} },
    { removal: { enabled: undefined, delay: undefined }, pull: { attempts: undefined } },
    { removal: { enabled: true }, pull: { attempts: 5 } },
  ])('G-2 absent, empty and partial blocks and undefined give the same defaults: %j', (input) => {
    expect(parseOptions(SCHEMA, input)).toEqual(DEFAULTS);
  });

  it.each([
    [{ removal: { delay: 0 } }, { removal: { enabled: true, delay: 0 } }],
    [{ removal: { enabled: false } }, { removal: { enabled: false, delay: 180_000 } }],
    [{ removal: { delay: '96h' } }, { removal: { enabled: true, delay: 345_600_000 } }],
    [{ removal: { delay: 'never' } }, { removal: { enabled: true, delay: Infinity } }],
    [{ pull: { policy: 'b' } }, { pull: { attempts: 5, concurrency: 3, policy: 'b' } }],
    [{ timeout: 0 }, { timeout: 0 }],
  ])('G-2 what is given counts, 0 and false too: %j', (input, expected) => {
    expect(parseOptions(SCHEMA, input)).toEqual({ ...DEFAULTS, ...expected });
  });

  it('G-2 parsing twice, or what came out, changes nothing, and defaults are not shared', () => {
    const first = parseOptions(SCHEMA, {});
    expect(parseOptions(SCHEMA, first)).toEqual(first);
    expect(parseOptions(SCHEMA, {}).removal).not.toBe(first.removal);
  });
});

describe('an object of options is a plain one', () => {
  class Own {
    id = 'a';
  }
  const NOT_PLAIN = 'must be a plain object, such as { … }';

  it.each([
    ['a Map', new Map()],
    ['a Set', new Set()],
    ['a Date', new Date(0)],
    ['a promise', Promise.resolve({ id: 'a' })],
    ['an expression', /a/],
    ['bytes', Buffer.from('a')],
    ['an Own', new Own()],
    ['what inherits', Object.create({ id: 'a' })],
    ['a Map of another realm', runInNewContext('new Map()')],
  ])('G-2 %s holds what no key shows, and is refused', (_, input: unknown) => {
    const message = (path: string) => `Option ${path}: ${NOT_PLAIN}`;
    expect(() => parseOptions(strictObject({ id: v.optional(text) }), input)).toThrow(message('(options)'));
    expect(() => parseOptions(record(text, v.unknown()), input, 'env')).toThrow(message('env'));
    expect(() => parseOptions(looseObject({ id: v.optional(text) }), input, 'call')).toThrow(message('call'));
    expect(() => parseOptions(strictObject({ a: block({ b: flag(true) }) }), { a: input })).toThrow(message('a'));
  });

  it.each([
    ['a Map', new Map()],
    ['a Set', new Set()],
    ['a Date', new Date(0)],
    ['a promise', Promise.resolve({ id: 'a' })],
    ['an expression', /a/],
    ['bytes', Buffer.from('a')],
    ['a Map of another realm', runInNewContext('new Map()')],
  ])('G-2 %s is no open bag', (_, input: unknown) => {
    const bag = openObject({ id: v.optional(text) });
    expect(() => parseOptions(bag, input, 'env')).toThrow(`Option env: ${NOT_PLAIN}`);
  });

  it('G-2 an open bag may be an object of a class, with what it inherits', () => {
    expect(parseOptions(openObject({ id: text }), new Own())).toMatchObject({ id: 'a' });
    class Hooks {
      preStop(): void {}
    }
    const hooks = openObject({ preStop: v.optional(method) });
    expect(parseOptions(hooks, new Hooks())).toMatchObject({ preStop: Hooks.prototype.preStop });
    class Wrong {
      get preStop(): number {
        return 1;
      }
    }
    expect(() => parseOptions(hooks, new Wrong())).toThrow('Option preStop: must be a function');
  });

  it.each([Object.assign(Object.create(null), { id: 'a' }), runInNewContext('({ id: "a" })')])(
    'G-2 without a prototype, or of another realm, it is plain (%#)',
    (input: unknown) => {
      expect(parseOptions(strictObject({ id: text }), input)).toEqual({ id: 'a' });
      expect(parseOptions(looseObject({ id: text }), input)).toEqual({ id: 'a' });
      expect(parseOptions(record(text, text), input)).toEqual({ id: 'a' });
    },
  );

  it.each(['__proto__', 'constructor', 'prototype'])('G-2 the name %s, which would be lost, is refused', (name) => {
    const own: unknown = JSON.parse(`{ "a": 80, "${name}": 80 }`);
    const refused = (path: string) => `Option ${path}: is a name that cannot be taken`;
    expect(() => parseOptions(record(text, port), own)).toThrow(refused(name));
    expect(() => parseOptions(strictObject({ ports: record(text, port) }), { ports: own })).toThrow(
      refused(`ports.${name}`),
    );
    expect(() => parseOptions(strictObject({ a: port }), own)).toThrow(`Option ${name}: is not an option`);
  });
});

describe('what is refused names its path', () => {
  it.each([
    [{ removal: { dely: 1 } }, 'removal.dely', 'is not an option; check its spelling'],
    [{ Removal: {} }, 'Removal', 'is not an option; check its spelling'],
    [{ removal: { delay: '30' } }, 'removal.delay', '"30" is not a duration; give milliseconds'],
    [{ removal: { delay: null } }, 'removal.delay', 'null is not a duration'],
    [{ removal: { enabled: 'no' } }, 'removal.enabled', 'must be true or false'],
    [{ removal: null }, 'removal', 'must be an object'],
    [{ removal: 5 }, 'removal', 'must be an object'],
    [{ removal: [] }, 'removal', 'must be an object'],
    [[], '(options)', 'must be an object'],
    [{ timeout: 'never' }, 'timeout', '"never" is not allowed here'],
    [{ timeout: Infinity }, 'timeout', 'Infinity is not allowed here'],
    [{ pull: { attempts: 0 } }, 'pull.attempts', 'must be a whole number from 1'],
    [{ pull: { attempts: 1.5 } }, 'pull.attempts', 'must be a whole number from 1'],
    [{ pull: { attempts: '3' } }, 'pull.attempts', 'must be a whole number from 1'],
    [{ pull: { concurrency: 11 } }, 'pull.concurrency', 'must be a whole number from 1 to 10'],
    [{ pull: { policy: 'c' } }, 'pull.policy', 'must be one of a, b'],
    [null, '(options)', 'must be an object'],
    ['text', '(options)', 'must be an object'],
  ])('G-2 G-3 %j: %s %s', (input, path, problem) => {
    expect(() => parseOptions(SCHEMA, input)).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_OPTION',
        details: { path },
        message: expect.stringContaining(`Option ${path}: ${problem}`) as string,
      }),
    );
  });

  const TASK = strictObject({
    owner: text,
    list: v.optional(v.array(strictObject({ every: requiredDuration() }))),
  });

  it.each([
    [{}, 'alloc.owner', 'is required'],
    [{ owner: undefined }, 'alloc.owner', 'must be text'],
    [{ owner: '' }, 'alloc.owner', 'must not be empty'],
    [{ owner: 5 }, 'alloc.owner', 'must be text'],
    [{ owner: 'a', list: [{ every: 1 }, { every: '1' }] }, 'alloc.list.1.every', '"1" is not a duration'],
    [{ owner: 'a', list: [{}] }, 'alloc.list.0.every', 'is required'],
    [[], 'alloc', 'must be an object'],
    [{ owner: 'a', list: [[]] }, 'alloc.list.0', 'must be an object'],
    ['a', 'alloc', 'must be an object'],
    [{ owner: 'a', list: 'x' }, 'alloc.list', 'must be an array'],
  ])('G-2 below a prefix, and where there is no default: %j: %s %s', (input, path, problem) => {
    expect(() => parseOptions(TASK, input, 'alloc')).toThrow(
      expect.objectContaining({
        details: { path },
        message: expect.stringContaining(`Option ${path}: ${problem}`) as string,
      }),
    );
  });

  it.each([
    [v.array(v.string()), {}, '(options)', 'must be an array'],
    [v.array(v.string()), [1], '0', 'must be text'],
    [v.number(), 'x', '(options)', 'must be a number'],
    [v.boolean(), 'x', '(options)', 'must be true or false'],
    [method, {}, '(options)', 'must be a function'],
    [port, 65_536, '(options)', 'must be a port from 1 to 65535'],
    [v.literal('hang'), 'x', '(options)', 'must be "hang"'],
    [v.picklist(['a', 'b']), 'x', '(options)', 'must be ("a" | "b")'],
    [record(text, port), [], '(options)', 'must be an object'],
    [record(text, port), null, '(options)', 'must be an object'],
    [record(text, port), { '': 80 }, '""', 'must not be empty'],
    [strictObject({ ports: record(text, port) }), { ports: { '': 80 } }, 'ports.""', 'must not be empty'],
    [looseObject({ id: text }), [], '(options)', 'must be an object'],
    [looseObject({ id: text }), {}, 'id', 'is required'],
    [looseObject({ id: text }, 'must be an instance'), [], '(options)', 'must be an instance'],
    [v.object({ id: text }), {}, 'id', 'is required'],
    [
      v.pipe(
        strictObject({ id: v.optional(text) }),
        v.check(() => true),
      ),
      [],
      '(options)',
      'must be an object',
    ],
  ])('G-2 every kind of schema has words for a person (%#)', (schema: v.GenericSchema, input, path, problem) => {
    expect(() => parseOptions(schema, input)).toThrow(
      expect.objectContaining({ details: { path }, message: `Option ${path}: ${problem}` }),
    );
  });

  it.each([
    [{ owner: 'a', list: [{ every: 1, token: 'hunter2' }] }, 'alloc.list.0.token'],
    [{ owner: 'a', list: ['hunter2'] }, 'alloc.list.0'],
    [{ owner: 'a', list: 'hunter2' }, 'alloc.list'],
    ['hunter2', 'alloc'],
  ])('G-6 the message never shows what was received: %j', (input, path) => {
    expect.assertions(2);
    try {
      parseOptions(TASK, input, 'alloc');
    } catch (error) {
      expect(error).toMatchObject({ details: { path } });
      expect(JSON.stringify(error)).not.toContain('hunter2');
    }
  });
});
