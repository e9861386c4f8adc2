import type { Call } from '../call.js';
import { abortable } from '../internal/signals.js';
import type { Lease } from './lease.js';
import type { Local } from './local.js';
import { nameOf } from './name-of.js';
import { absentError } from './pull-failure.js';
import type { Shelf } from './shelf.js';
import type { AcquireSettings } from './options.js';
import type { Artifact, ArtifactSource, ImageLease } from './types.js';

/** Far longer than it takes to let go of what has come. */
const REPAIR_TTL = 60_000;

/** What {@link verify} needs of the coordinator. */
export interface VerifyDeck<A extends Artifact> {
  readonly source: ArtifactSource<A>;
  readonly local: Local<A>;
  readonly shelf: Shelf<A>;
  acquire(reference: string, o: AcquireSettings): Promise<ImageLease<A>>;
}

/**
 * Looks whether what is held is still there, and brings the very same back if it is not (IC-22). For a lease that has
 * ended it only looks: nobody would hold what it brought.
 */
export async function verify<A extends Artifact>(
  deck: VerifyDeck<A>,
  lease: Lease<A>,
  { signal }: Call,
): Promise<void> {
  const present = await abortable(deck.local.find(lease.imageId, undefined), signal);
  const record = deck.shelf.get(lease.imageId);
  if (present !== undefined) {
    // Somebody else has brought it back: to lose it again would be news.
    if (record?.lost === true) record.see(present);
    return;
  }
  if (record?.holdsOf(lease.owner).includes(lease) !== true) {
    throw absentError(lease.reference, 'the lease of it has ended; acquire it anew');
  }
  deck.shelf.lose(record);
  const fresh = await deck.acquire(fixedName(deck.source, lease), {
    owner: lease.owner,
    platform: lease.platform,
    auth: lease.auth,
    authScope: lease.authScope,
    signal,
    policy: 'if-absent',
    priority: 'start',
    timeout: Infinity,
    onProgress: undefined,
    // A claim in earnest would end what its owner has prefetched.
    ttl: REPAIR_TTL,
  });
  await abortable(fresh.release(), signal);
  if (fresh.imageId !== lease.imageId) {
    throw absentError(lease.reference, `the content that was held (${lease.imageId}) did not come back with it`);
  }
}

/** The name by which the very same content can be asked for: its digest, where it has one. */
function fixedName<A extends Artifact>(source: ArtifactSource<A>, lease: Lease<A>): string {
  const asked = nameOf(source, lease.reference);
  const names = lease.artifact.references.map((reference) => nameOf(source, reference));
  return names.find((name) => !name.floating && name.repository === asked.repository)?.key ?? lease.reference;
}
