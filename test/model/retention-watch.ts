import type { Artifact, ImageStatus, RetentionOptions } from 'handover';
import type { FakeClock } from 'handover/testing';

/** Watches that nothing is removed which is to stay (IC-18), by an account of its own. */
export class RetentionWatch {
  readonly #world: { readonly broken: string[] };
  readonly #clock: FakeClock;
  readonly #options: RetentionOptions;
  /** Id → when it was last taken or let go, at the earliest. */
  readonly #usedFrom = new Map<string, number>();
  /** Id → the same, at the latest. */
  readonly #usedTo = new Map<string, number>();
  /** Id → its names when it was last looked at, and since when each was seen, wall time. */
  readonly #names = new Map<string, ReadonlyMap<string, number>>();
  /** Id → every repository that it was ever of, by whatever look. */
  readonly #repositories = new Map<string, Set<string>>();
  #wiped = false;

  constructor(world: { readonly broken: string[] }, clock: FakeClock, options: RetentionOptions) {
    this.#world = world;
    this.#clock = clock;
    this.#options = options;
  }

  /**
   * The content was taken or let go.
   *
   * @param until - when the lease ends by itself, in the clock's `now()`
   */
  used(id: string, until = 0): void {
    const now = this.#clock.now();
    this.#usedFrom.set(id, now);
    this.#usedTo.set(id, Math.max(now, until));
  }

  /** The content was fetched: the coordinator will put it on record some time later, whether anybody takes it or not. */
  fetched(id: string): void {
    this.#usedTo.set(id, Infinity);
  }

  /**
   * The coordinator was shown the content.
   *
   * @param o.byId - it was looked for by its id: by a name, what was found may not be acted on yet
   */
  saw({ id, references }: Artifact, o: { readonly byId: boolean }): void {
    const before = this.#names.get(id);
    if (o.byId) this.#names.set(id, new Map(references.map((name) => [name, before?.get(name) ?? this.#clock.wall()])));
    const repositories = this.#repositories.get(id) ?? new Set();
    for (const name of references) repositories.add(repositoryOf(name));
    this.#repositories.set(id, repositories);
  }

  /** A stranger has deleted something: from then on the coordinator may not know yet who is the last. */
  wiped(): void {
    this.#wiped = true;
  }

  /** A name of the content is about to be taken away. */
  judge(id: string, known: readonly ImageStatus[]): void {
    const { pin = [], keepLast = 0, maxAge = Infinity } = this.#options;
    // A name that came while the removal ran came too late.
    const began = known.find(({ imageId, state }) => imageId === id && state === 'removing')?.since ?? 0;
    const names = [...(this.#names.get(id) ?? [])].flatMap(([name, since]) => (since < began ? [name] : []));
    for (const one of pin) {
      const isPinned = (key: string): boolean => (typeof one === 'string' ? one === key : new RegExp(one).test(key));
      if (one === id || names.some(isPinned)) this.#world.broken.push(`${id} is pinned by ${String(one)}`);
    }
    const lastUse = this.#usedFrom.get(id);
    if (this.#wiped || lastUse === undefined || this.#clock.now() >= lastUse + Number(maxAge)) return;
    for (const repository of new Set(names.map(repositoryOf))) {
      const later = known.filter(({ imageId, state }) => {
        if (imageId === undefined || imageId === id) return false;
        if (this.#repositories.get(imageId)?.has(repository) === false) return false;
        return state === 'held' || (this.#usedTo.get(imageId) ?? Infinity) >= lastUse;
      });
      if (later.length < keepLast) this.#world.broken.push(`${id} was among the last ${keepLast} of ${repository}`);
    }
  }
}

function repositoryOf(name: string): string {
  return name.split(/[:@]/, 1)[0] as string;
}
