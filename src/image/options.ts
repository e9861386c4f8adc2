import * as v from 'valibot';
import type { Effective } from '../call.js';
import { parseDuration } from '../duration.js';
import { requireMethods } from '../env.js';
import { invalidOption } from '../errors.js';
import { callSignal as signal } from '../internal/check-call.js';
import { messageOf } from '../internal/message-of.js';
import {
  block,
  duration,
  flag,
  oneOf,
  parseOptions,
  requiredDuration,
  strictObject,
  text,
  wholeNumber,
} from '../options.js';
import { nameOf } from './name-of.js';
import type {
  AcquireOptions,
  Artifact,
  ArtifactSource,
  AuthProvider,
  PrefetchOptions,
  Progress,
  PullOptions,
  RemovalOptions,
  RetentionOptions,
} from './types.js';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const POLICIES = ['if-absent', 'always', 'never', 'if-stale'] as const;
const policy = v.optional(v.picklist(POLICIES, `must be one of ${POLICIES.join(', ')}`));

const pin = v.union([text, v.instance(RegExp)], 'must be a reference, an id or a RegExp');

const auth = v.optional(v.custom<AuthProvider>((value) => typeof value === 'function', 'must be a function'));

const coordinatorSchema = strictObject({
  source: v.unknown(),
  auth,
  removal: block({
    enabled: flag(true),
    delay: duration(3 * MINUTE, { never: true }),
    scope: oneOf(['pulled', 'any'], 'pulled'),
  }),
  retention: block({
    pin: v.optional(v.array(pin), []),
    keepLast: wholeNumber(0, 0),
    maxAge: duration(Infinity, { never: true }),
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

const wanted = {
  owner: text,
  signal,
  policy,
  platform: v.optional(v.pipe(text, v.regex(/^\S+$/, 'must be like linux/amd64'))),
  auth,
  authScope: v.optional(text),
  timeout: duration(Infinity, { never: true }),
  onProgress: v.optional(
    v.custom<(progress: Progress) => void>((value) => typeof value === 'function', 'must be a function'),
  ),
};
const acquireSchema = strictObject({ ...wanted, priority: oneOf(['start', 'prefetch'], 'start') });
const prefetchSchema = strictObject({ ...wanted, ttl: requiredDuration() });

const adoptSchema = strictObject({ owner: text, reference: text, imageId: text });

const LATER = /Async|Generator/;
/** What `isLive` is told that does otherwise. */
export const AT_ONCE = 'must return true or false, at once';

/** The coordinator's options with their defaults filled in, durations in milliseconds. */
export interface ImageSettings {
  readonly removal: Effective<RemovalOptions>;
  readonly retention: Effective<RetentionOptions>;
  readonly pull: Effective<PullOptions>;
  /** Whether `pull.policy` was given: only then does it also hold for `latest` (IC-6). */
  readonly policyStated: boolean;
}

/** What an acquire or a prefetch was asked for, parsed. */
export type AcquireSettings = v.InferOutput<typeof acquireSchema> & { readonly ttl?: number };

/** @throws HandoverError `ERR_INVALID_OPTION` naming the option */
export function parseCoordinatorOptions<A extends Artifact>(
  input: unknown,
): ImageSettings & { readonly source: ArtifactSource<A>; readonly auth: AuthProvider | undefined } {
  const { source, auth, removal, retention, pull } = parseOptions(coordinatorSchema, input);
  if (typeof source !== 'object' || source === null) throw invalidOption('source', 'must be an ArtifactSource');
  requireMethods('source', source, ['normalise', 'find', 'fetch', 'users', 'remove', 'list']);
  return {
    source: source as ArtifactSource<A>,
    auth,
    removal,
    retention: { ...retention, pin: retention.pin.map((one, i) => parsePin(source as ArtifactSource<A>, one, i)) },
    pull: { ...pull, policy: pull.policy ?? 'if-absent' },
    policyStated: pull.policy !== undefined,
  };
}

/** As the source spells it; an expression is copied, since it has a state of its own that the caller may use. */
function parsePin(source: ArtifactSource, one: string | RegExp, i: number): string | RegExp {
  if (one instanceof RegExp) return new RegExp(one.source, one.flags);
  try {
    return source.normalise(one).key;
  } catch (error) {
    throw invalidOption(`retention.pin.${i}`, messageOf(error));
  }
}

const collectSchema = strictObject({ signal, dryRun: flag(false) });

/** @throws HandoverError `ERR_INVALID_OPTION` naming the option */
export function parseCollectOptions(input: unknown): v.InferOutput<typeof collectSchema> {
  return parseOptions(collectSchema, input);
}

/** @throws HandoverError `ERR_INVALID_OPTION` naming the option */
export function parseAcquireOptions(input: AcquireOptions): AcquireSettings {
  return parseOptions(acquireSchema, input);
}

/**
 * What a caller gives besides options.
 *
 * @throws HandoverError `ERR_INVALID_OPTION` with `path`
 */
export function parseText(input: unknown, path: string): string {
  if (typeof input !== 'string' || input === '') throw invalidOption(path, 'must be text that is not empty');
  return input;
}

/**
 * One that answers later is told from its kind: it may be a long time until there is somebody to ask it about.
 *
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function checkIsLive(isLive: unknown): void {
  if (typeof isLive !== 'function') throw invalidOption('isLive', 'must be a function');
  if (LATER.test(Object.prototype.toString.call(isLive))) throw invalidOption('isLive', AT_ONCE);
}

/** @throws HandoverError `ERR_INVALID_OPTION` naming the option */
export function parsePrefetchOptions(input: PrefetchOptions): AcquireSettings {
  return { ...parseOptions(prefetchSchema, input), priority: 'prefetch' };
}

/** @throws HandoverError `ERR_INVALID_OPTION` naming the option */
export function parseTtl(input: unknown): number {
  return parseDuration(input, 'ttl');
}

/** @throws HandoverError `ERR_INVALID_OPTION` naming the option */
export function parseHeld(
  source: Pick<ArtifactSource, 'normalise'>,
  input: unknown,
): v.InferOutput<typeof adoptSchema> {
  const held = parseOptions(adoptSchema, input);
  if (nameOf(source, held.imageId).pullable) throw invalidOption('imageId', 'must be an id, not a name');
  return held;
}
