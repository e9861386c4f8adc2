import { type Clock, Deadline } from '../clock.js';
import type { Ground, Reason, Wait } from '../env.js';
import { isHandoverError } from '../errors.js';
import type { Emitter } from '../events.js';
import { messageOf } from '../internal/message-of.js';
import type { Done, StepWait, StopContext } from './context.js';
import { Deregistration } from './deregistration.js';
import { Interrupts } from './interrupts.js';
import type { StopSettings } from './options.js';
import type { Step, StopPlan } from './plan.js';
import { registrationsOf } from './registrations.js';
import { restore } from './restore.js';
import { firstSignal } from './first-signal.js';
import { EXECUTORS, type Executor, type StepResult } from './steps.js';
import type { ShutdownBudget, ShutdownReport, ShutdownRun, ShutdownTarget, StopPhase } from './types.js';
import { WatchedTarget } from './watched-target.js';

/** What a run is made of. */
export interface RunParts {
  readonly target: ShutdownTarget;
  readonly settings: StopSettings;
  readonly plan: StopPlan;
  readonly ground: Ground;
  readonly emitter: Emitter<'shutdown'>;
  /** Aborts when the sequencer lets go, after the run has been told. */
  readonly life: AbortSignal;
  /** Told when the run is over, before the event. */
  readonly onEnded: () => void;
}

type Outcome = ShutdownReport['outcome'];

/** One stop of one target: carries out its plan, step by step. */
export class Run implements ShutdownRun {
  readonly id: string;
  readonly budget: ShutdownBudget;
  readonly result: Promise<ShutdownReport>;
  readonly #parts: RunParts;
  readonly #clock: Clock;
  readonly #interrupts: Interrupts;
  readonly #target: WatchedTarget;
  readonly #context: StopContext;
  readonly #done: Done = {
    hooks: new Set(),
    spent: 0,
    quietSince: undefined,
    confirmed: false,
    ready: false,
    committed: false,
    killed: false,
    confirmBy: undefined,
  };
  readonly #warnings: Reason[] = [];
  readonly #phases: ShutdownReport['phases'][number][] = [];
  #phase: StopPhase;
  #wait: (Omit<Wait, 'until'> & { readonly deadline: Deadline }) | null = null;

  constructor(parts: RunParts) {
    const { target, plan, ground } = parts;
    this.#parts = parts;
    this.#clock = ground.clock;
    this.id = target.id;
    this.budget = plan.budget;
    this.#phase = plan.steps.find(({ active }) => active)?.phase ?? 'confirm';
    this.#interrupts = new Interrupts(ground.clock);
    this.#target = new WatchedTarget(target, ground.clock, this.#warn, () => this.#interrupts.raise('exit'));
    this.#context = this.#makeContext();
    this.result = this.#run();
  }

  get phase(): StopPhase {
    return this.#phase;
  }

  get wait(): Wait | null {
    if (this.#wait === null) return null;
    const { deadline, ...wait } = this.#wait;
    return { ...wait, until: deadline.wall };
  }

  skipDelay(): void {
    this.#interrupts.raise('skipDelay');
  }

  escalate(): void {
    this.#interrupts.raise('escalate');
  }

  killNow(): void {
    this.#interrupts.raise('kill');
  }

  async cancel(): Promise<'cancelled' | 'too-late'> {
    const late = this.#done.committed || this.#target.gone || this.#interrupts.has('detach');
    if (late) return 'too-late';
    this.#interrupts.raise('cancel');
    const { outcome } = await this.result;
    return outcome === 'cancelled' ? 'cancelled' : 'too-late';
  }

  /** Lets go: nothing more is sent and nothing undone (G-4). */
  detach(): void {
    this.#interrupts.raise('detach');
  }

  #makeContext(): StopContext {
    const { ground, settings, target } = this.#parts;
    return {
      id: this.id,
      clock: this.#clock,
      interrupts: this.#interrupts,
      target: this.#target,
      hooks: ground.hooks,
      deregistration: this.#deregistration(),
      get firstSignal() {
        return firstSignal(settings.killSignal, target.stopSignal);
      },
      warn: this.#warn,
      done: this.#done,
      waitFor: (wait) => this.#waitFor(wait),
    };
  }

  #deregistration(): Deregistration | undefined {
    const { ground, settings, life } = this.#parts;
    const { registrar, clock } = ground;
    const { services, deregisterTimeout } = settings;
    if (registrar === undefined || services.length === 0) return undefined;
    const registrations = registrationsOf(registrar, ground);
    return new Deregistration(registrar, registrations, services, clock, life, deregisterTimeout, this.#warn);
  }

  async #run(): Promise<ShutdownReport> {
    // A turn for whoever starts the run to find it before anything is told of it.
    await Promise.resolve();
    if (this.#parts.plan.starved) {
      const why = 'its killTimeout is needed for the signal; give it more than 2 s';
      this.#warn('hook-skipped', `The preStop hook of ${this.id} was not run: ${why}`);
    }
    const outcome = await this.#execute();
    this.#target.close();
    this.#phase = 'done';
    this.#wait = null;
    const report = this.#report(outcome);
    this.#parts.onEnded();
    this.#parts.emitter.emit('shutdown:ended', { id: this.id, report });
    return report;
  }

  async #execute(): Promise<Outcome> {
    for (const step of this.#parts.plan.steps) {
      await this.#perform(step);
      if (this.#interrupts.has('cancel') && (await this.#restored())) return 'cancelled';
      if (this.#interrupts.has('detach')) return 'detached';
    }
    if (!this.#target.gone) return 'unkillable';
    if (this.#done.killed) return 'forced';
    return this.#done.committed || this.#target.wasRunning ? 'exited' : 'already-gone';
  }

  #restored(): Promise<boolean> {
    return restore(this.#context, this.#parts.settings.deregisterTimeout);
  }

  async #perform(step: Step): Promise<void> {
    // The row fits the step, since both are keyed by the phase; the compiler cannot follow that through a union.
    const executor = EXECUTORS[step.phase] as Executor<Step>;
    const at = this.#clock.wall();
    const from = this.#clock.now();
    let result: StepResult = 'skipped';
    if (step.active && executor.due(this.#context, step)) {
      // What ends the wait that `phase` tells of does not end the next one; the first is told of before it begins (SS-8).
      if (this.#phase !== step.phase) this.#interrupts.takeBack('escalate');
      this.#phase = step.phase;
      this.#waitFor(executor.wait(this.#context, step));
      this.#parts.emitter.emit('shutdown:phase', { id: this.id, phase: this.#phase, wait: this.wait });
      result = await executor.run(this.#context, step);
    }
    this.#phases.push({ phase: step.phase, at, ms: this.#clock.now() - from, result });
  }

  #waitFor(wait: StepWait | null): void {
    if (wait === null) {
      this.#wait = null;
      return;
    }
    const { ms, ...rest } = wait;
    this.#wait = { ...rest, since: this.#clock.wall(), deadline: new Deadline(this.#clock, ms) };
  }

  /** A field, because it is handed on. */
  readonly #warn = (code: string, message: string, error?: unknown): void => {
    const cause = error === undefined || messageOf(error) === message ? '' : `: ${messageOf(error)}`;
    const reason = { code, message: message + cause, ...(isHandoverError(error) && { error }) };
    this.#warnings.push({ ...reason, at: this.#clock.wall() });
    this.#parts.emitter.warn(this.id, reason);
  };

  #report(outcome: Outcome): ShutdownReport {
    const { exit } = this.#target;
    const { reason } = this.#parts.settings;
    return {
      id: this.id,
      outcome,
      ...(exit && { exit }),
      ...(reason !== undefined && { reason }),
      warnings: this.#warnings,
      phases: this.#phases,
    };
  }
}
