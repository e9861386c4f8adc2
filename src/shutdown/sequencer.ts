import { type Env, type Ground, requireMethods, resolveEnv } from '../env.js';
import { HandoverError, invalidOption } from '../errors.js';
import { Emitter, type On } from '../events.js';
import { parseDefaults, parseStop, type StopSettings } from './options.js';
import { planStop, type StopPlan } from './plan.js';
import { registrationsOf } from './registrations.js';
import { Run } from './run.js';
import type { RunOptions, ShutdownBudget, ShutdownOptions, ShutdownRun, ShutdownTarget } from './types.js';

/**
 * Stops targets in order (SS-1): `preStop` → deregister → delay → first signal → kill timeout → SIGKILL → confirm →
 * `postStop`. An exit at any moment ends the waiting; what has exited is still taken off the registry.
 */
export class ShutdownSequencer {
  /** Subscribes to `shutdown:phase` and `shutdown:ended` of all runs. */
  readonly on: On<'shutdown'>;
  readonly #defaults: ShutdownOptions;
  readonly #ground: Ground;
  readonly #emitter: Emitter<'shutdown'>;
  readonly #runs = new Map<string, Run>();
  readonly #life = new AbortController();

  /**
   * @param defaults - for runs that do not say otherwise
   * @param env - `clock`, `registrar` (what services are taken off; without one there is no such step), `hooks`,
   *   `onEvent`
   * @throws HandoverError `ERR_INVALID_OPTION`
   */
  constructor(defaults: ShutdownOptions = {}, env: Env = {}) {
    parseDefaults(defaults);
    this.#defaults = defaults;
    this.#ground = resolveEnv(env);
    this.#emitter = new Emitter(this.#ground);
    this.on = this.#emitter.on;
  }

  /**
   * Stops one target. A target that is being stopped already is joined by its id: one sequence, one result, and no
   * second signal (SS-8). Whoever joins may only shorten it: with `shutdownDelay: 0` as by `skipDelay()`, with
   * `killTimeout: 0` as by `killNow()`; other options of theirs have no effect.
   *
   * @param target - what to stop; one that is already gone is a success
   * @param o.services - its registrations, taken off before the first signal. Default: none
   * @param o.reason - for the report
   * @returns the run; its result never rejects: what failed is in the report
   * @throws HandoverError `ERR_INVALID_OPTION`; `ERR_DETACHED` after {@link ShutdownSequencer.detach}
   */
  run(target: ShutdownTarget, o: RunOptions = {}): ShutdownRun {
    const settings = parseStop(this.#defaults, o);
    requireTarget(target);
    if (this.#life.signal.aborted) {
      const message = `Target ${target.id} cannot be stopped by this sequencer: it was detached; make a new one`;
      throw new HandoverError('ERR_DETACHED', message, { details: {} });
    }
    const present = this.#runs.get(target.id);
    if (present === undefined) return this.#begin(target, settings);
    const own = parseStop({}, o);
    if (own.shutdownDelay === 0) present.skipDelay();
    if (own.killTimeout === 0) present.killNow();
    return present;
  }

  /** The run of a target that is being stopped now. */
  running(id: string): ShutdownRun | undefined {
    return this.#runs.get(id);
  }

  /**
   * The longest that such a run can take, known before it starts (SS-7).
   *
   * @throws HandoverError `ERR_INVALID_OPTION`
   */
  budget(o: RunOptions = {}): ShutdownBudget {
    return this.#plan(parseStop(this.#defaults, o)).budget;
  }

  /**
   * Lets go of all runs (G-4): sends nothing more, undoes nothing, leaves no timer. Their outcome is `detached`. The
   * sequencer is of no use after it.
   */
  async detach(): Promise<void> {
    const runs = [...this.#runs.values()];
    runs.forEach((run) => run.detach());
    this.#life.abort(new HandoverError('ERR_DETACHED', 'The sequencer was detached', { details: {} }));
    await Promise.all(runs.map(({ result }) => result));
    const { registrar } = this.#ground;
    if (registrar !== undefined) await registrationsOf(registrar, this.#ground).withdrawn();
  }

  #begin(target: ShutdownTarget, settings: StopSettings): Run {
    const run = new Run({
      target,
      settings,
      plan: this.#plan(settings),
      ground: this.#ground,
      emitter: this.#emitter,
      life: this.#life.signal,
      onEnded: () => this.#runs.delete(target.id),
    });
    this.#runs.set(target.id, run);
    return run;
  }

  #plan(settings: StopSettings): StopPlan {
    const { registrar, hooks } = this.#ground;
    const registered = registrar !== undefined && settings.services.length > 0;
    return planStop(settings, {
      registered,
      confirms: registered && registrar.confirms !== undefined,
      preStop: hooks.preStop !== undefined,
      postStop: hooks.postStop !== undefined,
      preStopFirst: hooks.preStopFirst ?? true,
    });
  }
}

function requireTarget(target: ShutdownTarget | undefined): void {
  if (typeof target?.id !== 'string' || target.id === '') throw invalidOption('target.id', 'must be text, not empty');
  requireMethods('target', target, ['isRunning', 'wait', 'signal', 'kill'], ['disarm', 'rearm']);
}
