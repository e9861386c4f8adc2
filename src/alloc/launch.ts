import type { Call, Opt } from '../call.js';
import { Deadline } from '../clock.js';
import type { TaskHandle } from '../driver/driver.js';
import { overlap } from '../driver/resources.js';
import { formatDuration } from '../duration.js';
import type { Ground } from '../env.js';
import { HandoverError } from '../errors.js';
import { linkSignals } from '../internal/signals.js';
import { SharedWork } from '../internal/shared-work.js';
import type { AllocBoard, Facets } from './board.js';
import { messageOf } from '../internal/message-of.js';
import { ended, errorOf, overlapRefused, stillThere } from './faults.js';
import type { AllocOptions } from './options.js';
import type { PrevAllocWatcher } from './previous.js';
import { isBeforeStart, isTerminal } from './states.js';
import type { AllocTaskRunner } from './task.js';
import type { AllocState, TaskStatus } from './types.js';

/** The parts of an alloc that its launch works with. */
export interface LaunchParts {
  readonly id: string;
  readonly ground: Ground;
  readonly options: AllocOptions;
  readonly board: AllocBoard;
  readonly task: AllocTaskRunner;
  /** Aborts when the alloc is let go of. */
  readonly life: AbortSignal;
  /** The task runs. */
  readonly started: (handle: TaskHandle) => void;
  readonly warn: (message: string, error: unknown) => void;
}

/** The way of an alloc from nothing to running: prepared, waiting for its previous, started, or discarded on the way. */
export class AllocLaunch {
  readonly #parts: LaunchParts;
  /** Aborts when the alloc is discarded: its waits end, and it is not started any more. */
  readonly #dropped = new AbortController();
  #prestart: SharedWork<void> | undefined;
  #start: SharedWork<void> | undefined;

  constructor(parts: LaunchParts) {
    this.#parts = parts;
  }

  get #state(): AllocState {
    return this.#parts.board.state;
  }

  async prestart({ signal }: Call): Promise<void> {
    this.#requireAlive();
    if (!isBeforeStart(this.#state)) return;
    signal?.throwIfAborted();
    this.#prestart ??= new SharedWork((calledOff) => this.#prepare(calledOff));
    await this.#join(this.#prestart, signal);
  }

  async start(o: Call & Opt<{ after: PrevAllocWatcher }>): Promise<void> {
    await this.prestart(o);
    if (o.after !== undefined && isBeforeStart(this.#state)) await this.#waitFor(o.after, o.signal);
    // Discarded, or let go of, while it waited: nothing is started any more.
    this.#requireAlive();
    if (isBeforeStart(this.#state)) this.#start ??= new SharedWork((calledOff) => this.#startTask(calledOff));
    if (this.#start !== undefined) await this.#join(this.#start, o.signal);
  }

  /** Settles when a start in progress has. */
  async settled(): Promise<void> {
    await this.#start?.settled();
  }

  /** Calls a start in progress off. */
  callOffStart(): void {
    const { board } = this.#parts;
    if (board.state === 'starting') void this.#start?.abort(ended(board.status));
  }

  async discard(): Promise<void> {
    const { board, life, task } = this.#parts;
    if (isTerminal(this.#state)) return;
    life.throwIfAborted();
    if (!isBeforeStart(this.#state))
      throw stillThere(board.status, 'it has been started; stop() it instead of discarding it');
    this.#dropped.abort(ended(board.status));
    await this.#prestart?.abort(this.#dropped.signal.reason);
    await task.discard();
    // Let go of meanwhile: nothing more was undone, and it can be taken up again.
    life.throwIfAborted();
    board.send(
      'discard',
      { code: 'discarded', message: 'It was discarded before it was started' },
      this.#phase('dead'),
    );
  }

  /** Looks whether what was prepared is still there; an alloc that has lost it is `rejected` (AL-3). */
  async check(signal: AbortSignal): Promise<'known' | 'unknown'> {
    const { board, life, task, warn } = this.#parts;
    if (this.#state !== 'prepared' && this.#state !== 'waiting') return 'known';
    try {
      if (await task.intact({ signal })) return 'known';
    } catch (error) {
      signal.throwIfAborted();
      warn('It could not be seen whether the preparation is still there', error);
      return 'unknown';
    }
    life.throwIfAborted();
    // A discard removes it too, and says so itself.
    if (this.#dropped.signal.aborted) return 'known';
    const why = { code: 'vanished', message: 'What was prepared was removed by somebody else' };
    if (!board.send('vanished', why, this.#phase('dead'))) return 'known';
    this.#dropped.abort(ended(board.status));
    await task.discard();
    return 'known';
  }

  /** @throws when there is nothing to prepare or start any more */
  #requireAlive(): void {
    const { board, life } = this.#parts;
    // An end stays true, also of one that was let go of.
    if (!isTerminal(this.#state)) life.throwIfAborted();
    if (isTerminal(this.#state) || this.#dropped.signal.aborted) throw ended(board.status);
  }

  /** Whoever waits for work that somebody else called off is told that the alloc ended, not the other's reason. */
  async #join(work: SharedWork<void>, signal: AbortSignal | undefined): Promise<void> {
    try {
      await work.join(signal);
    } catch (error) {
      if (signal?.aborted !== true && this.#state === 'discarded') throw ended(this.#parts.board.status);
      throw error;
    }
  }

  async #prepare(calledOff: AbortSignal): Promise<void> {
    const { board, ground, life, options, task } = this.#parts;
    const { timeout } = options.prestart;
    const why = `Preparing task ${task.name}`;
    const wait = {
      for: 'pull',
      since: ground.clock.wall(),
      until: new Deadline(ground.clock, timeout).wall,
      why,
    } as const;
    board.send('prestart', { code: 'prestart', message: why }, { wait, ...this.#phase('preparing') });
    const link = linkSignals(calledOff, life);
    const stopTimer = ground.clock.timer(timeout, () => link.abort(this.#late('ERR_PRESTART_FAILED', timeout)));
    try {
      await task.prestart(link.signal);
      if (link.signal.aborted) await task.discard();
      link.signal.throwIfAborted();
      const done = { code: 'prepared', message: 'Everything but the start is done' };
      board.send('prepared', done, this.#phase('prepared'));
    } catch (error) {
      if (!life.aborted) this.#onPrestartFailed(error, calledOff.aborted);
      throw error;
    } finally {
      stopTimer();
      link.dispose();
    }
  }

  #late(code: 'ERR_PRESTART_FAILED' | 'ERR_START_FAILED', timeout: number): HandoverError {
    const { id, task } = this.#parts;
    const what = code === 'ERR_START_FAILED' ? 'started' : 'prepared';
    const message = `Task ${task.owner} was not ${what} within ${formatDuration(timeout)}`;
    return new HandoverError(code, message, {
      details: { allocId: id, task: task.name },
      retryable: true,
    });
  }

  #onPrestartFailed(error: unknown, calledOff: boolean): void {
    const { board } = this.#parts;
    const why = calledOff
      ? { code: 'called-off', message: 'Its preparation was called off' }
      : { code: 'prestart-failed', message: messageOf(error), ...errorOf(error) };
    board.send(calledOff ? 'discard' : 'prestartFailed', why, this.#phase('dead'));
  }

  async #waitFor(after: PrevAllocWatcher, signal: AbortSignal | undefined): Promise<void> {
    const { board, ground, life } = this.#parts;
    const { id: on } = after.previous;
    const why = `Starts when alloc ${on} has ended, however long that takes`;
    const facets = {
      wait: { for: 'previous', since: ground.clock.wall(), until: null, on, why },
      peers: { previous: on },
    } as const;
    if (!board.send('awaitPrevious', { code: 'waiting', message: why }, facets)) board.show(facets);
    const link = linkSignals(signal, life, this.#dropped.signal);
    try {
      const { outcome, last } = await after.wait({ signal: link.signal });
      const shared = outcome === 'overlap' ? overlap(board.status.exclusive, last?.exclusive ?? []) : [];
      if (shared.length > 0) throw overlapRefused(on, this.#parts.id, shared);
    } catch (error) {
      // It is still prepared, and nothing is waited for until start() is called again.
      if (!life.aborted && isBeforeStart(this.#state)) board.show({ wait: null });
      throw error;
    } finally {
      link.dispose();
    }
  }

  /** What cannot be started in the time that it has to be healthy in will not be: an engine may never answer (G-8). */
  async #startTask(calledOff: AbortSignal): Promise<void> {
    const { board, ground, life, options, started, task } = this.#parts;
    const { healthyDeadline } = options.health;
    const why = 'Its task is being started';
    const until = new Deadline(ground.clock, healthyDeadline).wall;
    const wait = { for: 'health', since: ground.clock.wall(), until, why } as const;
    board.send('start', { code: 'starting', message: why }, { wait });
    // Not told of the alloc being let go of: a start that is under way lands, and is found again by its labels.
    const link = linkSignals(calledOff);
    const late = (): void => link.abort(this.#late('ERR_START_FAILED', healthyDeadline));
    const stopTimer = ground.clock.timer(healthyDeadline, late);
    try {
      const handle = await task.start(link.signal);
      if (!life.aborted) board.send('started', { code: 'started', message: 'Its task runs' }, this.#phase('running'));
      // Also of one that was let go of, before or by a listener just now: its handle has to learn that.
      started(handle);
      life.throwIfAborted();
    } catch (error) {
      const why = { code: 'start-failed', message: messageOf(error), ...errorOf(error) };
      if (!life.aborted) board.send(calledOff.aborted ? 'discard' : 'startFailed', why, this.#phase('dead'));
      throw error;
    } finally {
      stopTimer();
      link.dispose();
    }
  }

  #phase(phase: TaskStatus['phase']): Pick<Facets, 'tasks'> {
    return { tasks: { [this.#parts.task.name]: { phase } } };
  }
}
