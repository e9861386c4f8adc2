import type { AllocStopReport, AllocView, Gate } from '../alloc/types.js';
import type { AllocLifecycle } from '../alloc/lifecycle.js';
import type { Call, Duration, Opt } from '../call.js';
import type { HandoverError } from '../errors.js';

/** How one alloc is replaced by its successor (RO-1). */
export type ReplaceOptions = Call &
  Opt<{
    /**
     * `stop-first`: prepare the next, stop the previous, start the next. `start-first`: start the next, wait until it
     * is healthy and registered, stop the previous. Default: `stop-first` when both need the same exclusive resource,
     * else `start-first`.
     */
    order: 'stop-first' | 'start-first';
    /** What the next must have reached before the previous is stopped. Default: the one of the order's table. */
    gate: Gate;
    /** How long the next may take to the gate without any progress. Default 30 minutes. */
    gateDeadline: Duration;
    /** What happens to the previous when the next does not reach the gate. Default `keep`. */
    onNextFailed: 'keep' | 'proceed';
  }>;

/** One step of a replacement, in time. */
export interface TimelineEntry {
  /** Wall time of its start, ms. */
  readonly at: number;
  /** The alloc. */
  readonly id: string;
  readonly step: string;
  /** How long it took. */
  readonly ms: number;
}

/** What came of a replacement; a value, also when it failed. */
export interface ReplaceResult {
  readonly outcome: 'replaced' | 'kept-previous' | 'stopped' | 'failed' | 'detached';
  /** Who serves now. */
  readonly serving: AllocLifecycle | undefined;
  /** Why it is not `replaced`; with `replaced`: the next one serves, but the registry has not taken it yet. */
  readonly cause?: HandoverError;
  readonly stop?: AllocStopReport;
  /**
   * From the previous one's deregistration or first signal, whichever stops service, to the next one's registration
   * or first passing check. `from` is wall time, ms. Absent when there was none. `open`: nobody serves yet, and `ms` is
   * the time so far.
   */
  readonly outage?: { readonly from: number; readonly ms: number; readonly open?: true };
  /**
   * Ids of allocs of which something is left, because it could not be removed or does not end. Absent when there are
   * none. `destroy()` them once they have ended.
   */
  readonly remains?: readonly string[];
  readonly timeline: readonly TimelineEntry[];
}

/** Events of {@link replace}. */
export interface ReplaceEvents {
  /** A replacement ended. `serving` is the view of who serves now. */
  readonly 'replace:ended': {
    readonly result: Omit<ReplaceResult, 'serving'> & { readonly serving: AllocView | undefined };
  };
}
