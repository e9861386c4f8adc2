import { constants } from 'node:os';
import type { FirstSignal } from './context.js';

/** Those of this system, and those of Linux, where containers run, that other systems lack. */
const NAMES: ReadonlySet<string> = new Set([...Object.keys(constants.signals), 'SIGPOLL', 'SIGPWR', 'SIGSTKFLT']);
/** The real-time signals of Linux have no names of their own. */
const REALTIME = /^SIGRTM(?:IN(?:\+\d{1,2})?|AX(?:-\d{1,2})?)$/;
/** The number of the last signal of Linux. */
const LAST = 64;

/**
 * The one spelling of a signal (S70): `SIGTERM` for `TERM` and `sigterm`; a number stays one, since its meaning is
 * that of the target's platform.
 *
 * @returns `undefined` when it cannot be a signal
 */
export function normaliseSignal(name: string): string | undefined {
  if (/^\d+$/.test(name)) return /^[1-9]/.test(name) && Number(name) <= LAST ? name : undefined;
  const upper = name.toUpperCase();
  const full = upper.startsWith('SIG') ? upper : `SIG${upper}`;
  return NAMES.has(full) || REALTIME.test(full) ? full : undefined;
}

/**
 * The signal that a stop begins with: the option's, else the target's own, else SIGTERM. What an image asks for must
 * not make it impossible to stop.
 */
export function firstSignal(option: string | undefined, own: string | undefined): FirstSignal {
  if (option !== undefined) return { name: option };
  if (own === undefined) return { name: 'SIGTERM' };
  const name = normaliseSignal(own);
  return name === undefined ? { name: 'SIGTERM', refused: own } : { name };
}
