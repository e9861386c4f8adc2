import { Cell } from '../internal/cell.js';
import type { AllocFeed, AllocPeer, Sighting } from './types.js';

/** An alloc of a feed, as a watcher takes it. */
export function peer(feed: AllocFeed, id: string): AllocPeer {
  return { id, watch: (call) => feed.watch(id, call) };
}

/**
 * The feed of one process: what allocs publish, others see at once (AL-12).
 *
 * An id that nobody has published is `unreachable` until `synced()` says that all allocs of this process are known;
 * after that it is `absent`.
 */
export function memoryFeed(): AllocFeed & { synced(): void } {
  const seen = new Map<string, Cell<Sighting>>();
  let complete = false;
  const cell = (id: string): Cell<Sighting> => {
    let found = seen.get(id);
    if (found === undefined) seen.set(id, (found = new Cell<Sighting>({ seen: complete ? 'absent' : 'unreachable' })));
    return found;
  };
  return {
    watch: (id, call) => cell(id).watch(call.signal),
    publish: (view) => cell(view.id).set({ seen: view }),
    synced() {
      complete = true;
      for (const one of seen.values()) if (one.value.seen === 'unreachable') one.set({ seen: 'absent' });
    },
  };
}
