import type { StopSettings } from './options.js';
import type { ShutdownBudget } from './types.js';

/** One call to the target: more than a loaded engine needs to answer, so that a slow answer is not taken for none. */
export const CALL_MS = 10_000;
/** The `postStop` and `cancelled` hooks: they come when nothing waits for more time, so they get a fixed one. */
export const HOOK_MS = 5_000;
/** What `preStop` leaves for the signal, as in Kubernetes, where two seconds are kept after a preStop hook (SS-7). */
const KEPT_FOR_SIGNAL_MS = 2_000;
/** `preStop` when the kill timeout has no end to borrow from: the default grace period of Kubernetes. */
const ENDLESS_PRESTOP_MS = 30_000;
/** Between deregistration and signal when nobody can tell whether traffic still comes (SS-2). */
const UNCONFIRMED_DELAY_MS = 5_000;

interface Steps {
  readonly preStop: object;
  /** `hold`: how long to hold on, ms, before going on without an acknowledgement. */
  readonly deregister: { readonly timeout: number; readonly hold: number; readonly abort: boolean };
  /** The delay, ms, by whether the registrar has confirmed that the instances are not shown any more. */
  readonly drain: { readonly confirmed: number; readonly unconfirmed: number };
  readonly signal: { readonly killTimeout: number };
  /** `timeout`: from the first SIGKILL until the target counts as unkillable, ms. */
  readonly kill: { readonly timeout: number };
  readonly confirm: { readonly timeout: number };
  readonly postStop: object;
}

/** A phase that does something. */
export type StepPhase = keyof Steps;

/** The step of one phase. */
export type StepOf<P extends StepPhase> = Steps[P] & {
  readonly phase: P;
  /** Whether there is anything to do in it. */
  readonly active: boolean;
  /** The longest it can take by itself, ms. */
  readonly max: number;
};

/** A step of a stop. */
export type Step = { [P in StepPhase]: StepOf<P> }[StepPhase];

/** What a plan depends on besides options. */
export interface PlanFacts {
  /** Whether there is something to take off a registry. */
  readonly registered: boolean;
  /** Whether that registry can confirm. */
  readonly confirms: boolean;
  readonly preStop: boolean;
  readonly postStop: boolean;
  readonly preStopFirst: boolean;
}

/** The steps of a stop in order, and the longest they can take. */
export interface StopPlan {
  readonly steps: readonly Step[];
  readonly budget: ShutdownBudget;
  /** There is a `preStop` hook, and a kill timeout too short to leave it any time. */
  readonly starved: boolean;
}

/**
 * Options and facts → steps (SS-1). Pure.
 *
 * The kill timeout is one purse: `preStop` is paid from it and leaves at least 2 s (or all of it, if it is smaller)
 * for the signal, so hooks never extend a stop (SS-7). Before the first signal the target is looked at and disarmed:
 * one call's time is in the budget for that.
 */
export function planStop(o: StopSettings, facts: PlanFacts): StopPlan {
  const { killTimeout, confirmTimeout: confirm } = o;
  const preStopMax = killTimeout === Infinity ? ENDLESS_PRESTOP_MS : Math.max(0, killTimeout - KEPT_FOR_SIGNAL_MS);
  const preStop = step('preStop', facts.preStop && preStopMax > 0, preStopMax, {});
  const deregister = deregisterStep(o, facts);
  const unconfirmed = o.shutdownDelay ?? (facts.registered ? UNCONFIRMED_DELAY_MS : 0);
  const confirmed = o.shutdownDelay ?? (facts.confirms ? 0 : unconfirmed);
  const drain = step('drain', unconfirmed > 0, unconfirmed, { confirmed, unconfirmed });
  const postStop = step('postStop', facts.postStop, HOOK_MS, {});
  const steps: readonly Step[] = [
    ...(facts.preStopFirst ? [preStop, deregister] : [deregister, preStop]),
    drain,
    step('signal', killTimeout > 0, CALL_MS + killTimeout, { killTimeout }),
    step('kill', true, CALL_MS + Math.min(CALL_MS, confirm), { timeout: confirm }),
    // It also waits for a deregistration that a killNow() or escalate() has not waited for.
    step('confirm', true, confirm + deregister.max, { timeout: confirm }),
    postStop,
  ];
  const purse = killTimeout + confirm + CALL_MS;
  return {
    steps,
    starved: facts.preStop && killTimeout > 0 && preStopMax === 0,
    budget: {
      total: deregister.max + drain.max + purse + postStop.max,
      phases: steps.map(({ phase, max }) => ({ phase, max })),
    },
  };
}

function deregisterStep(o: StopSettings, { registered }: PlanFacts): StepOf<'deregister'> {
  const hold = typeof o.onDeregisterError === 'object' ? o.onDeregisterError.hold : 0;
  return step('deregister', registered, o.deregisterTimeout + hold, {
    timeout: o.deregisterTimeout,
    hold,
    abort: o.onDeregisterError === 'abort',
  });
}

function step<P extends StepPhase>(phase: P, active: boolean, max: number, own: Steps[P]): StepOf<P> {
  return { phase, active, max: active ? max : 0, ...own };
}
