import type { Call, Effective } from '../call.js';
import type { Clock } from '../clock.js';
import { abortable, linkSignals } from '../internal/signals.js';
import { ImageRecord } from './record.js';
import type { Answer, Removals } from './removals.js';
import type { Shelf } from './shelf.js';
import type { Artifact, ArtifactSource, Collected, RemovalOptions } from './types.js';

/** What collecting needs of the coordinator. */
export interface CollectDeck<A extends Artifact> {
  readonly clock: Clock;
  readonly source: ArtifactSource<A>;
  readonly settings: Effective<RemovalOptions>;
  readonly shelf: Shelf<A>;
  readonly removals: Removals<A>;
  /** Aborts when the coordinator closes. */
  readonly closing: AbortSignal;
}

type Answers = readonly (readonly [imageId: string, answer: Answer])[];

/**
 * Removes now what nobody holds and nothing keeps, whatever is left of its delay (IC-18). One failure does not stop the
 * others (S32).
 *
 * @param o.dryRun - only says what it would do
 * @throws HandoverError `ERR_CLOSED`; what the source threw when it was asked for all that is present; the reason of
 *   `o.signal`
 */
export async function collect<A extends Artifact>(
  deck: CollectDeck<A>,
  o: Call & { readonly dryRun: boolean },
): Promise<Collected> {
  const link = linkSignals(o.signal, deck.closing);
  try {
    link.signal.throwIfAborted();
    const answers = await abortable(
      o.dryRun ? foreseeAll(deck, link.signal) : removeAll(deck, link.signal),
      link.signal,
    );
    return {
      removed: answers.flatMap(([imageId, answer]) => (answer === 'gone' ? [imageId] : [])),
      kept: answers.flatMap(([imageId, reason]) => (reason === 'gone' ? [] : [{ imageId, reason }])),
    };
  } finally {
    link.dispose();
  }
}

async function removeAll<A extends Artifact>(deck: CollectDeck<A>, signal: AbortSignal): Promise<Answers> {
  const { shelf, removals, settings } = deck;
  const { named, nameless } = await unknown(deck, signal);
  for (const artifact of named) shelf.note(artifact);
  const { records } = shelf;
  if (settings.enabled) await removals.dropGone(records);
  const removed = records.map(async (record) => {
    const answer = removals.keeps(record) ?? (await removals.now(record, () => signal.aborted));
    return [record.id, answer] as const;
  });
  return [...(await Promise.all(removed)), ...nameless];
}

/** The same answers, without touching anything. */
async function foreseeAll<A extends Artifact>(deck: CollectDeck<A>, signal: AbortSignal): Promise<Answers> {
  const { clock, shelf, removals, settings } = deck;
  const { named, nameless } = await unknown(deck, signal);
  const records = [...shelf.records, ...named.map((artifact) => ImageRecord.of(artifact, clock))];
  const present: ImageRecord<A>[] = [];
  for (const record of records) {
    signal.throwIfAborted();
    if (!settings.enabled || !(await removals.isGone(record))) present.push(record);
  }
  const answers: [string, Answer][] = [];
  for (const record of records) {
    signal.throwIfAborted();
    const answer = present.includes(record)
      ? (removals.keeps(record, present) ?? (await removals.foresee(record)))
      : 'gone';
    answers.push([record.id, answer]);
  }
  return [...answers, ...nameless];
}

/** What is present and not on record; only with the scope `any` that is asked for. */
async function unknown<A extends Artifact>(
  { source, settings, shelf, removals }: CollectDeck<A>,
  signal: AbortSignal,
): Promise<{ readonly named: readonly A[]; readonly nameless: Answers }> {
  if (settings.scope !== 'any' || !settings.enabled) return { named: [], nameless: [] };
  const present = await source.list({ signal });
  // The newest comes to be known last: among the last used it goes before older ones.
  const found = present.filter(({ id }) => shelf.get(id) === undefined).reverse();
  return {
    named: found.filter(({ references }) => references.length > 0),
    // What has no name could only be deleted by its id (IC-17).
    nameless: found
      .filter(({ references }) => references.length === 0)
      .map(({ id }) => [id, removals.remover.notOurs([])]),
  };
}
