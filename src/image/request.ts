import type { AcquireSettings } from './options.js';
import type { NormalisedReference, PullPolicy } from './types.js';

/** One acquire, from the call to its lease. */
export interface Request extends Pick<AcquireSettings, 'owner' | 'platform' | 'priority' | 'onProgress'> {
  /** Identity of the content asked for: reference, platform, credential scope (IC-3). */
  readonly key: string;
  readonly name: NormalisedReference;
  /** As the caller gave it. */
  readonly reference: string;
  readonly policy: PullPolicy;
}

/** The key of {@link Request.key}. The credential scope is the host, as long as there is no other. */
export function requestKey(name: NormalisedReference, platform: string | undefined): string {
  return `${name.key} ${platform ?? ''} ${name.host}`;
}

/** Whether the registry has to be asked even if something is present; what a digest names never changes (IC-6). */
export function asksRegistry(request: Request): boolean {
  return request.name.floating && request.name.pullable && ['always', 'if-stale'].includes(request.policy);
}
