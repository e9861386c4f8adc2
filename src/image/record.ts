import type { Clock } from '../clock.js';
import type { Reason } from '../env.js';
import { Machine } from '../internal/machine.js';
import type { Hold } from './lease.js';
import { IMAGE_TABLE, type ImageEvent, type ImageState } from './states.js';
import type { Artifact, ImageStatus } from './types.js';

/** The claims of one owner. */
interface Holder {
  /** Wall time, ms. */
  readonly since: number;
  readonly holds: Set<Hold>;
}

/** What is known of one piece of content, by its id. */
export class ImageRecord<A extends Artifact> {
  readonly id: string;
  /** The name it was last taken or brought by. */
  reference: string;
  /** All names it went by when it was last seen. */
  references: readonly string[] = [];
  digest: string | undefined;
  /** The source has shown it in this process; until then it is only known from the store. */
  seen = false;
  /** References that we brought → the platform they were asked for (IC-17). */
  readonly ours = new Map<string, string | undefined>();
  /** Request keys by which it was taken; kept so that they can be forgotten with it. */
  readonly keys = new Set<string>();
  /** Why the last removal left it here, or why there is none. */
  kept: Reason | undefined;
  /** Wall time at which it was first known here, ms; an unknown age is now (IC-18). */
  firstSeen: number;
  /** Wall time since which nobody holds it, ms: its last use; `null` while it is held. */
  idleSince: number | null = null;
  /** When its last lease ended, in the clock's `now()`: what its removal is counted from (G-5). An unknown age is now. */
  lastUsed: number;
  /** Removals in a row that left it here. */
  refusals = 0;
  /** No removal is tried before this moment, in the clock's `now()`, since one was refused (IC-17). */
  notBefore = 0;
  /** Wall time of the planned removal, ms. */
  removeAt: number | undefined;
  /** Takes back the planned removal. */
  cancelRemoval: () => void = () => undefined;
  /** Somebody else deleted it while it was held; its holders have been told. */
  lost = false;
  readonly #clock: Clock;
  readonly #holders = new Map<string, Holder>();
  readonly #machine: Machine<ImageState, ImageEvent>;
  #since: number;

  /** @param onMove - told after each transition, when the record already reads the new state */
  constructor(
    id: string,
    reference: string,
    clock: Clock,
    onMove: (record: ImageRecord<A>, event: ImageEvent) => void,
  ) {
    this.id = id;
    this.reference = reference;
    this.#clock = clock;
    this.#since = this.firstSeen = clock.wall();
    this.lastUsed = clock.now();
    this.#machine = new Machine<ImageState, ImageEvent>(IMAGE_TABLE, 'absent', (_from, _to, event) => {
      this.#since = clock.wall();
      onMove(this, event);
    });
  }

  /** A record of content that is here and that nobody holds, told to nobody. */
  static of<A extends Artifact>(artifact: A, clock: Clock): ImageRecord<A> {
    const record = new ImageRecord<A>(artifact.id, artifact.references[0] ?? artifact.id, clock, () => undefined);
    record.references = artifact.references;
    record.send('land');
    return record;
  }

  get state(): ImageState {
    return this.#machine.state;
  }

  get owners(): readonly string[] {
    return [...this.#holders.keys()];
  }

  /** Who holds it, and by which claims. */
  get holders(): ReadonlyMap<string, { readonly since: number; readonly holds: ReadonlySet<Hold> }> {
    return this.#holders;
  }

  /** The source shows it now. */
  see({ references, digest }: A): void {
    this.references = references;
    this.digest = digest ?? this.digest;
    this.lost = false;
    this.seen = true;
  }

  /** Moves along the table; see {@link Machine.send}. */
  send(event: ImageEvent): boolean {
    return this.#machine.send(event);
  }

  /** One more handle of its owner. Whoever adds handles sends `bind` once all are there. */
  hold(hold: Hold, since = this.#clock.wall()): void {
    let holder = this.#holders.get(hold.owner);
    if (holder === undefined) this.#holders.set(hold.owner, (holder = { since, holds: new Set() }));
    holder.holds.add(hold);
  }

  /** Takes back a handle; a second time, or one that is not from here, changes nothing. */
  letGo(hold: Hold): void {
    const holder = this.#holders.get(hold.owner);
    if (holder?.holds.delete(hold) !== true) return;
    if (holder.holds.size === 0) this.#holders.delete(hold.owner);
    if (this.#holders.size === 0) this.#machine.send('lastRelease');
  }

  /** The handles of an owner. */
  holdsOf(owner: string): readonly Hold[] {
    return [...(this.#holders.get(owner)?.holds ?? [])];
  }

  status(): ImageStatus {
    return {
      reference: this.reference,
      imageId: this.id,
      state: this.state,
      since: this.#since,
      holders: [...this.#holders].map(([owner, { since, holds }]) => ({ owner, since, ...untilOf(holds) })),
      waiters: [],
      ...(this.removeAt === undefined ? {} : { removeAt: this.removeAt }),
      ...(this.kept === undefined ? {} : { kept: this.kept }),
    };
  }
}

/** An owner's claim ends by itself if all of its handles do. */
function untilOf(holds: ReadonlySet<Hold>): { readonly until?: number } {
  let last = 0;
  for (const { until } of holds) {
    if (until === undefined) return {};
    last = Math.max(last, until);
  }
  return { until: last };
}
