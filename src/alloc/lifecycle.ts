import type { Call, Opt } from '../call.js';
import type { TaskHandle } from '../driver/driver.js';
import { type Ground, type Wait, requireMethods, resolveEnv } from '../env.js';
import { HandoverError, invalidOption } from '../errors.js';
import type { On } from '../events.js';
import type { Progress } from '../image/types.js';
import { linkSignals } from '../internal/signals.js';
import { ShutdownSequencer } from '../shutdown/sequencer.js';
import type { ShutdownBudget, StopReason, StopRun } from '../shutdown/types.js';
import { AllocBoard, type Why } from './board.js';
import { ended, errorOf, inside, stillThere, unhealthy } from './faults.js';
import { AllocLaunch } from './launch.js';
import type { NextAllocWatcher } from './next.js';
import { type AllocOptions, parseAlloc } from './options.js';
import type { PrevAllocWatcher } from './previous.js';
import { AllocServices } from './services.js';
import { type AllocEvent, isDoomed, isServing, isTerminal } from './states.js';
import { AllocStop, type StopPorts } from './stop.js';
import { AllocTaskRunner } from './task.js';
import { AllocUpkeep } from './upkeep.js';
import type {
  AllocEnv,
  AllocPeer,
  AllocSpec,
  AllocState,
  AllocStatus,
  AllocStopReport,
  AllocTask,
  Sighting,
} from './types.js';

/** A state of affairs that {@link AllocLifecycle.until} waits for. */
export type AllocGoal = 'prepared' | 'running' | 'healthy' | 'terminal';

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
  readonly #options: AllocOptions;
  readonly #ground: Ground;
  readonly #board: AllocBoard;
  readonly #task: AllocTaskRunner;
  readonly #services: AllocServices;
  readonly #sequencer: ShutdownSequencer;
  readonly #launch: AllocLaunch;
  readonly #upkeep: AllocUpkeep;
  /** Aborts when the alloc is let go of: everything ends and nothing is undone. */
  readonly #life = new AbortController();
  #stop: AllocStop | undefined;

  /**
   * @param spec - what to run, and how it is served, judged and stopped
   * @param env - ports and functions; `registrar` for services, `feed` to be seen by others, `checks` for custom checks
   * @throws HandoverError `ERR_INVALID_OPTION` naming the field, also one of the driver's spec
   */
  constructor(spec: AllocSpec<T>, env: AllocEnv = {}) {
    this.#options = parseAlloc(spec, env);
    this.#ground = resolveEnv(env);
    requireMethods('env.feed', env.feed, ['watch']);
    this.id = spec.id;
    this.spec = spec;
    this.env = env;
    this.#task = this.#makeTask();
    this.#services = new AllocServices(this.id, this.#options.services, this.#ground, () =>
      this.#upkeep.onRegistered(),
    );
    const observed = { ...env, registrar: this.#services.registrar };
    this.#sequencer = inside('shutdown', () => new ShutdownSequencer(spec.shutdown, observed));
    this.#board = new AllocBoard(this.#ground, {
      id: this.id,
      task: this.#task.name,
      exclusive: this.#task.exclusive,
      stopBudget: this.#budget.total,
      feed: env.feed,
    });
    this.on = this.#board.emitter.on;
    const parts = { ...this.#shared(), board: this.#board, task: this.#task };
    this.#upkeep = new AllocUpkeep({ ...parts, services: this.#services });
    this.#launch = new AllocLaunch({ ...parts, id: this.id, started: (handle) => this.#upkeep.begin(handle) });
  }

  /**
   * The alloc as its driver knows it: `running` if an earlier process started it and it still runs, ended if it does
   * not run any more, else new. What is registered of it is registered again.
   *
   * @throws HandoverError `ERR_INVALID_OPTION`, or what the driver rejects with
   */
  static async open<T extends readonly unknown[]>(
    spec: AllocSpec<T>,
    env: AllocEnv = {},
    call: Call = {},
  ): Promise<AllocLifecycle<T>> {
    const alloc = new AllocLifecycle(spec, env);
    try {
      const handle = await alloc.#task.recover(call);
      if (handle !== undefined) await alloc.#resume(handle, call);
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

  /** The stop in progress, also one that `replace()` began. */
  get stopping(): StopRun<AllocStopReport> | undefined {
    return this.#stop;
  }

  /** @internal Aborts when it is let go of. */
  get life(): AbortSignal {
    return this.#life.signal;
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
    return task === this.#task.name ? this.#task.handle : undefined;
  }

  /** How it is now, then changes. A prepared alloc first looks whether what it prepared is still there (AL-3). */
  async *watch(call: Call = {}): AsyncGenerator<Sighting, void, undefined> {
    // An end stays true, also of an alloc that was let go of.
    const link = linkSignals(call.signal, this.status().terminal ? undefined : this.#life.signal);
    try {
      if ((await this.#launch.check(link.signal)) === 'unknown') yield { seen: 'unreachable' };
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
    await this.#launch.prestart(call);
  }

  /**
   * Prepares if needed, waits for `after`, starts; resolves when the task runs.
   *
   * @param o.after - the previous alloc's end is waited for, in state `waiting`; when that wait rejects, the alloc
   *   stays `waiting` and `start()` may be called again
   * @param o.signal - calls off a preparation or start that nobody else waits for: the alloc ends `discarded`. While
   *   it waits for `after`, only that wait ends
   * @throws HandoverError `ERR_PRESTART_FAILED`, `ERR_PREVIOUS_RUNNING`, `ERR_START_FAILED`, `ERR_ALLOC_ENDED`,
   *   `ERR_DETACHED`; `ERR_OVERLAP_IMPOSSIBLE` when `after` would let it run beside one that holds what it needs
   */
  async start(o: Call & Opt<{ after: PrevAllocWatcher }> = {}): Promise<void> {
    await this.#launch.start(o);
  }

  /**
   * Waits until the alloc is there.
   *
   * @returns the status at that moment
   * @throws HandoverError `ERR_ALLOC_ENDED` when it cannot come any more, also once it was told to stop, `ERR_UNHEALTHY` when health was not reached
   *   in time, `ERR_DETACHED`
   */
  async until(goal: AllocGoal, call: Call = {}): Promise<AllocStatus> {
    return this.#until(goal, GOALS[goal], call);
  }

  /** @internal Until its health was found good, whether or not the registry has answered; throws as `until()`. */
  async judged(call: Call): Promise<void> {
    const good = ({ state }: AllocStatus): boolean => isServing(state) && this.#upkeep.health.verdict === 'healthy';
    await this.#until('healthy', good, call);
  }

  /** @internal Until the registry has acknowledged all that it was asked to hold of a running alloc. */
  async reinstated(call: Call): Promise<void> {
    await this.#until('running', ({ state }) => isServing(state) && this.#services.agreed, call);
  }

  /**
   * Stops it, whatever state it is in. A second call joins the stop in progress.
   *
   * @param o.reason - `replaced` waits for `after`; any other reason ends such a wait (AL-5)
   * @param o.after - the successor, whose gate has to be reached first
   * @param o.force - do not wait for the successor, or for it any longer
   */
  stop(
    o: { readonly reason: StopReason } & Opt<{ after: NextAllocWatcher; force: boolean }>,
  ): StopRun<AllocStopReport> {
    return this.beginStop(o);
  }

  /** @internal The same, with what compositions need to know of it. */
  beginStop({ reason, after, force }: Parameters<AllocLifecycle['stop']>[0]): AllocStop {
    if (typeof reason !== 'string' || reason === '') throw invalidOption('reason', 'must say why it is stopped');
    const waits = reason === 'replaced' && force !== true;
    const present = this.#stop;
    if (present !== undefined) {
      if (!waits && !isTerminal(this.state)) present.bypass(reason);
      // One that is being called off, or could not end it, is of no use to whoever wants it stopped now.
      if (!present.leaving && this.state !== 'unkillable') return present;
    }
    this.#stop = new AllocStop(this.#stopPorts(), { reason, after: waits ? after : undefined, behind: present });
    return this.#stop;
  }

  /**
   * Undoes the preparation of an alloc that has not been started; harmless on one that has ended.
   *
   * @throws HandoverError `ERR_PREVIOUS_RUNNING` when it has been started: stop it instead
   */
  async discard(): Promise<void> {
    await this.#launch.discard();
  }

  /**
   * Removes what is left of an alloc that has ended: containers, files, leases. Idempotent.
   *
   * @throws HandoverError `ERR_PREVIOUS_RUNNING` when it has not ended
   */
  async destroy(call: Call = {}): Promise<void> {
    if (!isTerminal(this.state)) throw stillThere(this.#board.status, 'stop() it before it is destroyed');
    await this.#task.destroy(call);
  }

  /**
   * Lets go of it: nothing more is sent or undone, nothing keeps the process alive, and what runs goes on running
   * (G-4). `open()` takes it up again. A preparation in progress is called off, since it cannot be taken up half-done; a
   * start in progress lands.
   */
  async detach(): Promise<void> {
    if (this.#life.signal.aborted) return;
    const message = `Alloc ${this.id} was let go of; open() takes it up again`;
    this.#life.abort(new HandoverError('ERR_DETACHED', message, { details: {} }));
    this.#upkeep.end();
    await this.#sequencer.detach();
  }

  async #resume(handle: TaskHandle, call: Call): Promise<void> {
    const running = await handle.isRunning(call);
    this.#board.send(
      'recovered',
      { code: 'recovered', message: 'It was found by its labels' },
      { tasks: { [this.#task.name]: { phase: 'running' } } },
    );
    this.#upkeep.resume(handle, running);
    if (!running) await this.until('terminal', call);
  }

  async #until(goal: AllocGoal, there: (status: AllocStatus) => boolean, call: Call): Promise<AllocStatus> {
    const link = linkSignals(call.signal, this.#life.signal);
    try {
      return await this.#board.cell.until((status) => {
        if (there(status)) return status;
        if (status.terminal || (goal !== 'terminal' && isDoomed(status.state))) throw ended(status);
        const { health } = this.#upkeep;
        if (goal === 'healthy' && health.verdict === 'unhealthy')
          throw unhealthy(this.id, this.#options.health, health);
        return undefined;
      }, link.signal);
    } finally {
      link.dispose();
    }
  }

  // ── parts ──

  #makeTask(): AllocTaskRunner {
    const [first] = this.#options.tasks;
    const { name, driver, spec } = first as unknown as AllocTask<unknown>;
    requireMethods('tasks.0.driver', driver, ['parse', 'exclusive', 'prestart', 'start', 'recover', 'list']);
    const ports = {
      ...this.#shared(),
      progress: (progress: Progress) => {
        if (this.state !== 'prestarting' || this.#isKnown(progress)) return;
        this.#board.show({ tasks: { [name]: { phase: 'preparing', progress } } }, 'alloc:task');
      },
    };
    return inside('tasks.0.spec', () => new AllocTaskRunner(this.id, name, driver, spec, ports));
  }

  /** What has not got on is no news: it must not look like progress to whoever waits for some (AL-4). */
  #isKnown(progress: Progress): boolean {
    const known = this.#board.status.tasks[this.#task.name]?.progress;
    const got = ({ phase, attempt, bytes, layers }: Progress): string =>
      [phase, attempt, bytes.done, layers?.done].join(' ');
    return known !== undefined && got(known) === got(progress);
  }

  /** What all parts get. */
  #shared() {
    return {
      ground: this.#ground,
      env: this.env,
      options: this.#options,
      life: this.#life.signal,
      warn: (message: string, error: unknown) =>
        this.#board.emitter.warn(`alloc ${this.id}`, { code: 'alloc-warning', message, ...errorOf(error) }),
    };
  }

  get #budget(): ShutdownBudget {
    return this.#sequencer.budget({ services: this.#services.expected });
  }

  #stopPorts(): StopPorts {
    return {
      id: this.id,
      ground: this.#ground,
      budget: this.#budget,
      life: this.#life.signal,
      state: () => this.state,
      send: (event, why, wait) => this.#sendStop(event, why, wait),
      discard: () => this.#launch.discard(),
      started: () => this.#launch.settled(),
      callOffStart: () => {
        if (this.#launch.starting) this.#launch.callOff(ended(this.#board.status));
      },
      target: () => this.#task.handle as TaskHandle,
      sequence: (target, reason) => this.#sequencer.run(target, { services: this.#services.standing, reason }),
      exited: (exit) => this.#upkeep.exited(exit),
      calledOff: (stop) => {
        if (this.#stop === stop) this.#stop = undefined;
        this.#upkeep.calledOff();
      },
    };
  }

  #sendStop(event: AllocEvent, why: Why, wait?: Wait): void {
    const told = event === 'signal';
    if (told) this.#upkeep.told();
    this.#board.send(event, why, {
      peers: { ...this.#board.status.peers, ...(wait?.on !== undefined && { next: wait.on }) },
      wait: wait ?? null,
      ...(told && { tasks: { [this.#task.name]: { phase: 'stopping' } } }),
    });
  }
}

const GOALS: Readonly<Record<AllocGoal, (status: AllocStatus) => boolean>> = {
  prepared: ({ reached }) => reached !== 'none',
  running: ({ state }) => isServing(state),
  healthy: ({ reached }) => reached === 'healthy',
  terminal: ({ terminal }) => terminal,
};
