import { signalName, signalNumber } from '../internal/signal-names.js';
import type { FirstSignal } from './context.js';

/**
 * The one spelling of a signal that can be sent (S70).
 *
 * @returns `undefined` when there is no such signal
 */
export function normaliseSignal(word: string): string | undefined {
  return signalNumber(word) === undefined ? undefined : signalName(word);
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
