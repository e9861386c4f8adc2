/**
 * The last argument of everything that waits, ports included.
 *
 * Aborting means *call it off and undo*: the call rejects with `signal.reason`, after its bounded undo and never
 * before (G-4). No listener stays on the signal once the call has settled.
 */
export interface Call {
  /** Abort = call it off and undo. */
  readonly signal?: AbortSignal | undefined;
}

/** All keys optional, where `undefined` means the default, also under `exactOptionalPropertyTypes` (G-2). */
export type Opt<T> = { readonly [K in keyof T]?: T[K] | undefined };

/** A span of time: milliseconds, or text with units such as `'1m30s'`; `Infinity` or `'never'` where never makes sense. */
export type Duration = number | string;

/** The same options after parsing: every key present, every duration in milliseconds. */
export type Effective<O> = {
  readonly [K in keyof O]-?: [Duration] extends [NonNullable<O[K]>] ? number : NonNullable<O[K]>;
};
