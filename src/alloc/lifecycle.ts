import type { Call, Opt } from '../call.js';
import type { TaskHandle } from '../driver/driver.js';
import { HandoverError } from '../errors.js';
import type { On } from '../events.js';
import { checkCall } from '../internal/check-call.js';
import { linkSignals } from '../internal/signals.js';
import type { StopReason, StopRun } from '../shutdown/types.js';
import type { Why } from './board.js';
import { stillThere, unregistered } from './faults.js';
import { type AllocGoal, untilGoal } from './goals.js';
import type { NextAllocWatcher } from './next.js';
import { parseStart, parseStopRequest } from './options.js';
import { type AllocParts, assemble } from './parts.js';
import type { PrevAllocWatcher } from './previous.js';
import { isServing, isTerminal } from './states.js';
import { AllocStop } from './stop.js';
import { stopPorts } from './stop-ports.js';
import type { AllocEnv, AllocPeer, AllocSpec, AllocState, AllocStatus, AllocStopReport, Sighting } from './types.js';

export type { AllocGoal };

/**
 * The life of one alloc: prepared, started, watched, stopped, as the state machine of `ALLOC_TABLE`.
 *
 * Nothing is touched before `prestart()` or `start()` is called.
 */
export class AllocLifecycle<
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- lifecycles of different drivers meet in one list
  T extends readonly unknown[] = readonly any[],
> implements AllocPeer {
  readonly id: string;
  readonly spec: AllocSpec<T>;
  /** The ports and functions it was made with; compositions go by the same. */
  readonly env: AllocEnv;
  /** Subscribes to this alloc's events. */
  readonly on: On<'alloc'>;
  readonly #parts: AllocParts;
  #stop: AllocStop | undefined;

  /**
   * @param spec - what to run, and how it is served, judged and stopped
   * @param env - ports and functions; `registrar` for services, `feed` to be seen by others, `checks` for custom checks
   * @throws HandoverError `ERR_INVALID_OPTION` naming the field, also one of the driver's spec, and a port of a service
   *   or check that the task will not have
   */
  constructor(spec: AllocSpec<T>, env?: AllocEnv);
  /** @internal The same, but `false`: it is not seen by others yet. */
  constructor(spec: AllocSpec<T>, env: AllocEnv | undefined, announced: boolean);
  constructor(spec: AllocSpec<T>, env: AllocEnv = {}, announced = true) {
    this.#parts = assemble(spec, env);
    this.id = spec.id;
    this.spec = spec;
    this.env = env;
    this.on = this.#board.emitter.on;
    if (announced) this.#board.announce();
  }

  /**
   * The alloc as its driver knows it: `running` if an earlier process started it and it still runs, ended if it does
   * not run any more, else new. What is registered of it is registered again.
   *
   * One that runs from another spec than the given one goes on running: that is a warning `spec-differs`, and the code
   * of its `status().reason`. What was prepared and never started shows as such in `status().tasks`; `prestart()` takes
   * it over, `discard()` removes it. The health deadline counts from the task's start, if its driver knows that; one
   * judgement is always waited for.
   *
   * @throws HandoverError `ERR_INVALID_OPTION`, or what the driver rejects with
   */
  static async open<T extends readonly unknown[]>(
    spec: AllocSpec<T>,
    env: AllocEnv = {},
    call: Call = {},
  ): Promise<AllocLifecycle<T>> {
    checkCall(call);
    const alloc = new AllocLifecycle(spec, env, false);
    try {
      await alloc.#find(call);
      return alloc;
    } catch (error) {
      // Nobody gets hold of it, so nothing of it may go on.
      await alloc.detach();
      throw error;
    }
  }

  /** Where it is. */
  get state(): AllocState {
    return this.#board.state;
  }

  get #board(): AllocParts['board'] {
    return this.#parts.board;
  }

  /** The stop in progress, also one that `replace()` began. */
  get stopping(): StopRun<AllocStopReport> | undefined {
    return this.#stop;
  }

  /** @internal Aborts when it is let go of. */
  get life(): AbortSignal {
    return this.#parts.life.signal;
  }

  /** All there is to know now; JSON. */
  status(): AllocStatus {
    const wait = this.#stop?.wait;
    return wait === undefined || wait === null ? this.#board.status : { ...this.#board.status, wait };
  }

  /** Same as {@link AllocLifecycle.status}, so that an alloc prints as what is known of it. */
  toJSON(): AllocStatus {
    return this.status();
  }

  /** The handle of a started task. */
  handle(task: string): TaskHandle | undefined {
    return task === this.#parts.task.name ? this.#parts.task.handle : undefined;
  }

  /** How it is now, then changes. A prepared alloc first looks whether what it prepared is still there (AL-3). */
  async *watch(call: Call = {}): AsyncGenerator<Sighting, void, undefined> {
    checkCall(call);
    // An end stays true, also of an alloc that was let go of.
    const link = linkSignals(call.signal, this.status().terminal ? undefined : this.life);
    try {
      if ((await this.#parts.launch.check(link.signal)) === 'unknown') yield { seen: 'unreachable' };
      for await (const seen of this.#board.cell.watch(link.signal)) yield { seen };
    } finally {
      link.dispose();
    }
  }

  /**
   * Does the slow work: what is needed for a start, and nothing that the previous alloc holds. Joins a preparation in
   * progress; idempotent.
   *
   * @param call.signal - calls it off, if nobody else waits for it: the alloc ends `discarded`
   * @throws HandoverError `ERR_PRESTART_FAILED` with the cause, `ERR_ALLOC_ENDED`, or `ERR_DETACHED`
   */
  async prestart(call: Call = {}): Promise<void> {
    checkCall(call);
    await this.#parts.launch.prestart(call);
  }

  /**
   * Prepares if needed, waits for `after`, starts; resolves when the task runs.
   *
   * @param o.after - the previous alloc's end is waited for, in state `waiting`; when that wait rejects, the alloc
   *   stays `waiting` and `start()` may be called again
   * @param o.signal - calls off a preparation or start that nobody else waits for: the alloc ends `discarded`. While
   *   it waits for `after`, only that wait ends
   * @throws HandoverError `ERR_PRESTART_FAILED`, `ERR_PREVIOUS_RUNNING`, `ERR_START_FAILED`, `ERR_ALLOC_ENDED`,
   *   `ERR_DETACHED`; `ERR_START_FAILED` also when the start is not over within `healthyDeadline`;
   *   `ERR_OVERLAP_IMPOSSIBLE` when `after` would let it run beside one that holds what it needs
   */
  async start(o: Call & Opt<{ after: PrevAllocWatcher }> = {}): Promise<void> {
    await this.#parts.launch.start(parseStart(o));
  }

  /**
   * Waits until the alloc is there.
   *
   * @returns the status at that moment
   * @throws HandoverError `ERR_ALLOC_ENDED` when it cannot come any more, also once it was told to stop, `ERR_UNHEALTHY` when health was not reached
   *   in time, `ERR_DETACHED`
   */
  async until(goal: AllocGoal, call: Call = {}): Promise<AllocStatus> {
    checkCall(call);
    return untilGoal(this.#parts, goal, call);
  }

  /** @internal Until its health was found good, whether or not the registry has answered; throws as `until()`. */
  async judged(call: Call): Promise<void> {
    const { upkeep } = this.#parts;
    await untilGoal(
      this.#parts,
      'healthy',
      call,
      ({ state }) => isServing(state) && upkeep.health.verdict === 'healthy',
    );
  }

  /** @internal Why the registry does not have what it was asked to hold of it, if so. */
  get unregistered(): HandoverError<'ERR_UNHEALTHY'> | undefined {
    const { missing } = this.#parts.services;
    return missing && unregistered(this.id, missing);
  }

  /** @internal Until the registry has acknowledged all that it was asked to hold of a running alloc. */
  async reinstated(call: Call): Promise<void> {
    const { services } = this.#parts;
    await untilGoal(this.#parts, 'running', call, ({ state }) => isServing(state) && services.agreed);
  }

  /**
   * Stops it, whatever state it is in. A second call joins the stop in progress.
   *
   * @param o.reason - `replaced` waits for `after`; any other reason ends such a wait (AL-5)
   * @param o.after - the successor, whose gate has to be reached first
   * @param o.force - do not wait for the successor, or for it any longer
   * @throws HandoverError `ERR_INVALID_OPTION`
   */
  stop(
    o: { readonly reason: StopReason } & Opt<{ after: NextAllocWatcher; force: boolean }>,
  ): StopRun<AllocStopReport> {
    return this.beginStop(o);
  }

  /** @internal The same, with what compositions need to know of it. */
  beginStop(o: Parameters<AllocLifecycle['stop']>[0]): AllocStop {
    const { reason, after, force } = parseStopRequest(o);
    const waits = reason === 'replaced' && !force;
    const present = this.#stop;
    if (present !== undefined) {
      if (!waits && !isTerminal(this.state)) present.bypass(reason);
      // One that is being called off, or could not end it, is of no use to whoever wants it stopped now.
      if (!present.leaving && this.state !== 'unkillable') return present;
    }
    const ports = stopPorts(this.#parts, () => {
      if (this.#stop === stop) this.#stop = undefined;
    });
    const stop = new AllocStop(ports, { reason, after: waits ? after : undefined, behind: present });
    this.#stop = stop;
    return stop;
  }

  /**
   * Undoes the preparation of an alloc that has not been started, also one that `open()` found of an earlier process;
   * harmless on one that has ended.
   *
   * @throws HandoverError `ERR_PREVIOUS_RUNNING` when it has been started: stop it instead
   */
  async discard(): Promise<void> {
    await this.#parts.launch.discard();
  }

  /**
   * Removes what is left of an alloc that has ended: containers, files, leases. Idempotent.
   *
   * @throws HandoverError `ERR_PREVIOUS_RUNNING` when it has not ended
   */
  async destroy(call: Call = {}): Promise<void> {
    checkCall(call);
    if (!isTerminal(this.state)) throw stillThere(this.#board.status, 'stop() or discard() it before it is destroyed');
    await this.#parts.task.destroy(call);
  }

  /**
   * Lets go of it: nothing more is sent or undone, nothing keeps the process alive, and what runs goes on running
   * (G-4). `open()` takes it up again. A preparation in progress is called off, since it cannot be taken up half-done; a
   * start in progress lands.
   */
  async detach(): Promise<void> {
    const { life, sequencer, upkeep } = this.#parts;
    if (life.signal.aborted) return;
    const message = `Alloc ${this.id} was let go of; open() takes it up again`;
    life.abort(new HandoverError('ERR_DETACHED', message, { details: {} }));
    upkeep.end();
    await sequencer.detach();
  }

  /** Finds what an earlier process left of it. */
  async #find(call: Call): Promise<void> {
    const { board, task, upkeep } = this.#parts;
    const found = await task.recover(call);
    if (found !== undefined) {
      const running = await found.handle.isRunning(call);
      const why = found.sameSpec ? FOUND : this.#otherSpec(running);
      board.send('recovered', why, { tasks: { [task.name]: { phase: 'running' } } });
      upkeep.resume(found.handle, running);
      if (!running) await this.until('terminal', call);
    } else if (task.leftOver) board.show({ tasks: { [task.name]: { phase: 'prepared' } } });
    board.announce();
  }

  #otherSpec(running: boolean): Why {
    const what = running ? 'runs' : 'ran';
    const message = `It was found by its labels, and ${what} from another spec than the one given: a new spec needs a new id`;
    const why = { code: 'spec-differs', message };
    this.#board.emitter.warn(`alloc ${this.id}`, why);
    return why;
  }
}

const FOUND: Why = { code: 'recovered', message: 'It was found by its labels' };
