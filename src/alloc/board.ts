import type { ExclusiveResource } from '../driver/driver.js';
import type { Ground, Reason } from '../env.js';
import { Emitter } from '../events.js';
import { Cell } from '../internal/cell.js';
import { Machine } from '../internal/machine.js';
import { messageOf } from '../internal/message-of.js';
import { ALLOC_TABLE, type AllocEvent, isTerminal, reachedGate } from './states.js';
import type { AllocFeed, AllocState, AllocStatus, AllocView } from './types.js';

/** Why something moved; the board adds the time. */
export type Why = Omit<Reason, 'at'>;

/** What the board shows beside the state. */
export type Facets = Pick<AllocStatus, 'health' | 'wait' | 'peers' | 'tasks' | 'checks' | 'registered'> & {
  /** Healthy for long enough, and registered where it has to be. */
  readonly healthy: boolean;
};

/**
 * The one place where an alloc's state and facets are kept. Whatever changes is readable first, then published to the
 * feed, then told as an event (G-7).
 */
export class AllocBoard {
  readonly emitter: Emitter<'alloc'>;
  /** The present status; changes with every move. */
  readonly cell: Cell<AllocStatus>;
  readonly #machine: Machine<AllocState, AllocEvent>;
  #facets: Facets;
  #since: number;
  #reason: Reason;
  #revision = 0;
  #announced = false;

  constructor(
    private readonly ground: Ground,
    private readonly facts: {
      readonly id: string;
      readonly task: string;
      readonly exclusive: readonly ExclusiveResource[];
      /** ms. */
      readonly stopBudget: number;
      readonly feed: AllocFeed | undefined;
    },
  ) {
    this.emitter = new Emitter(ground);
    this.#machine = new Machine(ALLOC_TABLE, 'pending');
    this.#facets = {
      health: 'none',
      healthy: false,
      wait: null,
      peers: {},
      tasks: { [facts.task]: { phase: 'pending' } },
      checks: {},
      registered: [],
    };
    this.#since = ground.clock.wall();
    this.#reason = { code: 'created', message: 'It has not been touched yet', at: this.#since };
    this.cell = new Cell(this.#read());
  }

  get state(): AllocState {
    return this.#machine.state;
  }

  get status(): AllocStatus {
    return this.cell.value;
  }

  /**
   * Moves the state, if the table has an arrow for it.
   *
   * @param facets - what changes together with it
   * @returns whether it moved
   */
  send(event: AllocEvent, why: Why, facets: Partial<Facets> = {}): boolean {
    const from = this.state;
    if (!this.#machine.send(event)) return false;
    this.#since = this.ground.clock.wall();
    this.#reason = { ...why, at: this.#since };
    this.#facets = { ...this.#facets, wait: null, ...facets };
    this.#publish(true);
    this.emitter.emit('alloc:changed', { from, alloc: this.status });
    return true;
  }

  /** Lets others see it as it is: from then on they see each change. Until then nothing is published. */
  announce(): void {
    this.#announced = true;
    this.#tell();
  }

  /**
   * Changes facets within a state, and tells it as `event`, if one is given.
   *
   * @param gotOn - it is progress all the same: whoever waits for some is patient again (AL-4)
   */
  show(facets: Partial<Facets>, event?: 'alloc:health' | 'alloc:task', gotOn = false): void {
    this.#facets = { ...this.#facets, ...facets };
    this.#publish(gotOn || event !== undefined);
    if (event === 'alloc:health') this.emitter.emit(event, { alloc: this.status });
    if (event === 'alloc:task') this.emitter.emit(event, { task: this.facts.task, alloc: this.status });
  }

  /** New words for what is as it was are no news to those who watch from afar. */
  #publish(news: boolean): void {
    const next = this.#read();
    if (news || next.reached !== this.status.reached) this.#revision++;
    this.cell.set({ ...next, revision: this.#revision });
    this.#tell();
  }

  #tell(): void {
    if (!this.#announced) return;
    try {
      this.facts.feed?.publish?.(viewOf(this.status));
    } catch (error) {
      const message = `Alloc ${this.facts.id} could not be published: ${messageOf(error)}`;
      this.emitter.warn(`alloc ${this.facts.id}`, { code: 'feed-failed', message });
    }
  }

  #read(): AllocStatus {
    const { healthy, ...facets } = this.#facets;
    return {
      id: this.facts.id,
      state: this.state,
      reached: reachedGate(this.state, healthy),
      terminal: isTerminal(this.state),
      stopBudget: this.facts.stopBudget === Infinity ? 'never' : this.facts.stopBudget,
      revision: this.#revision,
      exclusive: this.facts.exclusive,
      since: this.#since,
      reason: this.#reason,
      ...facets,
    };
  }
}

/** The part of a status that travels. */
export function viewOf(status: AllocStatus): AllocView {
  const { id, state, reached, terminal, stopBudget, revision, exclusive } = status;
  return { id, state, reached, terminal, stopBudget, revision, exclusive };
}
