import * as v from 'valibot';
import { duration, oneOf, parseOptions, strictObject } from '../options.js';
import { callSignal } from '../internal/check-call.js';
import type { ReplaceOptions } from './types.js';

const schema = strictObject({
  order: v.optional(v.picklist(['stop-first', 'start-first'], "must be 'stop-first' or 'start-first'")),
  gate: v.optional(v.picklist(['none', 'prepared', 'healthy'], 'must be one of none, prepared, healthy')),
  gateDeadline: duration(30 * 60_000, { never: true }),
  onNextFailed: oneOf(['keep', 'proceed'], 'keep'),
  signal: callSignal,
});

/** A replacement's options with their defaults filled in. */
export type ReplaceSettings = v.InferOutput<typeof schema>;

/** @throws HandoverError `ERR_INVALID_OPTION` */
export function parseReplace(options: ReplaceOptions): ReplaceSettings {
  return parseOptions(schema, options);
}
