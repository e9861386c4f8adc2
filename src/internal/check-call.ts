import * as v from 'valibot';
import type { Call } from '../call.js';
import type { PrestartContext } from '../driver/driver.js';
import { looseObject, method, parseOptions, record, strictObject, text } from '../options.js';

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

const OWNED = looseObject({ signal: callSignal, owner: text });
const LABELS = v.optional(record(text, v.string('must be text')));
const CONTEXT = looseObject({
  ...OWNED.entries,
  allocId: text,
  task: text,
  specHash: text,
  labels: LABELS,
  report: method,
});

/**
 * The same for what finds something again by its owner; it may say more.
 *
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function checkOwnedCall(call: Call & { readonly owner: string }): void {
  parseOptions(OWNED, call);
}

/**
 * The same for what a driver prepares a task by; its spec is for the driver to check.
 *
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function checkContext(ctx: PrestartContext<unknown>): void {
  parseOptions(CONTEXT, ctx);
}

function isSignal(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'aborted' in value && 'addEventListener' in value;
}
