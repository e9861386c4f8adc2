import { EventEmitter } from 'eventemitter3';
import type { AllocEvents } from './alloc/types.js';
import type { Clock } from './clock.js';
import type { Reason } from './env.js';
import type { ImageEvents } from './image/types.js';
import { messageOf } from './internal/message-of.js';
import type { ReplaceEvents } from './replace/types.js';
import type { ShutdownEvents } from './shutdown/types.js';

/** Each event's payload: facts plus the whole state after; JSON. */
export interface EventMap extends ImageEvents, AllocEvents, ShutdownEvents, ReplaceEvents {
  /** Something went wrong that did not get in the way: a hook that threw, a registry that did not answer, … */
  readonly warning: { readonly subject: string; readonly reason: Reason };
}

/** An event as a listener gets it: its payload, its `type`, and `at` in wall time, ms. */
export type HandoverEvent<K extends keyof EventMap = keyof EventMap> = {
  [P in K]: EventMap[P] & { readonly type: P; readonly at: number };
}[K];

/**
 * Subscribes to one kind of event of one object; synchronous, so that "subscribe, then read" loses nothing (G-7).
 *
 * @returns ends the subscription
 */
export type On<P extends string> = <K extends Extract<keyof EventMap, `${P}:${string}`>>(
  type: K,
  listener: (event: HandoverEvent<K>) => void,
) => () => void;

/**
 * Deliveries that wait for the one in progress, so that an event raised inside a listener comes after the event that
 * caused it, for every listener and across all primitives. Empty whenever no listener is running.
 */
const pending: (() => void)[] = [];
let delivering = false;

function deliver(work: () => void): void {
  pending.push(work);
  if (delivering) return;
  delivering = true;
  try {
    for (let next = pending.shift(); next !== undefined; next = pending.shift()) next();
  } finally {
    delivering = false;
  }
}

/** A typed emitter that a bad listener cannot break (G-7). */
export class Emitter<P extends string> {
  readonly #emitter = new EventEmitter<Record<string, (event: HandoverEvent) => void>>();
  readonly #clock: Clock;
  readonly #onEvent: (event: HandoverEvent) => void;

  constructor(ground: { readonly clock: Clock; readonly onEvent: (event: HandoverEvent) => void }) {
    this.#clock = ground.clock;
    this.#onEvent = ground.onEvent;
  }

  /** See {@link On}. */
  readonly on: On<P> = (type, listener) => {
    // eventemitter3 stops at the first listener that throws; each is guarded on its own instead.
    const guarded = (event: HandoverEvent): void => this.#guard(type, () => listener(event as never));
    this.#emitter.on(type, guarded);
    return () => this.#emitter.off(type, guarded);
  };

  /** Tells everybody; call it only once the state it speaks of can be read. */
  emit<K extends keyof EventMap>(type: K, payload: EventMap[K]): void {
    const event = { ...payload, type, at: this.#clock.wall() } as HandoverEvent;
    deliver(() => {
      this.#guard(type, () => this.#onEvent(event));
      this.#emitter.emit(type, event);
    });
  }

  /** A `warning` about `subject`. */
  warn(subject: string, reason: Omit<Reason, 'at'>): void {
    this.emit('warning', { subject, reason: { ...reason, at: this.#clock.wall() } });
  }

  #guard(type: string, call: () => void): void {
    try {
      call();
    } catch (error) {
      // A sink that throws on the warning about itself would be told for ever.
      if (type === 'warning') return;
      this.warn(`listener of ${type}`, {
        code: 'listener-threw',
        message: `A listener of ${type} threw: ${messageOf(error)}`,
      });
    }
  }
}
