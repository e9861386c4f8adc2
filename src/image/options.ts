import * as v from 'valibot';
import type { Effective } from '../call.js';
import { requireMethods } from '../env.js';
import { invalidOption } from '../errors.js';
import { block, duration, flag, oneOf, parseOptions, strictObject, text, wholeNumber } from '../options.js';
import type { AcquireOptions, Artifact, ArtifactSource, Progress, PullOptions, RemovalOptions } from './types.js';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const POLICIES = ['if-absent', 'always', 'never', 'if-stale'] as const;
const policy = v.optional(v.picklist(POLICIES, `must be one of ${POLICIES.join(', ')}`));

const coordinatorSchema = strictObject({
  source: v.unknown(),
  removal: block({
    enabled: flag(true),
    delay: duration(3 * MINUTE, { never: true }),
    scope: oneOf(['pulled', 'any'], 'pulled'),
  }),
  pull: block({
    policy,
    concurrency: wholeNumber(3, 1),
    attempts: wholeNumber(5, 1),
    linger: duration(30 * SECOND, { never: true }),
    abortGrace: duration(30 * SECOND),
    timeout: duration(Infinity, { never: true }),
    beginTimeout: duration(5 * MINUTE, { never: true }),
    stallTimeout: duration(5 * MINUTE, { never: true }),
  }),
});

const acquireSchema = strictObject({
  owner: text,
  signal: v.optional(v.custom<AbortSignal>(isSignal, 'must be an AbortSignal')),
  policy,
  platform: v.optional(text),
  priority: oneOf(['start', 'prefetch'], 'start'),
  timeout: duration(Infinity, { never: true }),
  onProgress: v.optional(
    v.custom<(progress: Progress) => void>((value) => typeof value === 'function', 'must be a function'),
  ),
});

const adoptSchema = strictObject({ owner: text, reference: text, imageId: text });

/** The coordinator's options with their defaults filled in, durations in milliseconds. */
export interface ImageSettings {
  readonly removal: Effective<RemovalOptions>;
  readonly pull: Effective<PullOptions>;
  /** Whether `pull.policy` was given: only then does it also hold for `latest` (IC-6). */
  readonly policyStated: boolean;
}

/** What an acquire was asked for, parsed. */
export type AcquireSettings = v.InferOutput<typeof acquireSchema>;

/** @throws HandoverError `ERR_INVALID_OPTION` naming the option */
export function parseCoordinatorOptions<A extends Artifact>(
  input: unknown,
): ImageSettings & { readonly source: ArtifactSource<A> } {
  const { source, removal, pull } = parseOptions(coordinatorSchema, input);
  if (typeof source !== 'object' || source === null) throw invalidOption('source', 'must be an ArtifactSource');
  requireMethods('source', source, ['normalise', 'find', 'fetch', 'users', 'remove', 'list']);
  return {
    source: source as ArtifactSource<A>,
    removal,
    pull: { ...pull, policy: pull.policy ?? 'if-absent' },
    policyStated: pull.policy !== undefined,
  };
}

/** @throws HandoverError `ERR_INVALID_OPTION` naming the option */
export function parseAcquireOptions(input: AcquireOptions): AcquireSettings {
  return parseOptions(acquireSchema, input);
}

/** @throws HandoverError `ERR_INVALID_OPTION` naming the option */
export function parseHeld(input: unknown): v.InferOutput<typeof adoptSchema> {
  return parseOptions(adoptSchema, input);
}

function isSignal(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'aborted' in value && 'addEventListener' in value;
}
