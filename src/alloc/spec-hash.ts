import { createHash } from 'node:crypto';

/**
 * The hash that decides "the same spec" (DP-2): over the canonical spec *as given*, so that a new default in a new
 * version of the library replaces nothing. Keys are sorted; a key that is `undefined` is as good as absent.
 */
export function specHash(spec: unknown): string {
  return createHash('sha256').update(canonical(spec)).digest('hex');
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) => {
    if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
