import type { Clock } from '../clock.js';

interface Entry {
  readonly at: number;
  /** Of several at one time the first that was added comes first. */
  readonly turn: number;
  readonly fire: () => void;
  /** Where it is in the heap; -1 = no longer in it. */
  index: number;
}

/**
 * Any number of alarms on one timer of the clock, for house-keeping: it does not keep the process alive (G-5).
 * Adding and cancelling cost O(log n).
 */
export class HeapTimer {
  readonly #clock: Clock;
  readonly #heap: Entry[] = [];
  #turns = 0;
  #armedFor = Infinity;
  #disarm: () => void = () => undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How many alarms are set. */
  get size(): number {
    return this.#heap.length;
  }

  /**
   * Calls `fire` once, `ms` milliseconds from now; `Infinity` never fires.
   *
   * @returns cancels it; harmless after it fired
   */
  add(ms: number, fire: () => void): () => void {
    if (ms === Infinity) return () => undefined;
    const entry: Entry = { at: this.#clock.now() + ms, turn: this.#turns++, fire, index: this.#heap.length };
    this.#heap.push(entry);
    this.#up(entry);
    this.#arm();
    return () => {
      this.#take(entry);
      this.#arm();
    };
  }

  /** Cancels everything. */
  clear(): void {
    for (const entry of this.#heap) entry.index = -1;
    this.#heap.length = 0;
    this.#arm();
  }

  #arm(): void {
    const next = this.#heap[0]?.at ?? Infinity;
    if (next === this.#armedFor) return;
    this.#disarm();
    this.#armedFor = next;
    this.#disarm = this.#clock.timer(next - this.#clock.now(), () => this.#ring(), { keepAlive: false });
  }

  /** One by one, since an alarm may cancel others that are due; those that it adds have a ring of their own. */
  #ring(): void {
    const now = this.#clock.now();
    const turns = this.#turns;
    this.#armedFor = Infinity;
    try {
      for (let first = this.#heap[0]; isDue(first); first = this.#heap[0]) {
        this.#take(first);
        first.fire();
      }
    } finally {
      // What throws must not keep the others from their ring.
      this.#arm();
    }

    function isDue(entry: Entry | undefined): entry is Entry {
      return entry !== undefined && entry.at <= now && entry.turn < turns;
    }
  }

  #take(entry: Entry): void {
    if (entry.index === -1) return;
    const last = this.#heap.pop() as Entry;
    if (last !== entry) {
      this.#place(last, entry.index);
      this.#up(last);
      this.#down(last);
    }
    entry.index = -1;
  }

  #place(entry: Entry, index: number): void {
    this.#heap[index] = entry;
    entry.index = index;
  }

  #up(entry: Entry): void {
    while (entry.index > 0) {
      const parent = this.#heap[(entry.index - 1) >> 1] as Entry;
      if (isBefore(parent, entry)) return;
      this.#swap(parent, entry);
    }
  }

  #down(entry: Entry): void {
    for (;;) {
      const left = this.#heap[2 * entry.index + 1];
      const right = this.#heap[2 * entry.index + 2];
      const child = right !== undefined && left !== undefined && isBefore(right, left) ? right : left;
      if (child === undefined || isBefore(entry, child)) return;
      this.#swap(entry, child);
    }
  }

  #swap(upper: Entry, lower: Entry): void {
    const index = upper.index;
    this.#place(upper, lower.index);
    this.#place(lower, index);
  }
}

function isBefore(a: Entry, b: Entry): boolean {
  return a.at === b.at ? a.turn < b.turn : a.at < b.at;
}
