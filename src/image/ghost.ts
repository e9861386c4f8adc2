import type { Hold } from './lease.js';
import type { StoredLease } from './stored.js';

/** A claim of an earlier process: it ends when its owner takes it over, is not alive any more, or lets go (IC-21). */
export class Ghost implements Hold {
  readonly owner: string;
  readonly imageId: string;
  readonly reference: string;
  readonly platform: string | undefined;
  /** When it ends by itself, wall time, ms. */
  readonly until: number | undefined;
  /** Since when its owner has it, wall time, ms. */
  readonly since: number;
  readonly provisional = true;

  constructor(imageId: string, { owner, reference, platform, until, since }: StoredLease) {
    this.imageId = imageId;
    this.owner = owner;
    this.reference = reference;
    this.platform = platform;
    this.until = until;
    this.since = since;
  }
}
