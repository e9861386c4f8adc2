import type { ExclusiveResource } from './driver.js';

/**
 * The resources that two tasks cannot hold at the same time (DP-7); pure.
 *
 * Kind and key decide. Scope does not: tasks that are compared share a host, and what clashes in a cluster clashes on
 * one of its hosts too.
 *
 * @param a - resources of the one
 * @param b - resources of the other
 * @returns those of `a` that `b` needs as well; empty = they can run side by side
 */
export function overlap(
  a: readonly ExclusiveResource[],
  b: readonly ExclusiveResource[],
): readonly ExclusiveResource[] {
  return a.filter((mine) => b.some((other) => other.kind === mine.kind && other.key === mine.key));
}
