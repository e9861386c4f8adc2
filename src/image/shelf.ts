import type { Clock } from '../clock.js';
import type { Emitter } from '../events.js';
import { Ghost } from './ghost.js';
import { type Hold, Lease, type LeaseKeeper, type LeaseTerms } from './lease.js';
import { nameOf } from './name-of.js';
import { ImageRecord } from './record.js';
import { broughtNames } from './removal-plan.js';
import type { Request } from './request.js';
import type { ImageEvent } from './states.js';
import type { StoredContent } from './stored.js';
import { type TermDeck, TimedLease } from './timed-lease.js';
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
  readonly terms: TermDeck;
  /** What is stored of a record has changed; nothing, if there is no store. */
  readonly note: ((record: ImageRecord<A>) => void) | undefined;
  /** Leases that nobody is told of before they are stored; nothing, if there is no store. */
  readonly untold: WeakSet<object> | undefined;
  /** Nobody holds it any more, or it has lost a name since. */
  onIdle(record: ImageRecord<A>): void;
  /** Set where it matters: its place among those of its repository that were used last may be another one. */
  readonly onRank?: ((record: ImageRecord<A>) => void) | undefined;
}

/** All content that is known, by id, and who holds it. */
export class Shelf<A extends Artifact> {
  readonly #deck: ShelfDeck<A>;
  readonly #records = new Map<string, ImageRecord<A>>();
  /** Request key → what it was last bound to. */
  readonly #byKey = new Map<string, Shelved<A>>();
  readonly #byOwner = new Map<string, Set<Hold>>();
  /** Ids that changed while no process looked → the new ones. */
  readonly #movedTo = new Map<string, string>();

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

  /**
   * One lease; the caller holds the lock of the id, or the content is held already.
   *
   * @throws HandoverError `ERR_CLOSED`: a lease that nothing ends any more is given to nobody (IC-23)
   */
  grant(artifact: A, request: Request, o: { readonly stale?: boolean } = {}): Lease<A> {
    this.#deck.terms.closing.throwIfAborted();
    const record = this.#recordOf(artifact, request);
    const lease = this.#lease(record, artifact, o.stale === true ? { ...request, stale: true } : request);
    // By another name it may be of another repository, too.
    if (!record.send('bind')) this.#deck.onRank?.(record);
    return lease;
  }

  /**
   * A lease of something that no request found; under the lock of its id.
   *
   * @throws HandoverError `ERR_CLOSED`
   */
  adopt(artifact: A, o: { readonly owner: string; readonly reference: string; readonly key: string }): Lease<A> {
    this.#deck.terms.closing.throwIfAborted();
    const record = this.#seen(artifact, o.key);
    // Brought back it has to be for the same platform, whatever the source's own is.
    const platform = artifact.platform === '' ? undefined : artifact.platform;
    const lease = this.#lease(record, artifact, { ...o, platform });
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
      const read = (reference: string): NormalisedReference => nameOf(this.#deck.source, reference);
      const names = broughtNames(artifact, found.name, known, (name) => record.ours.has(name), read);
      for (const name of names) record.ours.set(name, found.platform);
      this.#deck.note?.(record);
    }
    const leases = o.waiters.map((request) => this.#lease(record, artifact, request));
    const moved = record.send(leases.length > 0 ? 'bind' : 'land');
    if (!moved) {
      this.#tell(record);
      this.#deck.onRank?.(record);
    }
    return leases;
  }

  /** Content that no request found: on record from now on, as idle as if it had been used now (IC-18). */
  note(artifact: A): void {
    this.#seen(artifact, artifact.references[0] ?? artifact.id).send('land');
  }

  release(hold: Hold): void {
    const holds = this.#byOwner.get(hold.owner);
    if (holds?.delete(hold) !== true) return;
    hold.ended?.();
    if (holds.size === 0) this.#byOwner.delete(hold.owner);
    const record = this.#records.get(hold.imageId);
    if (record === undefined) return;
    record.letGo(hold);
    this.#deck.note?.(record);
  }

  /** What its owner has not been told of yet was taken after this (IC-1). */
  releaseOwner(owner: string): void {
    const holds = [...(this.#byOwner.get(owner) ?? [])];
    for (const hold of holds) if (this.#deck.untold?.has(hold) !== true) this.release(hold);
  }

  /** A claim ends at another time than it was to. */
  renewed(hold: Hold): void {
    const record = this.#records.get(hold.imageId);
    if (record !== undefined) this.#deck.note?.(record);
  }

  /** Content that is held has been deleted by somebody else: its holders are told once (IC-22). */
  lose(record: ImageRecord<A>): void {
    if (record.lost || record.state !== 'held') return;
    record.lost = true;
    // Whoever brings it back from now on owns it, which may be somebody else (IC-17).
    record.ours.clear();
    this.#deck.note?.(record);
    this.#deck.emitter.emit('image:lost', { imageId: record.id, owners: record.owners });
  }

  /** Content as an earlier process knew it, with the claims of then (IC-21). */
  restore(id: string, content: StoredContent): readonly Ghost[] {
    const { clock } = this.#deck;
    const record = this.#begin(id, content.reference);
    record.references = content.references;
    record.digest = content.digest;
    record.firstSeen = content.firstSeen;
    for (const [name, platform] of content.ours) record.ours.set(name, platform ?? undefined);
    const ghosts = content.leases.map((lease) => new Ghost(id, lease));
    this.#haunt(record, ghosts);
    if (content.idleSince !== null && record.state === 'idle') {
      record.idleSince = content.idleSince;
      // Wall time may have jumped meanwhile (G-5).
      record.lastUsed = clock.now() - Math.max(0, clock.wall() - content.idleSince);
    }
    return ghosts;
  }

  /** The same content goes by another id now, to which all that is known moves; the source shows it (IC-22, S40). */
  move(record: ImageRecord<A>, artifact: A): void {
    const { ours, firstSeen, idleSince, lastUsed } = record;
    const isNew = !this.#records.has(artifact.id);
    const to = this.#seen(artifact, record.reference);
    for (const [name, platform] of ours) if (artifact.references.includes(name)) to.ours.set(name, platform);
    to.firstSeen = Math.min(to.firstSeen, firstSeen);
    const ghosts = this.ghosts.filter(({ imageId }) => imageId === record.id);
    this.#haunt(
      to,
      ghosts.map((ghost) => new Ghost(artifact.id, ghost)),
    );
    if (isNew && to.state === 'idle') [to.idleSince, to.lastUsed] = [idleSince, lastUsed];
    this.#movedTo.set(record.id, artifact.id);
    this.vanish(record);
  }

  /** Content that is only known from the store is not there any more. */
  vanish(record: ImageRecord<A>): void {
    for (const ghost of this.ghosts) if (ghost.imageId === record.id) this.release(ghost);
    record.send('vanished');
  }

  /** The claims of earlier processes that are left. */
  get ghosts(): readonly Ghost[] {
    return [...this.#byOwner.values()].flatMap((holds) => [...holds].filter((hold) => hold instanceof Ghost));
  }

  /** The id by which content is known now that was once known by this one. */
  idNow(id: string): string {
    return this.#movedTo.get(id) ?? id;
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
    if (before !== undefined && before.record !== record) this.#leave(before.record, found);
    this.#byKey.set(found.key, { record, artifact });
    record.keys.add(found.key);
    record.reference = found.name.key;
    return record;
  }

  /** A name means other content from now on. */
  #leave(record: ImageRecord<A>, { key, name }: Found): void {
    record.keys.delete(key);
    record.references = record.references.filter((reference) => reference !== name.key);
    if (record.state === 'idle') this.#deck.onIdle(record);
  }

  #seen(artifact: A, reference: string): ImageRecord<A> {
    const record = this.#records.get(artifact.id) ?? this.#begin(artifact.id, reference);
    record.see(artifact);
    return record;
  }

  #begin(id: string, reference: string): ImageRecord<A> {
    const record = new ImageRecord<A>(id, reference, this.#deck.clock, (moved, event) => this.#moved(moved, event));
    this.#records.set(id, record);
    return record;
  }

  #haunt(record: ImageRecord<A>, ghosts: readonly Ghost[]): void {
    for (const ghost of ghosts) this.#hold(record, ghost, ghost.since);
    record.send(record.holders.size > 0 ? 'bind' : 'land');
  }

  #lease(record: ImageRecord<A>, artifact: A, o: LeaseTerms & { readonly ttl?: number | undefined }): Lease<A> {
    const { keeper, terms } = this.#deck;
    const lease =
      o.ttl === undefined ? new Lease(keeper, artifact, o) : new TimedLease(keeper, terms, artifact, o, o.ttl);
    this.#deck.untold?.add(lease);
    this.#hold(record, lease);
    return lease;
  }

  #hold(record: ImageRecord<A>, hold: Hold, since?: number): void {
    record.hold(hold, since);
    const holds = this.#byOwner.get(hold.owner);
    if (holds === undefined) this.#byOwner.set(hold.owner, new Set([hold]));
    else holds.add(hold);
    this.#deck.note?.(record);
    if (hold.provisional) return;
    for (const earlier of record.holdsOf(hold.owner)) if (earlier.provisional) this.release(earlier);
  }

  #moved(record: ImageRecord<A>, event: ImageEvent): void {
    if (record.state === 'held') {
      record.cancelRemoval();
      record.removeAt = record.kept = undefined;
      record.refusals = record.notBefore = 0;
      record.idleSince = null;
    }
    if (event === 'lastRelease' || event === 'land') {
      record.idleSince = this.#deck.clock.wall();
      record.lastUsed = this.#deck.clock.now();
      this.#deck.onIdle(record);
    }
    if (record.state === 'absent') this.#drop(record);
    if (event !== 'delayElapsed') this.#deck.note?.(record);
    this.#tell(record);
    this.#deck.onRank?.(record);
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
