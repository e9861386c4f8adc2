import type { ImageRecord } from './record.js';
import { type Retained, type RetentionRule, type Standing, standing } from './retention.js';
import type { Artifact, NormalisedReference } from './types.js';

const NOTHING = { id: '', names: [], firstSeen: 0 };

/** Applies the rule of retention to what is on record. */
export class Retainer<A extends Artifact> {
  readonly #rule: RetentionRule;
  readonly #normalise: (reference: string) => NormalisedReference;
  /** Each record keeps the list of its names until it is seen with others. */
  readonly #names = new WeakMap<readonly string[], readonly NormalisedReference[]>();

  constructor(rule: RetentionRule, normalise: (reference: string) => NormalisedReference) {
    this.#rule = rule;
    this.#normalise = normalise;
  }

  /** Whether what becomes of one piece of content can change what becomes of another. */
  get ranks(): boolean {
    return this.#rule.keepLast > 0;
  }

  /** @param all - everything that is known; the record itself need not be in it */
  standing(record: ImageRecord<A>, all: readonly ImageRecord<A>[]): Standing {
    // What nobody asked for costs nothing on the way of every release.
    if (!this.ranks && this.#rule.pin.length === 0)
      return standing({ ...NOTHING, lastUsed: record.lastUsed }, [], this.#rule);
    const content = this.#retained(record);
    if (!this.ranks) return standing(content, [], this.#rule);
    const others = all.map((other) => (other === record ? content : this.#retained(other)));
    return standing(content, all.includes(record) ? others : [...others, content], this.#rule);
  }

  /** Which of `all` are of a repository of the record's. */
  kin(record: ImageRecord<A>, all: readonly ImageRecord<A>[]): readonly ImageRecord<A>[] {
    const repositories = new Set(this.#namesOf(record).map(({ repository }) => repository));
    const isKin = (other: ImageRecord<A>): boolean =>
      this.#namesOf(other).some(({ repository }) => repositories.has(repository));
    return all.filter((other) => other !== record && isKin(other));
  }

  #retained(record: ImageRecord<A>): Retained {
    const { id, lastUsed, firstSeen } = record;
    return { id, names: this.#namesOf(record), lastUsed: record.state === 'held' ? Infinity : lastUsed, firstSeen };
  }

  #namesOf({ references }: ImageRecord<A>): readonly NormalisedReference[] {
    let names = this.#names.get(references);
    if (names === undefined) this.#names.set(references, (names = references.map(this.#normalise)));
    return names;
  }
}
