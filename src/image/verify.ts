import type { Call } from '../call.js';
import { abortable } from '../internal/signals.js';
import type { Lease } from './lease.js';
import type { Local } from './local.js';
import { absentError } from './pull-failure.js';
import type { Shelf } from './shelf.js';
import type { AcquireOptions, Artifact, ArtifactSource, ImageLease, PrefetchOptions } from './types.js';

/** What {@link verify} needs of the coordinator. */
export interface VerifyDeck<A extends Artifact> {
  readonly source: ArtifactSource<A>;
  readonly local: Local<A>;
  readonly shelf: Shelf<A>;
  acquire(reference: string, o: AcquireOptions): Promise<ImageLease<A>>;
  prefetch(reference: string, o: PrefetchOptions): Promise<ImageLease<A>>;
}

/** Looks whether what is held is still there, and brings the very same back if it is not (IC-22). */
export async function verify<A extends Artifact>(
  deck: VerifyDeck<A>,
  lease: Lease<A>,
  { signal }: Call,
): Promise<void> {
  if ((await abortable(deck.local.find(lease.imageId, undefined), signal)) !== undefined) return;
  const record = deck.shelf.get(lease.imageId);
  if (record !== undefined) deck.shelf.lose(record);
  const repair = {
    owner: lease.owner,
    platform: lease.platform,
    auth: lease.auth,
    authScope: lease.authScope,
    signal,
    policy: 'if-absent',
  } as const;
  const name = fixedName(deck.source, lease);
  // A claim in earnest would end the prefetch that is looked at.
  const fresh = await (lease.provisional ? deck.prefetch(name, { ...repair, ttl: '1m' }) : deck.acquire(name, repair));
  await fresh.release();
  if (fresh.imageId !== lease.imageId) {
    throw absentError(lease.reference, `the content that was held (${lease.imageId}) did not come back with it`);
  }
}

/** The name by which the very same content can be asked for: its digest, where it has one. */
function fixedName<A extends Artifact>(source: ArtifactSource<A>, lease: Lease<A>): string {
  const asked = source.normalise(lease.reference);
  const names = lease.artifact.references.map((reference) => source.normalise(reference));
  return names.find((name) => !name.floating && name.repository === asked.repository)?.key ?? lease.reference;
}
