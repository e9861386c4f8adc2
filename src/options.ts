import * as v from 'valibot';
import { parseDuration } from './duration.js';
import { type HandoverError, invalidOption } from './errors.js';
import { isPlain } from './internal/is-plain.js';
import { messageOf } from './internal/message-of.js';

/**
 * A duration option: parsed strictly (G-1), `undefined` gives the default.
 *
 * @param fallback - the default in milliseconds
 * @param o.never - whether `Infinity` and `'never'` are allowed
 */
export function duration(fallback: number, o: { readonly never?: boolean } = {}) {
  return v.optional(requiredDuration(o), fallback);
}

/** A duration that has no default. */
export function requiredDuration(o: { readonly never?: boolean } = {}) {
  return v.pipe(
    v.unknown(),
    v.rawTransform<unknown, number>(({ dataset, addIssue, NEVER }) => {
      try {
        return parseDuration(dataset.value, '', o);
      } catch (error) {
        addIssue({ message: messageOf(error).replace(/^Option : /, '') });
        return NEVER;
      }
    }),
  );
}

/** A whole number within bounds; `undefined` gives the default. */
export function wholeNumber(fallback: number, min: number, max = Number.MAX_SAFE_INTEGER) {
  const text = `must be a whole number from ${min}${max === Number.MAX_SAFE_INTEGER ? '' : ` to ${max}`}`;
  return v.optional(wholeRange(min, max, text), fallback);
}

/** A whole number in a range, and what is said of any other. */
export function wholeRange(min: number, max: number, text: string) {
  return v.pipe(v.number(text), v.integer(text), v.minValue(min, text), v.maxValue(max, text));
}

/** A flag; `undefined` gives the default. */
export function flag(fallback: boolean) {
  return v.optional(v.boolean('must be true or false'), fallback);
}

/** One of a few words; `undefined` gives the default. */
export function oneOf<const T extends readonly string[]>(words: T, fallback: T[number]) {
  return v.optional(v.picklist(words, `must be one of ${words.join(', ')}`), fallback);
}

/** Text that is not empty. */
export const text = v.pipe(v.string('must be text'), v.nonEmpty('must not be empty'));

/** A path, or what else goes to the system as a C string. */
export const path = v.pipe(
  text,
  v.check((value) => !value.includes('\0'), 'must not contain a NUL'),
);

/** What holds something that none of its keys shows. */
const BUILT_IN = /^\[object (\w*Array|ArrayBuffer|(Weak)?(Map|Set)|Date|Error|Promise|RegExp)\]$/;
/** Names that valibot leaves out of what it parses. */
const LOST = ['__proto__', 'constructor', 'prototype'];

const PLAIN = v.custom<object>(isPlain, 'must be a plain object, such as { … }');
const OPEN = v.custom<object>((value) => !BUILT_IN.test(Object.prototype.toString.call(value)), PLAIN.message);
const NAMES = v.pipe(
  PLAIN,
  v.rawCheck(({ dataset: { typed, value }, addIssue }) => {
    const key = typed ? LOST.find((name) => Object.hasOwn(value, name)) : undefined;
    if (key === undefined) return;
    const path = { type: 'unknown', origin: 'key', input: value, key, value: undefined } as const;
    addIssue({ message: 'is a name that cannot be taken', path: [path] });
  }),
);

/**
 * A schema of objects that first asks what kind of object it gets: for valibot's own, a list or a `Map` is a block with
 * nothing in it.
 *
 * @param schema - one that refuses `null`
 */
function asking<S extends v.GenericSchema>(schema: S, kind: v.GenericSchema<unknown, object>): S {
  const run: S['~run'] = (dataset, config) => {
    const { value } = dataset;
    if (Array.isArray(value)) return schema['~run']({ ...dataset, value: null }, config);
    if (typeof value !== 'object' || value === null) return schema['~run'](dataset, config);
    const asked = kind['~run']({ value }, config);
    return asked.issues === undefined ? schema['~run'](dataset, config) : asked;
  };
  return { ...schema, '~run': run };
}

/** An object of these keys and no others. */
export function strictObject<const E extends v.ObjectEntries>(entries: E) {
  return asking(v.strictObject(entries), PLAIN);
}

/** An object of these keys and any others. */
export function looseObject<const E extends v.ObjectEntries>(entries: E, message?: string) {
  return asking(v.looseObject(entries, message), PLAIN);
}

/** The same for an object of the embedder's, which may be of a class: what it inherits counts as well. */
export function openObject<const E extends v.ObjectEntries>(entries: E) {
  return asking(v.looseObject(entries), OPEN);
}

/** An object whose keys are names of the caller's choice. */
export function record<K extends v.GenericSchema<string, string>, V extends v.GenericSchema>(key: K, value: V) {
  return asking(v.record(key, value), NAMES);
}
/** A function; nothing of what it takes can be checked. */
export const method = v.function('must be a function');

/** A TCP port. */
export const port = wholeRange(1, 65_535, 'must be a port from 1 to 65535');

/** A block of options of its own: absent, `{}` and partial give the same defaults for what is missing (G-2). */
export function block<const E extends v.ObjectEntries>(entries: E) {
  return v.optional(strictObject(entries), {} as never);
}

/**
 * Parses options once, at construction: the one defaulting point (G-2).
 *
 * @param schema - a strict schema; unknown keys are an error
 * @param input - what the caller gave
 * @param prefix - path of `input` itself, for the error; `''` for the top
 * @throws HandoverError `ERR_INVALID_OPTION` naming the path of the first problem
 */
export function parseOptions<S extends v.GenericSchema>(schema: S, input: unknown, prefix = ''): v.InferOutput<S> {
  const result = v.safeParse(schema, input, { message: problem });
  if (result.success) return result.output;
  throw toError(result.issues[0], prefix);
}

/** The path of a problem with the whole of what was given to a function. */
export const WHOLE = '(options)';

function toError(issue: v.BaseIssue<unknown>, prefix: string): HandoverError<'ERR_INVALID_OPTION'> {
  // A key that is empty is shown as such: `ports.""`.
  const keys = (issue.path ?? []).map(({ key }) => (key === '' ? '""' : String(key)));
  const where = [prefix, ...keys].filter((part) => part !== '').join('.');
  return invalidOption(where === '' ? WHOLE : where, issue.message);
}

/** What valibot expects, in words. */
const WORDS: Readonly<Record<string, string>> = {
  Array: 'must be an array',
  Object: 'must be an object',
  boolean: 'must be true or false',
  never: 'is not an option; check its spelling',
  number: 'must be a number',
  string: 'must be text',
};
/** An object that lacks a key. */
const OBJECTS = ['object', 'strict_object', 'loose_object'];

/** What to say where a schema has no words of its own; never what was received, which may be a secret (G-6). */
function problem({ type, expected }: v.BaseIssue<unknown>): string {
  const words = WORDS[expected ?? ''];
  if (words !== undefined) return words;
  return OBJECTS.includes(type) ? 'is required' : `must be ${expected ?? 'something else'}`;
}
