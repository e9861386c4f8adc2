import PQueue from 'p-queue';
import { deferred } from '../internal/deferred.js';

/** A place in the line of pulls, and then one of its slots. */
export interface Ticket {
  /** Resolves when the slot is ours, with whether there was a wait. */
  readonly slot: Promise<boolean>;
  /** From 0; how many pulls are before this one. `undefined` once it has a slot or left. */
  position(): number | undefined;
  /** Moves to the front part of the line, if still in it. */
  promote(): void;
  /** Leaves the line, or gives the slot back. Idempotent. */
  leave(): void;
}

const PRIORITY = { start: 1, prefetch: 0 } as const;

interface Waiting {
  readonly id: string;
  priority: 0 | 1;
  readonly moved: () => void;
}

/**
 * So many pulls at once, `start` before `prefetch`, first come first served (IC-7).
 *
 * A slot is taken and given back by hand: p-queue would free it as soon as a signal or timeout that it was given
 * fires, while the work behind it still runs.
 */
export class PullQueue {
  readonly #queue: PQueue;
  #nextId = 0;
  /** In order of arrival within a priority, like p-queue's own line. */
  readonly #line = new Set<Waiting>();

  /** @param concurrency - slots, from 1 */
  constructor(concurrency: number) {
    this.#queue = new PQueue({ concurrency });
  }

  /** @param moved - told when the position may have changed */
  enter(priority: keyof typeof PRIORITY, moved: () => void): Ticket {
    const place: Waiting = { id: String(this.#nextId++), priority: PRIORITY[priority], moved };
    const started = deferred<boolean>();
    const over = deferred();
    const exit = new AbortController();
    let waited = false;
    this.#line.add(place);
    const work = async (): Promise<void> => {
      this.#remove(place);
      started.resolve(waited);
      await over.promise;
    };
    // The signal only ever fires while the work waits in line.
    this.#queue.add(work, { id: place.id, priority: place.priority, signal: exit.signal }).catch(() => undefined);
    waited = true;
    return {
      slot: started.promise,
      ...this.#ticketActions(place, () => exit.abort(), over.resolve),
    };
  }

  #ticketActions(place: Waiting, exit: () => void, giveBack: () => void): Omit<Ticket, 'slot'> {
    return {
      position: () => this.#positionOf(place),
      promote: () => {
        if (!this.#line.has(place) || place.priority === PRIORITY.start) return;
        place.priority = PRIORITY.start;
        this.#queue.setPriority(place.id, PRIORITY.start);
        this.#line.delete(place);
        this.#line.add(place);
        this.#tell();
      },
      leave: () => {
        if (this.#remove(place)) exit();
        giveBack();
      },
    };
  }

  #positionOf(place: Waiting): number | undefined {
    if (!this.#line.has(place)) return undefined;
    let before = 0;
    let passed = false;
    for (const other of this.#line) {
      if (other === place) passed = true;
      else if (other.priority > place.priority || (other.priority === place.priority && !passed)) before += 1;
    }
    return before;
  }

  #remove(place: Waiting): boolean {
    const was = this.#line.delete(place);
    if (was) this.#tell();
    return was;
  }

  #tell(): void {
    for (const place of this.#line) place.moved();
  }
}
