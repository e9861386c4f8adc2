import type { Effective } from '../call.js';
import type { NormalisedReference, RetentionOptions } from './types.js';

/** What retention has to know of one piece of content. */
export interface Retained {
  readonly id: string;
  /** The names it goes by, as the source spells them. */
  readonly names: readonly NormalisedReference[];
  /** When its last lease ended, in the clock's `now()`; `Infinity` while it is held: that is used now. */
  readonly lastUsed: number;
  /** Wall time, ms; of two that were used last at the same time, the one seen first is the older one. */
  readonly firstSeen: number;
}

/** How long one idle piece of content stays, and what keeps it beyond the usual time. */
export interface Standing {
  readonly keeps?: 'pinned' | 'keep-last';
  /** In the clock's `now()`; `Infinity` = for ever. */
  readonly until: number;
}

/** The options that decide; durations in ms. */
export type RetentionRule = Effective<RetentionOptions> & { readonly delay: number };

/**
 * How long a piece of content stays that nobody holds (IC-18): pinned, for ever; among the `keepLast` that were used last
 * in one of its repositories, `maxAge` after its last use; else the shorter of `delay` and `maxAge`.
 *
 * @param all - everything that is known, the content itself included, in the order in which it came to be known
 */
export function standing(content: Retained, all: readonly Retained[], rule: RetentionRule): Standing {
  if (rule.pin.some((pin) => isPinned(content, pin))) return { keeps: 'pinned', until: Infinity };
  const { lastUsed } = content;
  if (isAmongLast(content, all, rule.keepLast)) return { keeps: 'keep-last', until: lastUsed + rule.maxAge };
  return { until: lastUsed + Math.min(rule.delay, rule.maxAge) };
}

/** @param pin - a reference as the source spells it, an id, or an expression for references */
function isPinned({ id, names }: Retained, pin: string | RegExp): boolean {
  if (typeof pin === 'string') return pin === id || names.some(({ key }) => key === pin);
  return names.some(({ key }) => {
    // With the flags `g` or `y` it would go on where it last stopped.
    pin.lastIndex = 0;
    return pin.test(key);
  });
}

/** Whether in one of the content's repositories fewer than `n` others were used after it. */
function isAmongLast(content: Retained, all: readonly Retained[], n: number): boolean {
  if (n === 0) return false;
  const later = laterThan(content, all);
  return content.names.some(({ repository }) => later.filter((one) => isOf(one, repository)).length < n);
}

/** Where nothing else tells two of them apart, the later one in `all` came later. */
function laterThan(content: Retained, all: readonly Retained[]): readonly Retained[] {
  const place = all.indexOf(content);
  return all.filter((other, i) => {
    const lead =
      other.lastUsed === content.lastUsed ? other.firstSeen - content.firstSeen : other.lastUsed - content.lastUsed;
    return lead === 0 ? i > place : lead > 0;
  });
}

function isOf({ names }: Retained, repository: string): boolean {
  return names.some((name) => name.repository === repository);
}
