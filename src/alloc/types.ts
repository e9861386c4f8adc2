import type { Call, Duration, Opt } from '../call.js';
import type { ExclusiveResource, TaskDriver } from '../driver/driver.js';
import type { Env, Reason, Wait } from '../env.js';
import type { HandoverError } from '../errors.js';
import type { Progress } from '../image/types.js';
import type { ExitResult, ServiceInstance, ShutdownOptions, ShutdownReport, StopReason } from '../shutdown/types.js';

export type { StopReason };

/** Where an alloc is (AL-1). The last six are terminal. */
export type AllocState =
  | 'pending'
  | 'prestarting'
  | 'prepared'
  | 'waiting'
  | 'starting'
  | 'running'
  | 'held'
  | 'draining'
  | 'stopping'
  | 'unkillable'
  | 'complete'
  | 'stopped'
  | 'rejected'
  | 'failed'
  | 'lost'
  | 'discarded';

/** What the next alloc must have reached before the previous one is stopped (AL-3). */
export type Gate = 'none' | 'prepared' | 'healthy';

/** A health check (AL-9). */
export type Check = Opt<{
  /** Between two tries. Default 1 s. */
  interval: Duration;
  /** Of one try. Default 1 s. */
  timeout: Duration;
}> & {
  /** Unique in the alloc; events and errors name it so. */
  readonly name: string;
} & (
    | {
        /** `GET path` answers with a status from 200 to 399. */
        readonly type: 'http';
        /** Name of one of the task's ports. */
        readonly port: string;
        /** Begins with `/`. */
        readonly path: string;
      }
    | {
        /** A connection to the port can be opened. */
        readonly type: 'tcp';
        readonly port: string;
      }
    | {
        /** `env.checks[name]` answers `true`. */
        readonly type: 'custom';
      }
  );

/** A task inside an alloc. */
export interface AllocTask<Spec> {
  /** Letters, digits, `.`, `_`, `~`, `-`; 128 at most. */
  readonly name: string;
  /** Who runs it. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the driver's own types are erased in a list of tasks
  readonly driver: TaskDriver<Spec, any, any>;
  /** What to run; of the driver's own kind. */
  readonly spec: NoInfer<Spec>;
}

/** A service of an alloc: which port of which task is entered in the registry under which name. */
export interface ServiceDefinition {
  /** The name that clients look up. */
  readonly service: string;
  /** Name of the task. */
  readonly task: string;
  /** Name of one of the task's ports. */
  readonly port: string;
  /** When it is entered: as soon as the task runs, or at the first passing health. Default `healthy`. */
  readonly registerWhen?: 'started' | 'healthy' | undefined;
  /** Handed to the registrar as it is. Default: none. */
  readonly meta?: Readonly<Record<string, string>> | undefined;
}

/** How health is judged (AL-9). */
export type HealthOptions = Opt<{
  /** Default: none; then being alive for `minHealthyTime` is healthy. */
  checks: readonly Check[];
  /** How long all checks must pass in a row, the task alive. Default 10 s. */
  minHealthyTime: Duration;
  /** Counted from the start, never from the pull. Default 5 minutes. */
  healthyDeadline: Duration;
}>;

/** What can be said of an alloc besides its tasks. */
export interface AllocSettings {
  /** What is entered in the registry. Default: nothing. */
  readonly services?: readonly ServiceDefinition[] | undefined;
  /** How health is judged. */
  readonly health?: HealthOptions | undefined;
  /** How it is stopped. */
  readonly shutdown?: ShutdownOptions | undefined;
  /** `timeout`: bound of the whole prestart. Default: never; the wait is visible in `status()`. */
  readonly prestart?: Opt<{ timeout: Duration }> | undefined;
}

/** An alloc to be: an id and its tasks; each task's spec is checked against its own driver. */
export interface AllocSpec<
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- an erased spec is still an AllocSpec
  T extends readonly unknown[] = readonly any[],
> extends AllocSettings {
  /** Unique on the host, and another one than its predecessor's; letters, digits, `.`, `_`, `~`, `-`; 128 at most. */
  readonly id: string;
  /** Exactly one in this version. */
  readonly tasks: { readonly [K in keyof T]: AllocTask<T[K]> };
}

/** What others need to know of an alloc: durations, no times of day, so that it can travel between hosts. */
export interface AllocView {
  readonly id: string;
  readonly state: AllocState;
  /** The highest gate it has reached and still holds. */
  readonly reached: Gate;
  readonly terminal: boolean;
  /** The longest its stop can take, ms; `'never'`: it has no end, as `killTimeout` has none. */
  readonly stopBudget: number | 'never';
  /** Grows with each event, and when one more check passes. Other words for a failing check are no progress (AL-4). */
  readonly revision: number;
  readonly exclusive: readonly ExclusiveResource[];
}

/** What a feed says of an alloc: seen, absent (it is an authority, and sure), or unreachable (also: not yet in sync). */
export interface Sighting {
  readonly seen: AllocView | 'absent' | 'unreachable';
}

/** An alloc as another one watches it. */
export interface AllocPeer {
  readonly id: string;
  /** The first item is how it is now. When it ends or throws, the watcher reads again, with backoff. */
  watch(call: Call): AsyncIterable<Sighting>;
}

/** Where allocs are seen, also those of other processes (AL-12). */
export interface AllocFeed {
  watch(id: string, call: Call): AsyncIterable<Sighting>;
  publish?(view: AllocView): void;
}

/** How {@link PrevAllocWatcher} ended. */
export interface PreviousOutcome {
  readonly outcome: 'ended' | 'absent' | 'overlap';
  /** Milliseconds. */
  readonly waited: number;
  readonly last?: AllocView;
}

/** How {@link NextAllocWatcher} ended. */
export interface NextOutcome {
  readonly outcome: 'reached' | 'failed' | 'deadline' | 'bypassed';
  /** Milliseconds. */
  readonly waited: number;
  readonly last?: AllocView;
  readonly cause?: HandoverError;
}

/** Where one task of an alloc is. */
export interface TaskStatus {
  readonly phase: 'pending' | 'preparing' | 'prepared' | 'running' | 'stopping' | 'dead';
  readonly progress?: Progress;
  readonly exit?: ExitResult;
}

/** All there is to know of an alloc; JSON. */
export interface AllocStatus extends AllocView {
  /** Since when it is in this state; wall time, ms. */
  readonly since: number;
  readonly health: 'none' | 'pending' | 'passing' | 'failing';
  /** Why it is in this state. */
  readonly reason: Reason;
  /** What it waits for, if it waits (G-9). */
  readonly wait: Wait | null;
  readonly peers: { readonly previous?: string; readonly next?: string };
  readonly tasks: Readonly<Record<string, TaskStatus>>;
  /** The latest word of each check. */
  readonly checks: Readonly<Record<string, Reason>>;
  readonly registered: readonly ServiceInstance[];
}

/** The env of an alloc. */
export type AllocEnv = Env &
  Opt<{
    /** Where the alloc publishes itself. */
    feed: AllocFeed;
    /** Functions of checks with `type: 'custom'`, by the check's name; they live here, never in a spec. */
    checks: Readonly<Record<string, (at: AllocStatus, call: Call) => Promise<boolean>>>;
  }>;

/** What came of a stop of an alloc. */
export interface AllocStopReport {
  readonly outcome: 'stopped' | 'kept' | 'unkillable' | 'cancelled' | 'detached';
  /** How the wait for the successor ended, if there was one. */
  readonly gate?: NextOutcome;
  readonly tasks: readonly ShutdownReport[];
}

/** Events of an {@link AllocLifecycle}. */
export interface AllocEvents {
  /** The state moved. */
  readonly 'alloc:changed': { readonly from: AllocState; readonly alloc: AllocStatus };
  /** The health moved. */
  readonly 'alloc:health': { readonly alloc: AllocStatus };
  /** A task's phase moved, or its preparation got on. */
  readonly 'alloc:task': { readonly task: string; readonly alloc: AllocStatus };
}
