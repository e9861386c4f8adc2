import type { ExclusiveResource } from './driver.js';

/** What decides whether two resources of one kind clash. */
export type Held = Pick<ExclusiveResource, 'key' | 'address'>;

/**
 * The resources that two tasks cannot hold at the same time (DP-7); pure.
 *
 * Kind, key and address decide. Scope does not: tasks that are compared share a host, and what clashes in a cluster
 * clashes on one of its hosts too.
 *
 * @param a - resources of the one
 * @param b - resources of the other
 * @returns those of `a` that `b` needs as well; empty = they can run side by side
 */
export function overlap(
  a: readonly ExclusiveResource[],
  b: readonly ExclusiveResource[],
): readonly ExclusiveResource[] {
  return a.filter((mine) => b.some((other) => other.kind === mine.kind && clash(mine, other)));
}

/** Whether only one of the two can be had. */
export function clash(a: Held, b: Held): boolean {
  return a.key === b.key && (covers(a.address, b.address) || covers(b.address, a.address));
}

function covers(one = '', other = ''): boolean {
  if (one === '' || one === other) return true;
  return other.includes(':') ? one === '::' : one === '0.0.0.0';
}
