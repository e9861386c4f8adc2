import type { Clock, Deadline } from '../clock.js';
import type { Wait } from '../env.js';
import type { Deregistration } from './deregistration.js';
import type { HookName } from './hooks.js';
import type { Interrupts } from './interrupts.js';
import type { ShutdownHooks } from './types.js';
import type { WatchedTarget } from './watched-target.js';

/** Tells of something that went wrong and is not in the way: an event, and a line in the report. */
export type Warn = (code: string, message: string, error?: unknown) => void;

/** What a stop waits for in its present step (G-9); `ms` from now. */
export type StepWait = Pick<Wait, 'for' | 'on' | 'why'> & { readonly ms: number };

/** What a stop has done so far: each fact decides what may still be done, or what has to be undone. */
export interface Done {
  /** The hooks that were called. */
  readonly hooks: Set<HookName>;
  /** What `preStop` took from the kill timeout, ms. */
  spent: number;
  /** Monotonic time from which the delay counts (SS-3). */
  quietSince: number | undefined;
  /** The registrar confirmed that the instances are not shown any more. */
  confirmed: boolean;
  /** The target was looked at, and disarmed if it can be. */
  ready: boolean;
  /** A signal was sent, or is about to be: too late to call the stop off (SS-9). */
  committed: boolean;
  /** SIGKILL was sent. */
  killed: boolean;
  /** When SIGKILL has to have had its effect. */
  confirmBy: Deadline | undefined;
}

/** The signal that asks the target to end. */
export interface FirstSignal {
  readonly name: string;
  /** What the target asks to be asked by, when that is no signal and another one is taken. */
  readonly refused?: string;
}

/** All that the steps of one stop work with. */
export interface StopContext {
  readonly id: string;
  readonly clock: Clock;
  readonly interrupts: Interrupts;
  readonly target: WatchedTarget;
  readonly hooks: ShutdownHooks;
  /** Without it there is nothing to take off a registry. */
  readonly deregistration: Deregistration | undefined;
  /** The first signal, as far as it is known: some targets know their own only once they were looked at. */
  readonly firstSignal: FirstSignal;
  readonly warn: Warn;
  readonly done: Done;
  /** Replaces what {@link StopRun.wait} tells. */
  waitFor(wait: StepWait | null): void;
}
