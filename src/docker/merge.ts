import { isPlain } from '../internal/is-plain.js';

/** JSON as it goes to an engine. */
export type Json = Readonly<Record<string, unknown>>;

/** Objects key by key, `over` wins; anything else, lists too, as a whole. `null` says nothing, as for the engine. */
export function merge(base: Json, over: Json): Json {
  const merged = Object.entries(over).flatMap(([key, value]) => {
    const below = base[key];
    if (value === null || value === undefined) return [];
    return [[key, isPlain(below) && isPlain(value) ? merge(below, value) : value] as const];
  });
  return { ...base, ...Object.fromEntries(merged) };
}
