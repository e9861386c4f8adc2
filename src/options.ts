import * as v from 'valibot';
import { parseDuration } from './duration.js';
import { type HandoverError, invalidOption } from './errors.js';
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
  return v.optional(v.pipe(v.number(text), v.integer(text), v.minValue(min, text), v.maxValue(max, text)), fallback);
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

/** A block of options of its own: absent, `{}` and partial give the same defaults for what is missing (G-2). */
export function block<const E extends v.ObjectEntries>(entries: E) {
  return v.optional(v.strictObject(entries), {} as never);
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

function toError(issue: v.BaseIssue<unknown>, prefix: string): HandoverError<'ERR_INVALID_OPTION'> {
  const path = [prefix, v.getDotPath(issue) ?? ''].filter((part) => part !== '').join('.');
  return invalidOption(path === '' ? '(options)' : path, issue.message);
}

/** What to say where a schema has no words of its own; never what was received, which may be a secret (G-6). */
function problem({ type, expected }: v.BaseIssue<unknown>): string {
  if (expected === 'never') return 'is not an option; check its spelling';
  if (expected === 'Object') return 'must be an object';
  return type === 'strict_object' ? 'is required' : `must be ${expected ?? 'something else'}`;
}
