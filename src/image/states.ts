import type { Table } from '../internal/machine.js';

/** What one piece of content goes through, by id. An arrow that is not here does not exist. */
export const IMAGE_TABLE = {
  /** Not known here: never seen, removed, or left to others. */
  absent: { bind: 'held', land: 'idle' },
  held: { lastRelease: 'idle' },
  /** `vanished`: it was known from the store, and the source does not have it any more. */
  idle: { bind: 'held', delayElapsed: 'removing', vanished: 'absent' },
  /** Whoever wants it waits for one of these three, and looks again (IC-16). */
  removing: { removed: 'absent', refused: 'idle', forgotten: 'absent' },
} as const satisfies Table;

/** What one pull goes through, by key. */
export const FLIGHT_TABLE = {
  queued: { start: 'fetching', fail: 'failed', abandon: 'abandoned' },
  fetching: { retry: 'retrying', land: 'done', fail: 'failed', abandon: 'abandoned' },
  /** Waits for its next attempt, without a place in the queue. */
  retrying: { requeue: 'queued', fail: 'failed', abandon: 'abandoned' },
  done: {},
  /** Its callers get the error once the work has wound down. */
  failed: {},
  /** Everybody left; the work is winding down. */
  abandoned: {},
} as const satisfies Table;

type Events<T> = { [S in keyof T]: keyof T[S] }[keyof T] & string;

/** A state of {@link IMAGE_TABLE}. */
export type ImageState = keyof typeof IMAGE_TABLE;
/** An event of {@link IMAGE_TABLE}. */
export type ImageEvent = Events<typeof IMAGE_TABLE>;
/** A state of {@link FLIGHT_TABLE}. */
export type FlightState = keyof typeof FLIGHT_TABLE;
/** An event of {@link FLIGHT_TABLE}. */
export type FlightEvent = Events<typeof FLIGHT_TABLE>;
