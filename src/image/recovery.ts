import { invalidOption } from '../errors.js';
import { abortable } from '../internal/signals.js';
import type { Ghost } from './ghost.js';
import type { Intent, Intents } from './intents.js';
import type { Local } from './local.js';
import type { Sight } from './looks.js';
import { AT_ONCE } from './options.js';
import type { ImageRecord } from './record.js';
import type { Shelf } from './shelf.js';
import type { Artifact } from './types.js';

/** What recovery needs of the coordinator. */
export interface RecoveryDeck<A extends Artifact> {
  readonly local: Local<A>;
  readonly shelf: Shelf<A>;
  readonly intents: Intents<A>;
  /** What is stored of a record has changed. */
  note(record: ImageRecord<A>): void;
}

/** What the source says of what the store knows; nothing has been changed for it. */
interface Findings<A extends Artifact> {
  readonly present: ReadonlyMap<string, A>;
  /** Content that is not there → the same under its new id, if there is such. */
  readonly missing: ReadonlyMap<ImageRecord<A>, A | undefined>;
  readonly intents: ReadonlyMap<Intent<A>, Sight<A> | undefined>;
}

/**
 * Brings what the store knows and what the source shows together (IC-21): first everything is asked, then everything is
 * changed in one step, so that a failure changes nothing and no other call comes in between.
 *
 * @returns owners whose claims were let go
 */
export async function reconcile<A extends Artifact>(
  deck: RecoveryDeck<A>,
  isLive: (owner: string) => boolean,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  const findings = await abortable(find(deck), signal);
  const dead = deadGhosts(deck.shelf.ghosts, isLive);
  for (const ghost of dead) deck.shelf.release(ghost);
  settleMissing(deck, findings);
  for (const record of deck.shelf.records) {
    const artifact = findings.present.get(record.id);
    if (artifact === undefined || record.seen) continue;
    confirm(record, artifact);
    deck.note(record);
  }
  for (const [intent, sight] of findings.intents) deck.intents.settle(intent, sight);
  return [...new Set(dead.map(({ owner }) => owner))];
}

async function find<A extends Artifact>({ local, shelf, intents }: RecoveryDeck<A>): Promise<Findings<A>> {
  const present = new Map((await local.list()).map((artifact) => [artifact.id, artifact]));
  const missing = new Map<ImageRecord<A>, A | undefined>();
  for (const record of shelf.records) {
    if (!record.seen && !present.has(record.id)) missing.set(record, await sameUnderNewId(local, record));
  }
  const pulled = new Map<Intent<A>, Sight<A> | undefined>();
  for (const intent of intents.unsettled) pulled.set(intent, await local.look(intent.reference, intent.platform));
  return { present, missing, intents: pulled };
}

/** An engine may come to count its content in another way (IC-22); the digest tells that it is the same. */
async function sameUnderNewId<A extends Artifact>(
  local: Local<A>,
  { digest, references }: ImageRecord<A>,
): Promise<A | undefined> {
  if (digest === undefined) return undefined;
  for (const reference of references) {
    const found = await local.find(reference, undefined);
    if (found?.digest === digest) return found;
  }
  return undefined;
}

/** What ends by itself lives by its time, not by its owner (IC-19). */
function deadGhosts(ghosts: readonly Ghost[], isLive: (owner: string) => boolean): readonly Ghost[] {
  const lasting = ghosts.filter(({ until }) => until === undefined);
  const alive = new Map([...new Set(lasting.map(({ owner }) => owner))].map((owner) => [owner, ask(isLive, owner)]));
  return lasting.filter(({ owner }) => alive.get(owner) === false);
}

/** A promise would count as alive for ever. */
function ask(isLive: (owner: string) => unknown, owner: string): boolean {
  const answer = isLive(owner);
  if (typeof answer !== 'boolean') throw invalidOption('isLive', AT_ONCE);
  return answer;
}

function settleMissing<A extends Artifact>({ shelf }: RecoveryDeck<A>, { missing }: Findings<A>): void {
  for (const [record, moved] of missing) {
    // It was brought back, or dealt with, since it was asked for.
    if (record.seen || shelf.get(record.id) !== record) continue;
    if (moved !== undefined) shelf.move(record, moved);
    else {
      shelf.lose(record);
      shelf.vanish(record);
    }
  }
}

function confirm<A extends Artifact>(record: ImageRecord<A>, artifact: A): void {
  record.see(artifact);
  // Whoever brings a lost name back is not us.
  for (const name of record.ours.keys()) if (!artifact.references.includes(name)) record.ours.delete(name);
}
