import { completeTable } from '../internal/machine.js';
import type { AllocState, Gate } from './types.js';

/**
 * The arrows of one alloc's life (AL-1). An event that a state does not name leaves it as it is, so a late or doubled
 * event does no harm. States never go back, but for a hold or a drain that is called off.
 */
const ARROWS = {
  // `recovered`: found running by its driver's labels.
  pending: { prestart: 'prestarting', discard: 'discarded', recovered: 'running' },
  prestarting: { prepared: 'prepared', prestartFailed: 'rejected', discard: 'discarded' },
  prepared: { awaitPrevious: 'waiting', start: 'starting', vanished: 'rejected', discard: 'discarded' },
  waiting: { start: 'starting', vanished: 'rejected', discard: 'discarded' },
  starting: { started: 'running', startFailed: 'failed', discard: 'discarded' },
  running: {
    hold: 'held',
    drain: 'draining',
    signal: 'stopping',
    exitedWell: 'complete',
    exitedBadly: 'failed',
    lost: 'lost',
  },
  // A held alloc has not been told anything yet: its exit is its own doing.
  held: {
    callOff: 'running',
    drain: 'draining',
    signal: 'stopping',
    exitedWell: 'complete',
    exitedBadly: 'failed',
    lost: 'lost',
  },
  // From here on an exit is what was wanted (AL-13).
  draining: { callOff: 'running', signal: 'stopping', exitedWell: 'stopped', exitedBadly: 'stopped', lost: 'stopped' },
  stopping: { unkillable: 'unkillable', exitedWell: 'stopped', exitedBadly: 'stopped', lost: 'stopped' },
  // Not an end: it is watched, and ends when it ends.
  unkillable: { exitedWell: 'stopped', exitedBadly: 'stopped', lost: 'stopped' },
  complete: {},
  stopped: {},
  rejected: {},
  failed: {},
  lost: {},
  discarded: {},
} as const satisfies Readonly<Record<AllocState, Readonly<Record<string, AllocState>>>>;

type KeysOfUnion<T> = T extends unknown ? keyof T : never;

/** What can happen to an alloc. */
export type AllocEvent = KeysOfUnion<(typeof ARROWS)[AllocState]>;

/** The whole transition table: every (state, event) pair; documentation and tests read it (AL-1). */
export const ALLOC_TABLE: Readonly<Record<AllocState, Readonly<Record<AllocEvent, AllocState>>>> = completeTable<
  AllocState,
  AllocEvent
>(ARROWS);

const ENDS: ReadonlySet<AllocState> = new Set(['complete', 'stopped', 'rejected', 'failed', 'lost', 'discarded']);

/** Whether nothing can happen to the alloc any more. */
export function isTerminal(state: AllocState): boolean {
  return ENDS.has(state);
}

const NOT_STARTED: ReadonlySet<AllocState> = new Set(['pending', 'prestarting', 'prepared', 'waiting']);

/** Whether the alloc can still be discarded: nothing of it has run. */
export function isBeforeStart(state: AllocState): boolean {
  return NOT_STARTED.has(state);
}

const SERVING: ReadonlySet<AllocState> = new Set(['running', 'held']);

/** Whether the alloc serves and has not been told to stop. */
export function isServing(state: AllocState): boolean {
  return SERVING.has(state);
}

const DOOMED: ReadonlySet<AllocState> = new Set(['stopping', 'unkillable']);

/** Whether the alloc has been told to end and has not yet: it will not serve or reach a gate any more. */
export function isDoomed(state: AllocState): boolean {
  return DOOMED.has(state);
}

const PREPARED: ReadonlySet<AllocState> = new Set(['prepared', 'waiting', 'starting', 'running', 'held']);

/** The highest gate that an alloc in this state holds (AL-3). */
export function reachedGate(state: AllocState, healthy: boolean): Gate {
  if (isServing(state) && healthy) return 'healthy';
  return PREPARED.has(state) ? 'prepared' : 'none';
}

const GATES: readonly Gate[] = ['none', 'prepared', 'healthy'];

/** Whether what was reached is at least the gate. */
export function meets(reached: Gate, gate: Gate): boolean {
  return GATES.indexOf(reached) >= GATES.indexOf(gate);
}
