import type { Call } from '../call.js';
import { requireMethods } from '../env.js';
import { invalidOption } from '../errors.js';
import { Cell } from '../internal/cell.js';
import { checkCall } from '../internal/check-call.js';
import { parseOptions, text } from '../options.js';
import type { AllocFeed, AllocPeer, AllocView, Sighting } from './types.js';

/** How many allocs that have ended are remembered; a process that runs for years must not keep all of them. */
const REMEMBERED = 1_000;

/**
 * An alloc of a feed, as a watcher takes it.
 *
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function peer(feed: AllocFeed, id: string): AllocPeer {
  if ((feed as AllocFeed | undefined) === undefined) throw invalidOption('feed', 'is required');
  requireMethods('feed', feed, ['watch']);
  parseOptions(text, id, 'id');
  return { id, watch: (call) => feed.watch(id, call) };
}

/**
 * The feed of one process: what allocs publish, others see at once (AL-12).
 *
 * An id that nobody has published is `unreachable` until `synced()` says that all allocs of this process are known;
 * after that it is `absent`. Of those that have ended the latest 1,000 are remembered.
 */
export function memoryFeed(): AllocFeed & { synced(): void } {
  const feed = new MemoryFeed();
  return {
    watch: (id, call) => feed.watch(id, call),
    publish: (view) => feed.publish(view),
    synced: () => feed.synced(),
  };
}

class MemoryFeed {
  readonly #cells = new Map<string, Cell<Sighting>>();
  /** Ids of those that have ended, in that order. */
  readonly #ended = new Set<string>();
  #complete = false;

  async *watch(id: string, call: Call): AsyncGenerator<Sighting, void> {
    parseOptions(text, id, 'id');
    checkCall(call);
    const cell = this.#cell(id);
    try {
      yield* cell.watch(call.signal);
    } finally {
      this.#tidy(id);
    }
  }

  publish(view: AllocView): void {
    parseOptions(text, (view as AllocView | undefined)?.id, 'view.id');
    this.#cell(view.id).set({ seen: view });
    // It may have been taken up again under the same id since: the latest end counts.
    this.#ended.delete(view.id);
    if (view.terminal) this.#ended.add(view.id);
    const [oldest] = this.#ended;
    if (oldest === undefined || this.#ended.size <= REMEMBERED) return;
    this.#ended.delete(oldest);
    this.#tidy(oldest);
  }

  synced(): void {
    this.#complete = true;
    for (const cell of this.#cells.values()) if (cell.value.seen === 'unreachable') cell.set({ seen: 'absent' });
  }

  /** Forgets an id of which there is nothing to remember, once nobody watches it: a watcher learns what is next. */
  #tidy(id: string): void {
    const cell = this.#cells.get(id);
    if (cell === undefined || cell.watchers > 0) return;
    const { seen } = cell.value;
    if (typeof seen === 'string' || (seen.terminal && !this.#ended.has(id))) this.#cells.delete(id);
  }

  #cell(id: string): Cell<Sighting> {
    const found = this.#cells.get(id) ?? new Cell<Sighting>({ seen: this.#complete ? 'absent' : 'unreachable' });
    this.#cells.set(id, found);
    return found;
  }
}
