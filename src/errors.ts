import type { AllocState, Gate } from './alloc/types.js';
import type { ExclusiveResource } from './driver/driver.js';
import type { PullLimit, PullReason } from './image/types.js';
import { messageOf } from './internal/message-of.js';
import type { ExitResult } from './shutdown/types.js';

/**
 * What each error code carries in `details`. Details are JSON and never hold credentials, environment variables or
 * specs (G-6).
 */
export interface ErrorDetails {
  /** An option is missing, of the wrong form, out of range or unknown. `path` names it: `removal.delay`. */
  readonly ERR_INVALID_OPTION: { readonly path: string };
  /** The reference breaks the grammar of its source; refused before any call. */
  readonly ERR_INVALID_REFERENCE: { readonly reference: string };
  /** The content is not there and the policy `never` (or an image id) forbids fetching it. */
  readonly ERR_IMAGE_ABSENT: { readonly reference: string };
  /** A pull ended without the content. `limit` tells which bound fired; `retryAt` is wall time in ms. */
  readonly ERR_PULL_FAILED: {
    readonly reference: string;
    readonly reason: PullReason;
    readonly attempts: number;
    readonly limit?: PullLimit;
    readonly retryAt?: number;
  };
  /** A driver's slow work failed; nothing was stopped. `cause` has the reason. */
  readonly ERR_PRESTART_FAILED: { readonly allocId: string; readonly task: string };
  /** A prepared task did not start, or ended before it counted as running. */
  readonly ERR_START_FAILED: { readonly allocId: string; readonly task: string; readonly exit?: ExitResult };
  /** The name that a spec asks for is held by something that is not ours. */
  readonly ERR_NAME_TAKEN: { readonly name: string; readonly by: string };
  /** Both allocs need a resource that only one can hold, so they cannot run side by side. */
  readonly ERR_OVERLAP_IMPOSSIBLE: { readonly resources: readonly ExclusiveResource[] };
  /** The asked order and gate wait on each other for ever. */
  readonly ERR_GATE_DEADLOCK: { readonly cycle: readonly string[] };
  /** The next alloc did not reach the gate. */
  readonly ERR_GATE_MISSED: { readonly allocId: string; readonly gate: Gate; readonly state: AllocState };
  /** The previous alloc is still there: its time is up, or it went back to running. */
  readonly ERR_PREVIOUS_RUNNING: { readonly allocId: string; readonly state: AllocState | 'unreachable' };
  /** Health was not reached within `healthyDeadline`; `checks` are those that did not pass. */
  readonly ERR_UNHEALTHY: { readonly allocId: string; readonly checks: readonly string[] };
  /** The alloc is in a state from which what was asked cannot come any more. */
  readonly ERR_ALLOC_ENDED: { readonly allocId: string; readonly state: AllocState };
  /** The registry did not acknowledge a deregistration in time. */
  readonly ERR_DEREGISTER_FAILED: { readonly instance: string };
  /** A driver's engine failed an operation; for driver authors. Facts are free-form JSON. */
  readonly ERR_DRIVER: { readonly driver: string; readonly operation: string; readonly [fact: string]: unknown };
  /** Another process, or another object in this one, has the store open; the message says which process. */
  readonly ERR_STORE_LOCKED: { readonly path: string };
  /** What is at `path` is damaged, no store, or of a newer version; nothing of it was changed. */
  readonly ERR_STORE_CORRUPT: { readonly path: string };
  /** The object was closed. */
  readonly ERR_CLOSED: Readonly<Record<string, never>>;
  /** The object was detached: let go without undoing anything (G-4). */
  readonly ERR_DETACHED: Readonly<Record<string, never>>;
}

/** A stable error code. */
export type ErrorCode = keyof ErrorDetails;

/** The error type of a code; for several codes a union, so that `switch (error.code)` narrows `details`. */
export type ErrorOf<C extends ErrorCode> = { [K in C]: HandoverError<K> }[C];

const BRAND = Symbol.for('handover.error');

/** The one error class of the library (G-6): stable `code`, typed `details`, `retryable`, `cause`. */
export class HandoverError<C extends ErrorCode = ErrorCode> extends Error {
  override readonly name = 'HandoverError';
  /** Stable across versions; switch on this, never on the message. */
  readonly code: C;
  /** Typed facts of the code. */
  readonly details: ErrorDetails[C];
  /** Whether the same call may succeed later without anything being changed. */
  readonly retryable: boolean;
  /** Recognises errors made by another copy of the library. */
  readonly [BRAND] = true;

  /**
   * @param code - one of the codes of {@link ErrorDetails}
   * @param message - what happened, to what, and what to do
   * @param o.details - the typed facts of the code; JSON, no secrets
   * @param o.cause - what was caught, if anything
   * @param o.retryable - whether trying again may help. Default `false`
   */
  constructor(code: C, message: string, o: { details: ErrorDetails[C]; cause?: unknown; retryable?: boolean }) {
    super(message, o.cause === undefined ? undefined : { cause: o.cause });
    this.code = code;
    this.details = o.details;
    this.retryable = o.retryable ?? false;
  }

  /** JSON form for logs and wires: code, message, details, retryable and the names and messages of all causes. */
  toJSON(): object {
    return errorJson(this, []);
  }
}

/** Of errors of others only name and message: what else hangs on them may be a secret (G-6). */
function errorJson(error: Error, above: readonly Error[]): object {
  const { name, message, cause } = error;
  const path = [...above, error];
  const part = (inner: unknown): unknown => {
    if (!(inner instanceof Error)) return messageOf(inner);
    return path.includes(inner) ? String(inner) : errorJson(inner, path);
  };
  return {
    ...{ name, message },
    ...(isHandoverError(error) ? { code: error.code, details: error.details, retryable: error.retryable } : {}),
    ...(cause === undefined ? {} : { cause: part(cause) }),
    ...(error instanceof AggregateError ? { errors: error.errors.map(part) } : {}),
  };
}

/**
 * Whether a value is a {@link HandoverError}, also one made by another copy of the library.
 *
 * @param error - anything that was caught
 * @param codes - when given, only these codes count, and `details` is narrowed to theirs
 */
export function isHandoverError<C extends ErrorCode = ErrorCode>(
  error: unknown,
  ...codes: readonly C[]
): error is ErrorOf<C> {
  if (typeof error !== 'object' || error === null || !(BRAND in error)) return false;
  return codes.length === 0 || codes.includes((error as HandoverError<C>).code);
}

/**
 * Finds the first error of one of `codes` in an error and its chain of causes (and in the parts of an
 * `AggregateError`).
 *
 * @returns the error found, or `undefined`
 */
export function findError<C extends ErrorCode>(error: unknown, ...codes: readonly C[]): ErrorOf<C> | undefined {
  const queue: unknown[] = [error];
  const seen = new Set<unknown>();
  for (const candidate of queue) {
    if (seen.has(candidate)) continue;
    seen.add(candidate);
    if (isHandoverError(candidate, ...codes)) return candidate;
    if (candidate instanceof AggregateError) queue.push(...(candidate.errors as unknown[]));
    if (candidate instanceof Error && candidate.cause !== undefined) queue.push(candidate.cause);
  }
  return undefined;
}

/** An `ERR_INVALID_OPTION` that names the option at fault. */
export function invalidOption(path: string, problem: string): HandoverError<'ERR_INVALID_OPTION'> {
  return new HandoverError('ERR_INVALID_OPTION', `Option ${path}: ${problem}`, { details: { path } });
}
