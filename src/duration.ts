import type { Duration } from './call.js';
import { invalidOption } from './errors.js';

/** Milliseconds of each unit, largest first: the order in which text has to name them. */
const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
  ['ms', 1],
] as const;

const NUMBER = String.raw`(\d+(?:\.\d+)?)`;
/** `1d2h3m4s5ms`: each unit at most once, largest first. */
const PATTERN = new RegExp(`^${UNITS.map(([unit]) => `(?:${NUMBER}${unit})?`).join('')}$`);

const HELP = "give milliseconds as a number, or text with units such as '250ms', '90s', '1m30s', '96h', '7d'";

/**
 * Reads a duration strictly (G-1): milliseconds as a number, or text with units (`250ms`, `90s`, `1m30s`, `3m`, `96h`,
 * `7d`; decimals as in `1.5h`). The grammar is that of Go's durations plus days, without signs.
 *
 * @param value - the duration as the caller gave it
 * @param path - the option's path, named in the error
 * @param o.never - whether `Infinity` and `'never'` are allowed. Default `false`
 * @returns milliseconds, `Infinity` for never
 * @throws HandoverError `ERR_INVALID_OPTION` for text without unit, trailing junk, negative numbers, NaN and empty text
 */
export function parseDuration(value: unknown, path: string, o: { readonly never?: boolean } = {}): number {
  const ms = typeof value === 'number' ? value : typeof value === 'string' ? parseText(value) : Number.NaN;
  if (Number.isNaN(ms) || ms < 0) throw invalidOption(path, `${show(value)} is not a duration; ${HELP}`);
  if (ms === Infinity && o.never !== true) throw invalidOption(path, `${show(value)} is not allowed here; ${HELP}`);
  return ms;
}

function parseText(text: string): number {
  if (text === 'never') return Infinity;
  const match = PATTERN.exec(text);
  if (match === null || text === '') return Number.NaN;
  return UNITS.reduce((sum, [, ms], i) => sum + multiply(match[i + 1] ?? '0', ms), 0);
}

/** Exact where floating point is not: `1.001` times 1000 would be 1000.9999999999999. */
function multiply(number: string, ms: number): number {
  const [whole, fraction = '0'] = number.split('.');
  return Number(whole) * ms + Math.round(Number(`0.${fraction}`) * ms * 1e6) / 1e6;
}

function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value);
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

/**
 * Writes a duration as the shortest text that is exact to the millisecond, for messages: `90500` → `'1m30.5s'`.
 *
 * @param ms - milliseconds; `Infinity` gives `'never'`
 */
export function formatDuration(ms: Duration): string {
  if (typeof ms === 'string') return ms;
  if (ms === Infinity) return 'never';
  let rest = Math.round(ms);
  if (rest < 1_000) return `${rest}ms`;
  let text = '';
  for (const [unit, size] of UNITS.slice(0, 3)) {
    const count = Math.floor(rest / size);
    if (count > 0) text += `${count}${unit}`;
    rest -= count * size;
  }
  return rest === 0 ? text : `${text}${rest / 1_000}s`;
}

/** A duration with units, as types cannot check more of it. */
export type { Duration };
