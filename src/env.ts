import * as v from 'valibot';
import type { Opt } from './call.js';
import { type Clock, systemClock } from './clock.js';
import { type HandoverError, invalidOption } from './errors.js';
import type { HandoverEvent } from './events.js';
import { flag, method, openObject, parseOptions } from './options.js';
import type { Registrar, ShutdownHooks } from './shutdown/types.js';
import type { StateStore } from './store/store.js';

/**
 * The ports and functions that primitives use, in one open bag: one object serves all of them, and keys that a
 * primitive does not know are no error (G-2).
 */
export type Env = Opt<{
  /** All time and chance. Default: the system's clock. */
  clock: Clock;
  /** Every event of every primitive, in order: where a logger, metrics or a UI plugs in. A throw in it breaks nothing. */
  onEvent: (event: HandoverEvent) => void;
  /** Where state outlives the process. Default: none, what is known ends with the process. */
  store: StateStore;
  /** The service registry or balancer. Default: none, nothing is registered. */
  registrar: Registrar;
  /** What the embedder wants done around a shutdown. */
  hooks: ShutdownHooks;
}>;

/** A statement of why something is as it is. */
export interface Reason {
  /** A short, stable word: an error code or a state word such as `image-in-use`. */
  readonly code: string;
  /** One sentence for a person. */
  readonly message: string;
  /** Wall time, ms. */
  readonly at: number;
  /** The error behind it, if there is one. */
  readonly error?: HandoverError;
}

/** The one answer to "why does nothing happen" (G-9). */
export interface Wait {
  readonly for:
    'queue' | 'pull' | 'retry' | 'previous' | 'successor' | 'deregister' | 'drain' | 'exit' | 'health' | 'restart';
  /** Wall time, ms. */
  readonly since: number;
  /** Wall time of the deadline, ms; `null`: there is none, and `why` says why not. */
  readonly until: number | null;
  /** What is waited on: an alloc id, an instance, a reference. */
  readonly on?: string;
  /** One sentence for a person. */
  readonly why: string;
}

/** An env with its defaults filled in. */
export interface Ground {
  readonly clock: Clock;
  readonly onEvent: (event: HandoverEvent) => void;
  readonly store: StateStore | undefined;
  readonly registrar: Registrar | undefined;
  readonly hooks: ShutdownHooks;
}

/** Keys that a primitive does not know are no error: env and hooks may be objects of the embedder's, with more in them. */
const HOOKS = openObject({
  preStop: v.optional(method),
  postStop: v.optional(method),
  cancelled: v.optional(method),
  preStopFirst: flag(true),
});
const ENV = openObject({ onEvent: v.optional(method), hooks: v.optional(HOOKS) });

/**
 * The one place where an env's defaults are filled in.
 *
 * @throws HandoverError `ERR_INVALID_OPTION` for what is not of its kind, and for a port that lacks a method
 */
export function resolveEnv(env: Env = {}): Ground {
  parseOptions(ENV, env, 'env');
  requireMethods('env.clock', env.clock, ['now', 'wall', 'timer', 'random']);
  requireMethods('env.store', env.store, ['batch', 'list']);
  requireMethods('env.registrar', env.registrar, ['register', 'deregister'], ['confirms']);
  return {
    clock: env.clock ?? systemClock,
    onEvent: env.onEvent ?? (() => undefined),
    store: env.store,
    registrar: env.registrar,
    // As they are: hooks may be methods of an object of the embedder's.
    hooks: env.hooks ?? {},
  };
}

/**
 * Refuses a port that cannot do what the library will ask of it, before anything is touched.
 *
 * @param methods - what it must have
 * @param optional - what it need not have
 * @throws HandoverError `ERR_INVALID_OPTION` naming the port and the method
 */
export function requireMethods(
  path: string,
  port: object | undefined,
  methods: readonly string[],
  optional: readonly string[] = [],
): void {
  if (port === undefined) return;
  const member = (name: string): unknown => (port as Readonly<Record<string, unknown>> | null)?.[name];
  for (const name of methods) {
    if (typeof member(name) !== 'function') throw invalidOption(path, `has no method ${name}()`);
  }
  for (const name of optional) {
    if (member(name) !== undefined && typeof member(name) !== 'function') {
      throw invalidOption(`${path}.${name}`, 'must be a function');
    }
  }
}
