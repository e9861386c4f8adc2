import type { Clock } from '../clock.js';
import type { Emitter } from '../events.js';
import { type Hold, Lease, type LeaseKeeper } from './lease.js';
import { ImageRecord } from './record.js';
import { broughtNames } from './removal-plan.js';
import type { Request } from './request.js';
import type { ImageEvent } from './states.js';
import type { Artifact, ArtifactSource, NormalisedReference } from './types.js';

/** Under which request a piece of content was found. */
export type Found = Pick<Request, 'key' | 'name' | 'platform'>;

/** A record and the content as one request found it. */
interface Shelved<A extends Artifact> {
  readonly record: ImageRecord<A>;
  readonly artifact: A;
}

/** What the shelf needs of the coordinator. */
export interface ShelfDeck<A extends Artifact> {
  readonly clock: Clock;
  readonly source: ArtifactSource<A>;
  readonly emitter: Emitter<'image'>;
  readonly keeper: LeaseKeeper<A>;
  /** Nobody holds it any more. */
  onIdle(record: ImageRecord<A>): void;
}

/** All content that is known, by id, and who holds it. */
export class Shelf<A extends Artifact> {
  readonly #deck: ShelfDeck<A>;
  readonly #records = new Map<string, ImageRecord<A>>();
  /** Request key → what it was last bound to. */
  readonly #byKey = new Map<string, Shelved<A>>();
  readonly #byOwner = new Map<string, Set<Hold>>();

  constructor(deck: ShelfDeck<A>) {
    this.#deck = deck;
  }

  get records(): readonly ImageRecord<A>[] {
    return [...this.#records.values()];
  }

  /** The record of an id. */
  get(id: string): ImageRecord<A> | undefined {
    return this.#records.get(id);
  }

  /** What was last bound under a request's key. */
  lastBound(key: string): Shelved<A> | undefined {
    return this.#byKey.get(key);
  }

  /** What a request's key means without any look: only for what is held, since that is not removed. */
  held(key: string): A | undefined {
    const shelved = this.#byKey.get(key);
    return shelved?.record.state === 'held' && !shelved.record.lost ? shelved.artifact : undefined;
  }

  /** One lease; the caller holds the lock of the id, or the content is held already. */
  grant(artifact: A, request: Request, o: { readonly stale?: boolean } = {}): Lease<A> {
    const record = this.#recordOf(artifact, request);
    const lease = this.#lease(record, artifact, { ...request, ...o });
    record.send('bind');
    return lease;
  }

  /** A lease of something that no request found; under the lock of its id. */
  adopt(artifact: A, o: { readonly owner: string; readonly reference: string; readonly key: string }): Lease<A> {
    const record = this.#seen(artifact, o.key);
    const lease = this.#lease(record, artifact, o);
    record.send('bind');
    return lease;
  }

  /**
   * Content that a flight has brought or found; under the lock of its id. All its waiters are bound in one step, so
   * that there is no instant without a lease (IC-1).
   *
   * @param o.brought - the reference meant nothing or something else before our fetch: from now on it is ours
   */
  land(artifact: A, found: Found, o: { readonly brought: boolean; readonly waiters: readonly Request[] }): Lease<A>[] {
    const known = this.#records.get(artifact.id)?.references ?? [];
    const record = this.#recordOf(artifact, found);
    if (o.brought) {
      const normalise = (reference: string): NormalisedReference => this.#deck.source.normalise(reference);
      const names = broughtNames(artifact, found.name, known, (name) => record.ours.has(name), normalise);
      for (const name of names) record.ours.set(name, found.platform);
    }
    const leases = o.waiters.map((request) => this.#lease(record, artifact, request));
    const moved = record.send(leases.length > 0 ? 'bind' : 'land');
    if (!moved) this.#tell(record);
    return leases;
  }

  release(hold: Hold): void {
    const holds = this.#byOwner.get(hold.owner);
    if (holds?.delete(hold) !== true) return;
    if (holds.size === 0) this.#byOwner.delete(hold.owner);
    this.#records.get(hold.imageId)?.letGo(hold);
  }

  releaseOwner(owner: string): void {
    for (const hold of [...(this.#byOwner.get(owner) ?? [])]) this.release(hold);
  }

  /** Content that is held has been deleted by somebody else: its holders are told once (IC-22). */
  lose(record: ImageRecord<A>): void {
    if (record.lost || record.state !== 'held') return;
    record.lost = true;
    this.#deck.emitter.emit('image:lost', { imageId: record.id, owners: record.owners });
  }

  /** Forgets everything, touches nothing. */
  clear(): void {
    for (const record of this.#records.values()) record.cancelRemoval();
    this.#records.clear();
    this.#byKey.clear();
    this.#byOwner.clear();
  }

  #recordOf(artifact: A, found: Found): ImageRecord<A> {
    const record = this.#seen(artifact, found.name.key);
    const before = this.#byKey.get(found.key);
    if (before !== undefined && before.record !== record) before.record.keys.delete(found.key);
    this.#byKey.set(found.key, { record, artifact });
    record.keys.add(found.key);
    record.reference = found.name.key;
    return record;
  }

  #seen(artifact: A, reference: string): ImageRecord<A> {
    let record = this.#records.get(artifact.id);
    if (record === undefined) {
      record = new ImageRecord(artifact.id, reference, this.#deck.clock, (moved, event) => this.#moved(moved, event));
      this.#records.set(artifact.id, record);
    }
    record.references = artifact.references;
    record.lost = false;
    return record;
  }

  #lease(
    record: ImageRecord<A>,
    artifact: A,
    o: Pick<Request, 'owner' | 'reference'> & { readonly platform?: string | undefined; readonly stale?: boolean },
  ): Lease<A> {
    const lease = new Lease<A>(this.#deck.keeper, artifact, o);
    this.#hold(record, lease);
    return lease;
  }

  #hold(record: ImageRecord<A>, hold: Hold): void {
    record.hold(hold);
    const holds = this.#byOwner.get(hold.owner);
    if (holds === undefined) this.#byOwner.set(hold.owner, new Set([hold]));
    else holds.add(hold);
    if (hold.provisional) return;
    for (const earlier of record.holdsOf(hold.owner)) if (earlier.provisional) this.release(earlier);
  }

  #moved(record: ImageRecord<A>, event: ImageEvent): void {
    if (record.state === 'held') {
      record.cancelRemoval();
      record.removeAt = record.kept = undefined;
      record.refusals = 0;
      record.idleSince = null;
    }
    if (event === 'lastRelease' || event === 'land') record.idleSince = this.#deck.clock.wall();
    if (event === 'lastRelease' || event === 'land') this.#deck.onIdle(record);
    if (record.state === 'absent') this.#drop(record);
    this.#tell(record);
  }

  #drop(record: ImageRecord<A>): void {
    this.#records.delete(record.id);
    for (const key of record.keys) {
      if (this.#byKey.get(key)?.record === record) this.#byKey.delete(key);
    }
  }

  #tell(record: ImageRecord<A>): void {
    this.#deck.emitter.emit('image:changed', { image: record.status() });
  }
}
