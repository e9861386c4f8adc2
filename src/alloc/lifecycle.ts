import type { Call, Opt } from '../call.js';
import { Deadline } from '../clock.js';
import type { TaskHandle } from '../driver/driver.js';
import { type Ground, type Wait, requireMethods, resolveEnv } from '../env.js';
import { HandoverError, invalidOption } from '../errors.js';
import type { On } from '../events.js';
import type { Progress } from '../image/types.js';
import { linkSignals } from '../internal/signals.js';
import { SharedWork } from '../internal/shared-work.js';
import { ShutdownSequencer } from '../shutdown/sequencer.js';
import type { ExitResult, StopReason, StopRun } from '../shutdown/types.js';
import { AllocBoard, type Facets, type Why } from './board.js';
import { ended, errorOf, inside, messageOf, stillThere, unhealthy } from './faults.js';
import type { NextAllocWatcher } from './next.js';
import { type AllocOptions, parseAlloc } from './options.js';
import type { PrevAllocWatcher } from './previous.js';
import { AllocServices } from './services.js';
import { isBeforeStart, isServing, isTerminal } from './states.js';
import { AllocStop } from './stop.js';
import { AllocTaskRunner } from './task.js';
import { AllocUpkeep } from './upkeep.js';
import type { AllocEnv, AllocPeer, AllocSpec, AllocState, AllocStatus, AllocStopReport, Sighting } from './types.js';

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
  readonly #upkeep: AllocUpkeep;
  /** Aborts when the alloc is let go of: everything ends and nothing is undone. */
  readonly #life = new AbortController();
  /** Aborts when the alloc is discarded: its waits end. */
  readonly #dropped = new AbortController();
  #prestart: SharedWork<void> | undefined;
  #starting: Promise<void> | undefined;
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
      stopBudget: this.#sequencer.budget({ services: this.#services.expected }).total,
      feed: env.feed,
    });
    this.on = this.#board.emitter.on;
    this.#upkeep = new AllocUpkeep({
      ...{ ground: this.#ground, env, options: this.#options, board: this.#board },
      ...{ task: this.#task, services: this.#services, life: this.#life.signal },
    });
  }

  /**
   * The alloc as its driver knows it: `running` if an earlier process started it and it still runs, else new. What is
   * registered of it is registered again.
   *
   * @throws HandoverError `ERR_INVALID_OPTION`, or what the driver rejects with
   */
  static async open<T extends readonly unknown[]>(
    spec: AllocSpec<T>,
    env: AllocEnv = {},
    call: Call = {},
  ): Promise<AllocLifecycle<T>> {
    const alloc = new AllocLifecycle(spec, env);
    const handle = await alloc.#task.recover(call);
    if (handle === undefined) return alloc;
    alloc.#board.send('recovered', { code: 'recovered', message: 'It was found by its labels' });
    alloc.#upkeep.begin(handle);
    if (!(await handle.isRunning(call))) await alloc.until('terminal', call);
    return alloc;
  }

  /** Where it is. */
  get state(): AllocState {
    return this.#board.state;
  }

  /** The stop in progress, also one that `replace()` began. */
  get stopping(): StopRun<AllocStopReport> | undefined {
    return this.#stop;
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
    const link = linkSignals(call.signal, this.#life.signal);
    try {
      if ((await this.#checkPrepared(link.signal)) === 'unknown') yield { seen: 'unreachable' };
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
   * @throws HandoverError `ERR_PRESTART_FAILED` with the cause, or `ERR_ALLOC_ENDED`
   */
  async prestart(call: Call = {}): Promise<void> {
    if (!isBeforeStart(this.state) && !isTerminal(this.state)) return;
    if (this.#prestart === undefined) {
      if (isTerminal(this.state)) throw ended(this.#board.status);
      call.signal?.throwIfAborted();
      this.#life.signal.throwIfAborted();
      const { timeout } = this.#options.prestart;
      const until = new Deadline(this.#ground.clock, timeout).wall;
      const wait = this.#wait('pull', until, `Preparing task ${this.#task.name}`);
      this.#board.send('prestart', { code: 'prestart', message: wait.why }, { wait, ...this.#phase('preparing') });
      this.#prestart = new SharedWork(this.#ground.clock, (signal) => this.#prepare(signal));
    }
    await this.#prestart.join(call.signal);
  }

  /**
   * Prepares if needed, waits for `after`, starts; resolves when the task runs.
   *
   * @param o.after - the previous alloc's end is waited for, in state `waiting`; when that wait rejects, the alloc
   *   stays `waiting` and `start()` may be called again
   * @throws HandoverError `ERR_PRESTART_FAILED`, `ERR_PREVIOUS_RUNNING`, `ERR_START_FAILED`, `ERR_ALLOC_ENDED`
   */
  async start(o: Call & Opt<{ after: PrevAllocWatcher }> = {}): Promise<void> {
    if (isTerminal(this.state)) throw ended(this.#board.status);
    await this.prestart(o);
    if (o.after !== undefined && isBeforeStart(this.state)) await this.#waitFor(o.after, o.signal);
    if (isTerminal(this.state)) throw ended(this.#board.status);
    if (isBeforeStart(this.state)) this.#starting = this.#startTask(o);
    await this.#starting;
  }

  /**
   * Waits until the alloc is there.
   *
   * @returns the status at that moment
   * @throws HandoverError `ERR_ALLOC_ENDED` when it cannot come any more, `ERR_UNHEALTHY` when health was not reached
   *   in time, `ERR_DETACHED`
   */
  async until(goal: AllocGoal, call: Call = {}): Promise<AllocStatus> {
    const link = linkSignals(call.signal, this.#life.signal);
    try {
      return await this.#board.cell.until((status) => {
        if (GOALS[goal](status)) return status;
        if (status.terminal) throw ended(this.#board.status);
        if (goal === 'healthy' && this.#upkeep.health.verdict === 'unhealthy')
          throw unhealthy(this.id, this.#options.health, this.#upkeep.health);
        return undefined;
      }, link.signal);
    } finally {
      link.dispose();
    }
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
    if (this.#stop !== undefined) {
      if (!waits) this.#stop.bypass(reason);
      return this.#stop;
    }
    this.#stop = new AllocStop(this.#stopPorts(), { reason, after: waits ? after : undefined });
    return this.#stop;
  }

  /**
   * Undoes the preparation of an alloc that has not been started; harmless on one that has ended.
   *
   * @throws HandoverError `ERR_PREVIOUS_RUNNING` when it has been started: stop it instead
   */
  async discard(): Promise<void> {
    if (isTerminal(this.state)) return;
    if (!isBeforeStart(this.state))
      throw stillThere(this.#board.status, 'it has been started; stop() it instead of discarding it');
    this.#dropped.abort(ended(this.#board.status));
    await this.#prestart?.abort(this.#dropped.signal.reason);
    await this.#task.discard();
    this.#board.send(
      'discard',
      { code: 'discarded', message: 'It was discarded before it was started' },
      this.#phase('dead'),
    );
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
   * (G-4). `open()` takes it up again.
   */
  async detach(): Promise<void> {
    if (this.#life.signal.aborted) return;
    const message = `Alloc ${this.id} was let go of; open() takes it up again`;
    this.#life.abort(new HandoverError('ERR_DETACHED', message, { details: {} }));
    this.#upkeep.end();
    await this.#sequencer.detach();
  }

  // ── preparing and starting ──

  async #prepare(signal: AbortSignal): Promise<void> {
    const link = linkSignals(signal, this.#life.signal);
    const { timeout } = this.#options.prestart;
    const late = new HandoverError(
      'ERR_PRESTART_FAILED',
      `Task ${this.#task.owner} was not prepared within ${timeout} ms`,
      {
        details: { allocId: this.id, task: this.#task.name },
        retryable: true,
      },
    );
    const stopTimer = this.#ground.clock.timer(timeout, () => link.abort(late));
    try {
      await this.#task.prestart(link.signal);
      this.#board.send(
        'prepared',
        { code: 'prepared', message: 'Everything but the start is done' },
        this.#phase('prepared'),
      );
    } catch (error) {
      if (!this.#life.signal.aborted) this.#onPrestartFailed(error, signal.aborted);
      throw error;
    } finally {
      stopTimer();
      link.dispose();
    }
  }

  #onPrestartFailed(error: unknown, calledOff: boolean): void {
    const message = messageOf(error);
    if (calledOff)
      this.#board.send(
        'discard',
        { code: 'called-off', message: 'Its preparation was called off' },
        this.#phase('dead'),
      );
    else
      this.#board.send('prestartFailed', { code: 'prestart-failed', message, ...errorOf(error) }, this.#phase('dead'));
  }

  async #waitFor(after: PrevAllocWatcher, signal: AbortSignal | undefined): Promise<void> {
    const { id } = after.previous;
    const wait = {
      ...this.#wait('previous', null, `Starts when alloc ${id} has ended, however long that takes`),
      on: id,
    };
    this.#board.send('awaitPrevious', { code: 'waiting', message: wait.why }, { wait, peers: { previous: id } });
    const link = linkSignals(signal, this.#life.signal, this.#dropped.signal);
    try {
      await after.wait({ signal: link.signal });
    } finally {
      link.dispose();
    }
  }

  async #startTask(call: Call): Promise<void> {
    this.#board.send('start', { code: 'starting', message: 'It is being started' });
    try {
      const handle = await this.#task.start(call);
      this.#board.send('started', { code: 'started', message: 'Its task runs' }, this.#phase('running'));
      this.#upkeep.begin(handle);
    } catch (error) {
      const message = messageOf(error);
      const event = call.signal?.aborted === true ? 'discard' : 'startFailed';
      this.#board.send(event, { code: 'start-failed', message, ...errorOf(error) }, this.#phase('dead'));
      throw error;
    }
  }

  async #checkPrepared(signal: AbortSignal): Promise<'known' | 'unknown'> {
    if (this.state !== 'prepared' && this.state !== 'waiting') return 'known';
    try {
      if (await this.#task.intact({ signal })) return 'known';
    } catch (error) {
      signal.throwIfAborted();
      this.#warn('It could not be seen whether the preparation is still there', error);
      return 'unknown';
    }
    if (
      this.#board.send(
        'vanished',
        { code: 'vanished', message: 'What was prepared was removed by somebody else' },
        this.#phase('dead'),
      )
    ) {
      this.#dropped.abort(ended(this.#board.status));
      await this.#task.discard();
    }
    return 'known';
  }

  // ── parts ──

  #makeTask(): AllocTaskRunner {
    const [first] = this.#options.tasks;
    const { name, driver, spec } = first as unknown as AllocSpec['tasks'][number];
    requireMethods('tasks.0.driver', driver, ['parse', 'exclusive', 'prestart', 'start', 'recover', 'list']);
    const ports = {
      ground: this.#ground,
      progress: (progress: Progress) =>
        this.#board.show({ tasks: { [name]: { phase: 'preparing', progress } } }, 'alloc:task'),
      warn: (message: string, error: unknown) => this.#warn(message, error),
    };
    return inside('tasks.0.spec', () => new AllocTaskRunner(this.id, name, driver, spec, ports));
  }

  #stopPorts() {
    return {
      id: this.id,
      ground: this.#ground,
      budget: this.#sequencer.budget({ services: this.#services.expected }),
      life: this.#life.signal,
      state: () => this.state,
      send: (event: Parameters<AllocBoard['send']>[0], why: Why, wait?: Wait) => {
        const peers = { ...this.#board.status.peers, ...(wait?.on === undefined ? {} : { next: wait.on }) };
        this.#board.send(event, why, {
          peers,
          wait: wait ?? null,
          ...(event === 'signal' ? this.#phase('stopping') : {}),
        });
      },
      discard: () => this.discard(),
      started: async () => this.#starting?.catch(() => undefined),
      target: () => this.#task.handle as TaskHandle,
      sequence: (target: TaskHandle, reason: StopReason) =>
        this.#sequencer.run(target, { services: this.#services.asked, reason }),
      calledOff: () => (this.#stop = undefined),
    };
  }

  #phase(phase: AllocStatus['tasks'][string]['phase'], exit?: ExitResult): Pick<Facets, 'tasks'> {
    return { tasks: { [this.#task.name]: { phase, ...(exit === undefined ? {} : { exit }) } } };
  }

  #wait(what: Wait['for'], until: number | null, why: string): Wait {
    return { for: what, since: this.#ground.clock.wall(), until, why };
  }

  #warn(message: string, error?: unknown): void {
    this.#board.emitter.warn(`alloc ${this.id}`, { code: 'alloc-warning', message, ...errorOf(error) });
  }
}

const GOALS: Readonly<Record<AllocGoal, (status: AllocStatus) => boolean>> = {
  prepared: ({ reached }) => reached !== 'none',
  running: ({ state }) => isServing(state),
  healthy: ({ reached }) => reached === 'healthy',
  terminal: ({ terminal }) => terminal,
};
