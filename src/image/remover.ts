import type { Clock } from '../clock.js';
import type { Reason } from '../env.js';
import { abortable } from '../internal/signals.js';
import type { Looks } from './looks.js';
import { nameOf } from './name-of.js';
import { reasonOf } from './pull-failure.js';
import type { ImageRecord } from './record.js';
import { namesLeft, removableNames } from './removal-plan.js';
import type { Artifact, ArtifactSource, RemovalOptions } from './types.js';

/**
 * How a removal ended: all gone; the rest is not ours; something keeps it for a while; or kept, to be tried again by time
 * or after a pull.
 */
export type Outcome = { readonly kind: 'gone' } | { readonly kind: 'left'; readonly reason: Reason } | Stays;

/** A removal that left the content on record. */
export type Stays = { readonly kind: 'stays'; readonly reason: Reason } | Kept;

interface Kept {
  readonly kind: 'kept';
  readonly reason: Reason;
  readonly after?: Promise<void>;
}

/** What the remover needs of the coordinator. */
export interface RemoverDeck<A extends Artifact> {
  readonly clock: Clock;
  readonly source: ArtifactSource<A>;
  readonly scope: NonNullable<RemovalOptions['scope']>;
  readonly looks: Looks<A>;
  /** The end of the flights of a reference that are in the air, if any. */
  readonly flightOf: (reference: string) => Promise<void> | undefined;
  /** Why it is not to go yet, if so, by the names that it goes by now. */
  readonly stays: (record: ImageRecord<A>) => Reason | undefined;
  /** Aborts when the coordinator waits for no removal any more. */
  readonly end: AbortSignal;
}

/** Takes the names of one piece of content away: never by force, never by id, never what is not ours (IC-17). */
export class Remover<A extends Artifact> {
  readonly #deck: RemoverDeck<A>;

  constructor(deck: RemoverDeck<A>) {
    this.#deck = deck;
  }

  /** Looks whether the content is there. */
  async find(record: ImageRecord<A>): Promise<A | undefined> {
    return this.#ask((call) => this.#deck.source.find(record.id, call));
  }

  /** The caller holds the lock of the content. */
  async remove(record: ImageRecord<A>): Promise<Outcome> {
    const tried = new Map<string, Kept | undefined>();
    for (;;) {
      const now = await this.find(record);
      if (now === undefined) return { kind: 'gone' };
      record.references = now.references;
      // Whoever brings a lost name back is not us; a removal of unknown outcome may have taken it away (G-8).
      for (const name of record.ours.keys()) if (!now.references.includes(name)) record.ours.delete(name);
      const stays = tried.size === 0 ? this.#deck.stays(record) : undefined;
      if (stays !== undefined) return { kind: 'stays', reason: stays };
      const names = this.#names(record, now).filter((name) => !tried.has(name));
      if (names.length === 0)
        return (
          worst(now.references.map((name) => tried.get(name))) ?? { kind: 'left', reason: this.notOurs(now.references) }
        );
      const inUse = await this.#inUse(record);
      if (inUse !== undefined) return inUse;
      for (const name of names) tried.set(name, await this.#untag(record, name));
    }
  }

  /** How a removal would end, as far as can be told without touching anything. */
  async foresee(record: ImageRecord<A>): Promise<{ readonly reason?: Reason }> {
    const { source, flightOf } = this.#deck;
    const now = await this.find(record);
    if (now === undefined) return {};
    const mayGo = (name: string): boolean => this.#mayGo(record, name);
    const names = this.#names(record, now);
    if (names.length === 0) return { reason: this.notOurs(now.references) };
    const inUse = await this.#inUse(record);
    if (inUse !== undefined) return inUse;
    const pulled = names.find((name) => flightOf(name) !== undefined);
    if (pulled !== undefined) return this.#beingPulled(pulled);
    const left = namesLeft(now, mayGo, (reference) => nameOf(source, reference));
    return left.length === 0 ? {} : { reason: this.notOurs(left) };
  }

  /** @param names - what the content still goes by */
  notOurs(names: readonly string[]): Reason {
    const why = names.length === 0 ? 'it has no name left' : `it still goes by ${names.join(', ')}`;
    return this.#reason('not-ours', `Only what this coordinator brought is removed (removal.scope); ${why}`);
  }

  async #inUse(record: ImageRecord<A>): Promise<Kept | undefined> {
    const users = await this.#ask((call) => this.#deck.source.users(record.id, call));
    return users.length === 0 ? undefined : this.#kept('image-in-use', `In use by ${users.join(', ')}`);
  }

  #mayGo(record: ImageRecord<A>, name: string): boolean {
    return this.#deck.scope === 'any' || record.ours.has(name);
  }

  #names(record: ImageRecord<A>, now: A): readonly string[] {
    const { source } = this.#deck;
    return removableNames(
      now,
      (name) => this.#mayGo(record, name),
      (reference) => nameOf(source, reference),
    );
  }

  /** Takes one name away, if it still means this content; nobody fetches it meanwhile. */
  async #untag(record: ImageRecord<A>, name: string): Promise<Kept | undefined> {
    const { looks, flightOf, clock } = this.#deck;
    for (let other; (other = looks.untagging(name)) !== undefined;) await other;
    const flight = flightOf(name);
    if (flight !== undefined) return { ...this.#beingPulled(name), after: flight };
    return looks
      .untag(name, () => this.#untagLocked(record, name))
      .catch((error: unknown) => ({ kind: 'kept', reason: reasonOf(error, clock) }));
  }

  async #untagLocked(record: ImageRecord<A>, name: string): Promise<Kept | undefined> {
    const { source } = this.#deck;
    const platform = record.ours.get(name);
    const meant = await this.#ask((call) => source.find(name, { ...call, platform }));
    if (meant?.id !== record.id) return undefined;
    const result = await this.#ask((call) => source.remove(name, call));
    if (result === 'in-use') return this.#kept('image-in-use', `The engine says that ${name} is in use`);
    record.ours.delete(name);
    // All names have gone with the content: whatever leads to it from now on was brought by somebody else.
    if (result === 'removed') record.ours.clear();
    return undefined;
  }

  /** Asks the source, but does not wait for one that ignores the coordinator's end. */
  async #ask<T>(question: (call: { readonly signal: AbortSignal }) => Promise<T>): Promise<T> {
    const signal = this.#deck.end;
    signal.throwIfAborted();
    return abortable(question({ signal }), signal);
  }

  #beingPulled(name: string): Kept {
    return this.#kept('pull-in-progress', `${name} is being pulled`);
  }

  #kept(code: string, message: string): Kept {
    return { kind: 'kept', reason: this.#reason(code, message) };
  }

  #reason(code: string, message: string): Reason {
    return { code, message, at: this.#deck.clock.wall() };
  }
}

/** What can be helped by time comes before what only has to wait for a pull. */
function worst(outcomes: readonly (Kept | undefined)[]): Kept | undefined {
  const problems = outcomes.filter((outcome) => outcome !== undefined);
  return problems.find(({ after }) => after === undefined) ?? problems[0];
}
