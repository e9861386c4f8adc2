import * as v from 'valibot';
import { duration, looseObject, parseOptions, requiredDuration, strictObject, text } from '../options.js';
import { normaliseSignal } from './first-signal.js';
import type { RunOptions, ServiceInstance, ShutdownOptions, StopReason } from './types.js';

const SIGNAL_HELP = "must name a signal of Linux, such as 'SIGTERM', 'TERM', 'SIGRTMIN+3' or '15'";
const POLICY_HELP = "must be 'proceed', 'abort' or { hold: duration }";

const signal = v.pipe(
  v.string(SIGNAL_HELP),
  v.rawTransform<string, string>(({ dataset, addIssue, NEVER }) => {
    const name = normaliseSignal(dataset.value);
    if (name !== undefined) return name;
    addIssue({ message: SIGNAL_HELP });
    return NEVER;
  }),
);

/** By its form, so that the error of a hold names the hold. */
const policy = v.lazy((input) =>
  typeof input === 'object' && input !== null
    ? strictObject({ hold: requiredDuration() })
    : v.picklist(['proceed', 'abort'], POLICY_HELP),
);

const instance = looseObject({ id: text }, 'must be a list of service instances');

const DEFAULTS = strictObject({
  shutdownDelay: v.optional(requiredDuration()),
  killTimeout: duration(5_000, { never: true }),
  killSignal: v.optional(signal),
  confirmTimeout: duration(15_000),
  deregisterTimeout: duration(5_000),
  onDeregisterError: v.optional(policy, 'proceed'),
});

const RUN = strictObject({
  ...DEFAULTS.entries,
  services: v.optional(v.array(instance, 'must be a list of service instances'), []),
  reason: v.optional(v.string('must be text')),
});

/** The options of one run after parsing. */
export interface StopSettings {
  /** ms; `undefined` = by what is registered (SS-2). */
  readonly shutdownDelay: number | undefined;
  /** ms. */
  readonly killTimeout: number;
  /** `undefined` = the target's own, else SIGTERM. */
  readonly killSignal: string | undefined;
  /** ms. */
  readonly confirmTimeout: number;
  /** ms. */
  readonly deregisterTimeout: number;
  readonly onDeregisterError: 'proceed' | 'abort' | { readonly hold: number };
  readonly services: readonly ServiceInstance[];
  readonly reason: StopReason | undefined;
}

/**
 * Checks what a sequencer is given for all of its runs.
 *
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function parseDefaults(defaults: ShutdownOptions): void {
  parseOptions(DEFAULTS, defaults);
}

/**
 * The one defaulting point (G-2): what a run says, else what its sequencer says, else the default.
 *
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function parseStop(defaults: RunOptions, own: RunOptions = {}): StopSettings {
  parseOptions(RUN, own);
  const said = Object.entries(own).filter(([, value]) => value !== undefined);
  const parsed = parseOptions(RUN, { ...defaults, ...Object.fromEntries(said) });
  return {
    ...parsed,
    shutdownDelay: parsed.shutdownDelay,
    killSignal: parsed.killSignal,
    reason: parsed.reason,
    services: parsed.services as unknown as readonly ServiceInstance[],
  };
}
