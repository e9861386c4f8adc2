import type { Call, Opt } from '../call.js';
import type { Progress } from '../image/types.js';
import type { ShutdownTarget } from '../shutdown/types.js';

/** Something that only one task at a time can hold (DP-7). */
export interface ExclusiveResource {
  readonly kind: 'port' | 'name' | 'address' | 'mount' | 'device';
  /** Equal keys of one kind clash: `8080/tcp`, `web`, … */
  readonly key: string;
  /**
   * Of a port, the address of the host that it is bound on: ports clash only where their addresses do. Default: all of
   * them, as are `0.0.0.0` for IPv4 and `::` for IPv6.
   */
  readonly address?: string | undefined;
  /** Whether it clashes on this host only or anywhere. */
  readonly scope: 'host' | 'cluster';
  /** From when on it is held. */
  readonly needed: 'create' | 'start';
}

/** What a driver gets to prepare one task. */
export interface PrestartContext<Spec> extends Call {
  /** `${allocId}/${task}`: the owner of leases, and the identity that leftovers are found by. */
  readonly owner: string;
  readonly allocId: string;
  readonly task: string;
  readonly spec: Spec;
  /** Hash of the canonical spec as given: decides "the same" (DP-2). */
  readonly specHash: string;
  /**
   * Put them on whatever is created, beside those by which the driver finds it again; {@link ListedTask.labels} tells
   * them. An alloc puts its stop plan there, as `handover.stop`, for whoever finds the task and knows nothing of it (DP-8).
   */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /**
   * The state of a handle: the content that task had, and no other, asking no registry: for a restart and for going back
   * to a previous version (DP-2). Content that is gone is `ERR_IMAGE_ABSENT`.
   */
  readonly content?: unknown;
  /** Tells how far the slow work is. */
  report(progress: Progress): void;
}

/** A task whose slow work is done and which has not been started. */
export interface PreparedTask {
  readonly owner: string;
  readonly specHash: string;
  /** Whether what was prepared is all still there: nobody removed it meanwhile (AL-3). */
  intact(call: Call): Promise<boolean>;
  /**
   * Undoes what was created here. A no-op once `start()` has resolved; after a start of unknown fate it removes
   * whatever runs under the owner (DP-1). Idempotent.
   */
  discard(call?: Call): Promise<void>;
  /** Same as {@link PreparedTask.discard}. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** The interface by which a driver does its slow, fallible work before anything is stopped (DP-1). */
export interface DriverPrestart<Spec, Prepared extends PreparedTask = PreparedTask> {
  readonly name: string;
  /**
   * JSON from a wire or a typed literal → a checked spec.
   *
   * @throws HandoverError `ERR_INVALID_OPTION` naming the field
   */
  parse(input: unknown): Spec;
  /** What a task of this spec holds alone; pure. */
  exclusive(spec: Spec): readonly ExclusiveResource[];
  /**
   * Names of the ports that a task of this spec will have in {@link TaskHandle.endpoints}; pure. A service or check that
   * names another one is then refused at once, instead of once the previous task has been stopped. Without it names are
   * looked at after the start.
   */
  ports?(spec: Spec): readonly string[];
  /**
   * Does all slow work that needs nothing the previous task holds; never starts the task (DP-5). Idempotent by owner
   * and spec hash (DP-2). Aborted or failed, it releases all that it took (DP-3).
   */
  prestart(ctx: PrestartContext<Spec>): Promise<Prepared>;
}

/** What a driver finds by its labels. */
export interface ListedTask<State = unknown> {
  readonly allocId: string;
  readonly task: string;
  readonly specHash: string;
  readonly state: State;
  /** `false`: prepared, never started. */
  readonly started: boolean;
  /** Those of {@link PrestartContext.labels}. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

/** A driver that also starts, finds again and stops its tasks (DP-8). */
export interface TaskDriver<Spec, State = unknown, Prepared extends PreparedTask = PreparedTask> extends DriverPrestart<
  Spec,
  Prepared
> {
  /** Starts what was prepared; ownership moves to the handle. */
  start(prepared: Prepared, call: Call): Promise<TaskHandle<State>>;
  /** Finds a task again by its handle's state; `undefined` = gone. */
  recover(state: State, call: Call & { readonly owner: string }): Promise<TaskHandle<State> | undefined>;
  /** Everything with our label, whoever made it. */
  list(call: Call): Promise<readonly ListedTask<State>[]>;
}

/** A piece of what a task has written. */
export interface LogChunk {
  readonly stream: 'stdout' | 'stderr';
  /** Wall time of the writing, ms; `undefined` when nothing records it. */
  readonly at: number | undefined;
  /** Bytes as they were written; a piece may end inside of a line or character. */
  readonly chunk: Uint8Array;
}

/** Which output is wanted. */
export type LogOptions = Call &
  Opt<{
    /** `true`: goes on with what comes, until the task has ended. Default `false`: what there is. */
    follow: boolean;
    /** Only what was written from this wall time on, ms; a driver that records no times gives all. Default: all. */
    since: number;
  }>;

/** What a command has come to. */
export interface ExecResult {
  readonly code: number;
  /** Both outputs as they came, UTF-8; the last 64 KiB of it. */
  readonly output: string;
}

/** A started task. */
export interface TaskHandle<State = unknown> extends ShutdownTarget {
  /** JSON by which `recover()` finds the task again; no secrets. */
  readonly state: State;
  /**
   * Wall time of its start, ms, if that is known: the health deadline of a task that an earlier process started counts
   * from then (AL-9).
   */
  readonly startedAt?: number | undefined;
  /** Where each named port can be reached. */
  readonly endpoints: Readonly<Record<string, { readonly address: string; readonly port: number }>>;
  /** Removes the remains and releases the lease; for a task that has ended. Idempotent. */
  destroy(call?: Call): Promise<void>;
  /**
   * Runs a command inside of the task, for checks by script. An abort stops the waiting, and the command as far as the
   * driver can.
   */
  exec?(argv: readonly string[], call: Call): Promise<ExecResult>;
  /** What the engine's own check says; `none`: it has none. */
  health?(call: Call): Promise<'starting' | 'healthy' | 'unhealthy' | 'none'>;
  /**
   * What the task has written, oldest first. Nothing is read ahead of who iterates. Ends with the task, or with what there
   * is; an abort ends it with the signal's reason.
   */
  logs?(o?: LogOptions): AsyncIterable<LogChunk>;
}

/** A driver of unknown types, as lists of drivers hold it. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the types of different drivers meet in one list
export type AnyTaskDriver = TaskDriver<any, any, any>;
