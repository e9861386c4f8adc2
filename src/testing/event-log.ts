import type { HandoverEvent } from '../events.js';

/** Keeps every event of an env, for tests to look at. */
export interface EventLog {
  /** For `env.onEvent`. */
  readonly onEvent: (event: HandoverEvent) => void;
  /** All events so far, in order. */
  readonly events: readonly HandoverEvent[];
  /** The types of all events so far, in order. */
  types(): readonly HandoverEvent['type'][];
}

/** A new, empty {@link EventLog}. */
export function eventLog(): EventLog {
  const events: HandoverEvent[] = [];
  return {
    onEvent: (event) => events.push(event),
    events,
    types: () => events.map((event) => event.type),
  };
}
