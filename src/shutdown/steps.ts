import { Deadline } from '../clock.js';
import { backoff, type BackoffOptions } from '../internal/backoff.js';
import type { StepWait, StopContext } from './context.js';
import { runHook } from './hooks.js';
import type { Cut, Ending } from './interrupts.js';
import { CALL_MS, HOOK_MS, type StepOf, type StepPhase } from './plan.js';
import type { ShutdownReport } from './types.js';

/** How a step ended, as the report tells it. */
export type StepResult = ShutdownReport['phases'][number]['result'];

/** Of the one call's time before the first signal, what the look may take; the rest is for disarming. */
const LOOK_MS = 5_000;
/** SIGKILL again: it can be lost with the engine's connection; often enough that an exit nobody told of is seen. */
const REKILL: BackoffOptions = { first: 500, max: 2_000, jitter: 'none' };

/** What ends everything that comes before the first signal. */
const CALLED_OFF: readonly Cut[] = ['detach', 'exit', 'cancel'];
const GONE: readonly Cut[] = ['detach', 'exit'];

/** How one step is done. */
export interface Executor<S> {
  /** Whether it has to be done, as things are now. */
  due(stop: StopContext, step: S): boolean;
  /** What is waited for on entering it. */
  wait(stop: StopContext, step: S): StepWait | null;
  run(stop: StopContext, step: S): Promise<StepResult>;
}

/** Whether nothing has made waiting for the target pointless: neither its exit nor `killNow()`. */
const patient = ({ target, interrupts }: StopContext): boolean => !target.gone && !interrupts.has('kill');

/** How each step is done. A step of the plan that is missing here does not compile. */
export const EXECUTORS: { readonly [P in StepPhase]: Executor<StepOf<P>> } = {
  preStop: {
    due: patient,
    wait: ({ id }, { max }) => ({ for: 'exit', on: id, ms: max, why: 'The preStop hook runs before it is stopped' }),
    run: preStop,
  },
  deregister: {
    // What has exited must not stay in the registry either (SS-6). After killNow() it is not waited for here.
    due: (stop) => stop.target.gone || patient(stop),
    wait: ({ deregistration }, { timeout }) => ({
      for: 'deregister',
      ...(deregistration && { on: deregistration.ids }),
      ms: timeout,
      why: 'The registry has to acknowledge the deregistration before a signal is sent',
    }),
    run: deregister,
  },
  drain: {
    due: (stop, step) => patient(stop) && !stop.interrupts.has('skipDelay') && delayLeft(stop, step) > 0,
    wait: (stop, step) => ({
      for: 'drain',
      on: stop.id,
      ms: delayLeft(stop, step),
      why: 'Clients may still send traffic to it until they have learnt that it is not registered any more',
    }),
    run: async (stop, step) => {
      const ending = await stop.interrupts.span(
        [...CALLED_OFF, 'kill', 'skipDelay', 'escalate'],
        delayLeft(stop, step),
      );
      return ending.by === 'late' ? 'ok' : 'skipped';
    },
  },
  signal: {
    due: patient,
    wait: signalWait,
    run: signal,
  },
  kill: {
    due: ({ target }) => !target.gone,
    wait: ({ id }, { timeout }) => ({ for: 'exit', on: id, ms: timeout, why: 'It is killed with SIGKILL' }),
    run: kill,
  },
  confirm: {
    due: () => true,
    wait: ({ id, done }, { timeout }) => ({
      for: 'exit',
      on: id,
      ms: done.confirmBy?.remaining() ?? timeout,
      why: 'Its exit has to be confirmed; SIGKILL is repeated until then',
    }),
    run: confirm,
  },
  postStop: {
    due: ({ target }) => target.gone,
    wait: () => null,
    run: async (stop) => toResult(await runHook(stop, 'postStop', HOOK_MS, ['detach'])),
  },
};

function toResult({ by }: Ending): StepResult {
  if (by === 'done') return 'ok';
  if (by === 'late') return 'timeout';
  return by === 'failed' ? 'failed' : 'skipped';
}

async function preStop(stop: StopContext, { max }: StepOf<'preStop'>): Promise<StepResult> {
  const ends: readonly Cut[] = [...CALLED_OFF, 'kill', 'escalate'];
  const purse = new Deadline(stop.clock, max);
  // A hook must not be told of a target that was gone before.
  let ending: Ending = await stop.interrupts.span(ends, max, () => stop.target.looked);
  if (ending.by === 'late') {
    stop.warn(
      'hook-skipped',
      `The preStop hook of ${stop.id} was not run: whether it still runs was not answered in time`,
    );
  }
  if (ending.by === 'done') {
    ending = await runHook(stop, 'preStop', purse.remaining(), ends);
  }
  stop.done.spent = max - purse.remaining();
  return toResult(ending);
}

async function deregister(stop: StopContext, step: StepOf<'deregister'>): Promise<StepResult> {
  const { clock, interrupts, target, deregistration, done } = stop;
  if (deregistration === undefined) return 'skipped';
  const bound = new Deadline(clock, step.timeout);
  // Escalated before it began: it is not waited for, but the delay is of no use without it.
  if (interrupts.has('escalate') && !isCalledOff(stop)) void deregistration.acknowledged();
  const asked = await interrupts.span(['detach', 'cancel', 'kill', 'escalate'], Infinity, () =>
    deregistration.acknowledged(),
  );
  if (asked.by !== 'done') return 'skipped';
  let acknowledged = asked.value;
  if (!acknowledged && step.abort && !target.gone) {
    stop.warn('stop-called-off', `The stop of ${stop.id} is called off, because it could not be deregistered`);
    interrupts.raise('cancel');
    return 'timeout';
  }
  if (!acknowledged) acknowledged = await holdOn(stop, step.hold);
  // The delay counts from the acknowledgement, and what confirming it takes is part of it (SS-3); but all of it still
  // applies when the instance is shown to the end.
  done.quietSince = clock.now();
  if (acknowledged) done.confirmed = await confirmed(stop, bound.remaining());
  if (!done.confirmed) done.quietSince = clock.now();
  return acknowledged ? 'ok' : 'timeout';
}

/** Holds on for the acknowledgement before going on without it. @returns whether it came */
async function holdOn(stop: StopContext, hold: number): Promise<boolean> {
  const { deregistration } = stop;
  if (deregistration === undefined || hold === 0) return false;
  stop.waitFor({
    for: 'deregister',
    on: deregistration.ids,
    ms: hold,
    why: 'The registry did not acknowledge the deregistration in time; the stop holds on for it',
  });
  const held = await stop.interrupts.span([...CALLED_OFF, 'kill', 'escalate'], Infinity, () =>
    deregistration.heldOut(hold),
  );
  return held.by === 'done' && held.value;
}

/** @returns whether the registrar can tell, and tells in time, that nothing is shown any more */
async function confirmed(stop: StopContext, ms: number): Promise<boolean> {
  const { id, interrupts, deregistration } = stop;
  if (deregistration?.confirmable !== true) return false;
  const ending = await interrupts.span([...CALLED_OFF, 'kill', 'escalate'], ms, (signal) =>
    deregistration.unseen(signal),
  );
  if (ending.by === 'late') {
    stop.warn('deregister-unconfirmed', `The registry acknowledged the deregistration of ${id}, but still shows it`);
  }
  return ending.by === 'done';
}

function delayLeft({ clock, done }: StopContext, { confirmed, unconfirmed }: StepOf<'drain'>): number {
  const waited = done.quietSince === undefined ? 0 : clock.now() - done.quietSince;
  return Math.max(0, (done.confirmed ? confirmed : unconfirmed) - waited);
}

function signalWait({ id, firstSignal, done }: StopContext, { killTimeout }: StepOf<'signal'>): StepWait {
  const then = killTimeout === Infinity ? "killTimeout is 'never': it is not killed by itself" : 'SIGKILL comes then';
  return {
    for: 'exit',
    on: id,
    ms: killTimeout - done.spent,
    why: `It is asked to end by ${firstSignal.name}; ${then}`,
  };
}

async function signal(stop: StopContext, step: StepOf<'signal'>): Promise<StepResult> {
  const { interrupts, target, done } = stop;
  await ready(stop);
  // In one turn with what is sent: a cancel counts until here, and never after it (SS-9).
  if (isCalledOff(stop) || interrupts.has('kill')) return 'skipped';
  done.committed = true;
  // Only now: some targets know what they want to be asked by once they were looked at.
  const { name, refused } = stop.firstSignal;
  if (refused !== undefined) {
    stop.warn('stop-signal-unknown', `${stop.id} asks for the stop signal ${refused}, which is none: ${name} is sent`);
  }
  target.signal(name);
  const wait = signalWait(stop, step);
  stop.waitFor(wait);
  const { by } = await interrupts.span([...GONE, 'kill', 'escalate'], wait.ms);
  if (by === 'exit') return 'ok';
  return by === 'late' ? 'timeout' : 'skipped';
}

/** Looks at the target and disarms it, once, right before whatever is sent first (SS-11). */
async function ready(stop: StopContext): Promise<void> {
  const { clock, interrupts, target, done } = stop;
  if (done.ready) return;
  done.ready = true;
  const allowance = new Deadline(clock, CALL_MS);
  await interrupts.span(CALLED_OFF, LOOK_MS, () => target.looked);
  if (!target.disarms) return;
  const ending = await interrupts.span(CALLED_OFF, allowance.remaining(), (signal) => target.disarm(signal));
  if (ending.by === 'failed') stop.warn('disarm-failed', `Whether ${stop.id} is disarmed is not known`, ending.error);
  if (ending.by === 'late') stop.warn('disarm-late', `${stop.id} was not disarmed in time; the stop goes on`);
}

function isCalledOff({ interrupts }: StopContext): boolean {
  return CALLED_OFF.some((cut) => interrupts.has(cut));
}

async function kill(stop: StopContext, { timeout }: StepOf<'kill'>): Promise<StepResult> {
  const { clock, interrupts, target, deregistration, done } = stop;
  await ready(stop);
  // As before the first signal: it may be the first.
  if (isCalledOff(stop)) return 'skipped';
  done.committed = true;
  done.killed = true;
  done.confirmBy = new Deadline(clock, timeout);
  // After killNow() it may not have begun; it must not wait for the exit.
  void deregistration?.acknowledged();
  const ending = await interrupts.span(GONE, Math.min(CALL_MS, timeout), (signal) => target.kill(signal));
  if (ending.by === 'failed' || ending.by === 'late') {
    const error = ending.by === 'failed' ? ending.error : undefined;
    stop.warn('kill-unknown', `Whether SIGKILL has reached ${stop.id} is not known; it is sent again`, error);
  }
  return ending.by === 'exit' ? 'ok' : toResult(ending);
}

async function confirm(stop: StopContext, { timeout }: StepOf<'confirm'>): Promise<StepResult> {
  const { clock, interrupts, target, deregistration, done } = stop;
  const by = done.confirmBy ?? new Deadline(clock, timeout);
  await killUntilGone(stop, by);
  if (target.gone) await interrupts.span(['detach'], Math.min(CALL_MS, by.remaining()), () => target.ended);
  // Not waited for before, if the stop was hurried past it; the intent would be lost with the process.
  if (deregistration) await interrupts.span(['detach'], Infinity, () => deregistration.acknowledged());
  return target.gone ? 'ok' : interrupts.has('detach') ? 'skipped' : 'timeout';
}

/** SIGKILL without an exit: look, and send it again, with backoff, until time is up (SS-6, C35, S71). */
async function killUntilGone({ clock, interrupts, target }: StopContext, by: Deadline): Promise<void> {
  const over = (): boolean => target.gone || by.expired || interrupts.has('detach');
  for (let tries = 1; !over(); tries++) {
    await interrupts.span(GONE, Math.min(backoff(REKILL, tries, clock), by.remaining()));
    if (!over()) await interrupts.span(GONE, by.remaining(), (signal) => target.look(signal));
    if (!over()) await interrupts.span(GONE, by.remaining(), (signal) => target.kill(signal));
  }
}
