import { setTimeout as sleep } from 'node:timers/promises';
import { type AllocLifecycle, replace } from 'handover';
import { Client, type Seen } from './client.js';
import { type Span, Spans } from './spans.js';
import type { World } from './world.js';

/** After an update the client goes on for this long, to see whether anybody serves, and goes on to. */
const LOOK_ON_MS = 500;

/** What came of one of the two updates. */
export interface Update extends Seen, Came {
  /** The state changes of both versions, for the timeline. */
  readonly spans: readonly Span[];
}

/** How an update ended; `cause` says why it is not `replaced`. */
interface Came {
  readonly outcome: string;
  readonly cause?: string;
}

/** A way to do the update: the order of the steps. */
export type Way = (previous: AllocLifecycle, next: AllocLifecycle, signal: AbortSignal) => Promise<Came>;

/** The order of the day elsewhere: what is running is killed, and only then is the new content fetched. */
export const killFirst: Way = async (previous, next, signal) => {
  try {
    await previous.stop({ reason: 'operator' }).result;
    await next.start({ signal });
    await next.until('healthy', { signal });
    return { outcome: 'replaced' };
  } catch (error) {
    return { outcome: 'failed', cause: error instanceof Error ? error.message : String(error) };
  }
};

/** The same with handover. */
export const handover: Way = async (previous, next, signal) => {
  const { outcome, cause } = await replace(previous, next, { order: 'stop-first', signal });
  return { outcome, ...(cause !== undefined && { cause: cause.message }) };
};

/** What came up and has ended again since has replaced nothing. */
function inTheEnd(came: Came, { outageMs }: Seen, next: AllocLifecycle): Came {
  if (came.outcome !== 'replaced' || outageMs !== null) return came;
  const { terminal, reason } = next.status();
  return {
    outcome: 'failed',
    cause: `Version 2 came up, and does not serve any more. ${terminal ? reason.message : ''}`.trimEnd(),
  };
}

/** One run of an update. */
export interface Run {
  readonly name: string;
  readonly way: Way;
  readonly signal: AbortSignal;
  /** Told when the update is over: what happens to the versions from here on is only clearing away. */
  readonly clearing: () => void;
}

/**
 * Runs one update while a client asks, and clears everything away after it.
 *
 * @throws the signal's reason, or why version 1 could not be brought up; an update that fails is a value
 */
export async function runUpdate(world: World, { name, way, signal, clearing }: Run): Promise<Update> {
  const previous = world.previous(name);
  const next = world.next(name);
  try {
    await previous.start({ signal });
    await previous.until('healthy', { signal });
    const spans = new Spans({ v1: previous, v2: next });
    const client = new Client(world.url);
    const came = await way(previous, next, signal);
    await sleep(LOOK_ON_MS, undefined, { signal }).catch(() => undefined);
    const seen = await client.stop();
    const update = { ...seen, ...inTheEnd(came, seen, next), spans: spans.end() };
    signal.throwIfAborted();
    return update;
  } finally {
    clearing();
    await world.reset();
  }
}
