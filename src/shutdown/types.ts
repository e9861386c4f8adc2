import type { Call, Duration, Opt } from '../call.js';
import type { Reason, Wait } from '../env.js';

/** How a task ended (DP-9). */
export interface ExitResult {
  /** `null`: not known, or ended by a signal. */
  readonly code: number | null;
  readonly signal: string | null;
  readonly oom: boolean;
  /** Who ended it: itself, our signal, our kill, or nobody knows. */
  readonly by: 'self' | 'signal' | 'kill' | 'unknown';
  /** Wall time, ms. */
  readonly at: number;
}

/**
 * Something that can be stopped. Each method resolves when the thing is done, "gone" included, and rejects when its
 * outcome is unknown: the sequencer then looks again before it acts (G-8).
 */
export interface ShutdownTarget {
  /** Runs on the same id join (SS-8). */
  readonly id: string;
  /** The signal it wants to be asked by, when no option says otherwise. */
  readonly stopSignal?: string | undefined;
  isRunning(call: Call): Promise<boolean>;
  /** Resolves with the exit, also when it came before. */
  wait(call: Call): Promise<ExitResult>;
  signal(name: string, call: Call): Promise<void>;
  kill(call: Call): Promise<void>;
  /** Before the first signal: whatever would get in its way (SS-11). */
  disarm?(call: Call): Promise<void>;
  /** Undoes {@link ShutdownTarget.disarm} when the stop is called off. */
  rearm?(call: Call): Promise<void>;
}

/** One entry of a service registry or balancer. */
export interface ServiceInstance {
  /** Unique; contains the alloc id, so that the successor's entry is another one (SS-3). */
  readonly id: string;
  readonly service: string;
  readonly address: string;
  readonly port: number;
  readonly meta?: Readonly<Record<string, string>>;
}

/** A service registry or balancer. Resolved = acknowledged, "was already so" and "not found" included. */
export interface Registrar {
  register(instance: ServiceInstance, call: Call): Promise<void>;
  deregister(instance: ServiceInstance, call: Call): Promise<void>;
  /** Whether the catalogue, or the balancer, shows the instance: confirms registrations and deregistrations (SS-3). */
  confirms?(instance: ServiceInstance, call: Call): Promise<boolean>;
}

/** How a target is stopped (SS-1 to SS-6). */
export type ShutdownOptions = Opt<{
  /**
   * Between the acknowledged deregistration and the first signal. Default: 0 with nothing registered; 5 s when
   * instances are registered and the registrar cannot confirm.
   */
  shutdownDelay: Duration;
  /** Between the first signal and SIGKILL. 0 = SIGKILL only; `'never'` waits for ever. Default 5 s. */
  killTimeout: Duration;
  /**
   * The first signal: a name of Linux, with or without `SIG`, `SIGRTMIN` to `SIGRTMAX` as engines spell them, or a number
   * of Linux. Default: the target's own, else `SIGTERM`.
   */
  killSignal: string;
  /** After SIGKILL without an exit, the target counts as unkillable. Default 15 s. */
  confirmTimeout: Duration;
  /** Deregistration in all, retries included. Default 5 s. */
  deregisterTimeout: Duration;
  /**
   * When a deregistration is not acknowledged in time: go on (the full delay still applies), call the stop off, or
   * hold on for so long and then go on. Default `proceed`.
   */
  onDeregisterError: 'proceed' | 'abort' | { readonly hold: Duration };
}>;

/** What the embedder wants done around a shutdown. A hook that throws or hangs is a warning, bounded (SS-10). */
export type ShutdownHooks = Opt<{
  /**
   * Before everything else, or before the delay (`preStopFirst: false`). Paid from the kill timeout, of which at least
   * 2 s are kept for the signal: with `killTimeout` of 2 s or less it is not run. With `'never'` it has 30 s.
   */
  preStop: (id: string, call: Call) => Promise<void>;
  /** After the exit is confirmed; at most 5 s. */
  postStop: (id: string, call: Call) => Promise<void>;
  /** The stop was called off after `preStop` had run; at most 5 s. */
  cancelled: (id: string, call: Call) => Promise<void>;
  /** `false` puts the deregistration before `preStop` (SS-1). Default `true`. */
  preStopFirst: boolean;
}>;

/** Why something is stopped; all but `replaced` ignore the successor (AL-5). */
export type StopReason =
  'replaced' | 'operator' | 'drain' | 'preempted' | 'scale-in' | 'unhealthy' | (string & Record<never, never>);

/** One run: options that differ for it, its registrations, its reason. */
export type RunOptions = ShutdownOptions & Opt<{ services: readonly ServiceInstance[]; reason: StopReason }>;

/** Where a stop is. `held`: waits for a successor, nothing has been done yet. */
export type StopPhase =
  'held' | 'preStop' | 'deregister' | 'drain' | 'signal' | 'kill' | 'confirm' | 'postStop' | 'done';

/**
 * The longest a stop can take, in ms; `Infinity` with `killTimeout: 'never'` (SS-7). What each phase can take by itself
 * adds up to more than `total`: `preStop` is paid from the kill timeout, and `kill` from the confirm timeout. 10 s are
 * in it for a target that is slow to answer before its first signal.
 */
export interface ShutdownBudget {
  readonly total: number;
  readonly phases: readonly { readonly phase: StopPhase; readonly max: number }[];
}

/** What a stop did (SS-12); JSON. */
export interface ShutdownReport {
  readonly id: string;
  readonly outcome: 'exited' | 'forced' | 'already-gone' | 'unkillable' | 'cancelled' | 'detached';
  readonly exit?: ExitResult;
  readonly reason?: StopReason;
  readonly warnings: readonly Reason[];
  readonly phases: readonly {
    readonly phase: StopPhase;
    /** Wall time of its start, ms. */
    readonly at: number;
    readonly ms: number;
    readonly result: 'ok' | 'skipped' | 'timeout' | 'failed';
  }[];
}

/** A stop in progress. Its result is a value; it never rejects. */
export interface StopRun<R> {
  readonly id: string;
  readonly phase: StopPhase;
  readonly wait: Wait | null;
  readonly budget: ShutdownBudget;
  readonly result: Promise<R>;
  /** Ends the delay now; if it has not begun, it will not be waited for. */
  skipDelay(): void;
  /** Ends the present wait and goes on with the next step; no effect from SIGKILL on. */
  escalate(): void;
  /** SIGKILL now; a deregistration that is due is made at the same time. */
  killNow(): void;
  /** Calls the stop off, if no signal has been sent: what was done is undone (SS-9). */
  cancel(): Promise<'cancelled' | 'too-late'>;
}

/** A stop of one target. */
export type ShutdownRun = StopRun<ShutdownReport>;

/** Events of a {@link ShutdownSequencer}. */
export interface ShutdownEvents {
  /** A stop entered a phase. */
  readonly 'shutdown:phase': { readonly id: string; readonly phase: StopPhase; readonly wait: Wait | null };
  /** A stop ended. */
  readonly 'shutdown:ended': { readonly id: string; readonly report: ShutdownReport };
}
