import type { Clock } from '../clock.js';
import { requireMethods } from '../env.js';
import { invalidOption } from '../errors.js';
import { backoff } from '../internal/backoff.js';
import { onAbort, sleep } from '../internal/signals.js';
import { deferred } from '../internal/deferred.js';
import { parseOptions, text } from '../options.js';
import type { AllocPeer, Sighting } from './types.js';

/** @throws HandoverError `ERR_INVALID_OPTION` for what cannot be watched as an alloc */
export function requirePeer(path: string, peer: AllocPeer): void {
  if ((peer as AllocPeer | undefined) === undefined) throw invalidOption(path, 'is required');
  requireMethods(path, peer, ['watch']);
  parseOptions(text, peer.id, `${path}.id`);
}

/** How soon a feed that ended or threw is read again. */
const REREAD = { first: 100, max: 10_000, jitter: 'full' } as const;

/**
 * What is seen of a peer: how it is now, then changes. A feed that ends or throws is read again, with backoff, and
 * counts as unreachable in between (AL-12).
 *
 * @throws the signal's reason when it aborts
 */
export async function* sightings(
  peer: AllocPeer,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<Sighting, void, undefined> {
  for (let failures = 1; ; failures++) {
    try {
      for await (const sighting of interruptible(peer.watch({ signal }), signal)) {
        failures = 0;
        yield sighting;
      }
    } catch {
      signal.throwIfAborted();
    }
    yield { seen: 'unreachable' };
    await sleep(clock, backoff(REREAD, Math.max(1, failures), clock), { signal });
  }
}

/** The same items, but an abort ends the wait for the next one even when the feed does not listen to it. */
async function* interruptible<T>(items: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T, void, undefined> {
  const iterator = items[Symbol.asyncIterator]();
  const aborted = deferred<never>();
  aborted.promise.catch(() => undefined);
  const dispose = onAbort(signal, aborted.reject);
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), aborted.promise]);
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    dispose();
    // Not awaited: a feed that hangs in `next()` would hang here too.
    void iterator.return?.().then(undefined, () => undefined);
  }
}

/** The present sighting of a peer: the first item of a fresh look. */
export async function look(peer: AllocPeer, clock: Clock, signal: AbortSignal): Promise<Sighting> {
  for await (const sighting of sightings(peer, clock, signal)) return sighting;
  return { seen: 'unreachable' };
}
