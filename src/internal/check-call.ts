import * as v from 'valibot';
import type { Call } from '../call.js';
import { parseOptions, strictObject } from '../options.js';

/** The signal of a {@link Call}, also for options that are a call and more. */
export const callSignal = v.optional(v.custom<AbortSignal>(isSignal, 'must be an AbortSignal'));

const CALL = strictObject({ signal: callSignal });

/**
 * Refuses what is no call, before anything is done for it (G-2).
 *
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function checkCall(call: Call): void {
  parseOptions(CALL, call);
}

function isSignal(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'aborted' in value && 'addEventListener' in value;
}
