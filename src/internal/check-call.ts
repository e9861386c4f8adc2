import * as v from 'valibot';
import type { Call } from '../call.js';
import type { LogOptions, PrestartContext } from '../driver/driver.js';
import { flag, looseObject, method, parseOptions, path, record, strictObject, text } from '../options.js';

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

const LOGS = strictObject({
  signal: callSignal,
  follow: flag(false),
  since: v.optional(v.pipe(v.number('must be wall time in ms'), v.finite('must be wall time in ms'), v.minValue(0))),
});

/**
 * Defaults of {@link LogOptions}.
 *
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function checkLogs(o: LogOptions): v.InferOutput<typeof LOGS> {
  return parseOptions(LOGS, o);
}

const ARGV = v.tupleWithRest(
  [path],
  v.pipe(
    v.string('must be text'),
    v.check((arg) => !arg.includes('\0'), 'must not contain a NUL'),
  ),
);

/**
 * Refuses what is no command.
 *
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function checkArgv(argv: readonly string[]): void {
  parseOptions(ARGV, argv, 'argv');
}

function isSignal(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'aborted' in value && 'addEventListener' in value;
}
