import type { AcquireSettings } from './options.js';
import type { NormalisedReference, PullPolicy } from './types.js';

/** One acquire, from the call to its lease. */
export interface Request extends Pick<
  AcquireSettings,
  'owner' | 'platform' | 'priority' | 'onProgress' | 'auth' | 'authScope'
> {
  /** Identity of the content asked for: reference and platform. */
  readonly key: string;
  /** The key and whose credentials it is fetched with: flights are shared by this (IC-3). */
  readonly flightKey: string;
  readonly name: NormalisedReference;
  /** As the caller gave it. */
  readonly reference: string;
  readonly policy: PullPolicy;
  /** How long its lease holds, ms; not given: until it is released. */
  readonly ttl?: number | undefined;
}

/** The key of {@link Request.key}. */
export function requestKey(name: NormalisedReference, platform: string | undefined): string {
  return `${name.key} ${platform ?? ''}`;
}

/**
 * The key of {@link Request.flightKey}.
 *
 * @param scope - as the caller named it, or the number of a provider whose caller named none
 */
export function flightKey(key: string, scope: string | number): string {
  return typeof scope === 'number' ? `${key} #${scope}` : `${key} @${scope}`;
}

/** Whether the registry has to be asked even if something is present; what a digest names never changes (IC-6). */
export function asksRegistry(request: Request): boolean {
  return request.name.floating && request.name.pullable && ['always', 'if-stale'].includes(request.policy);
}
