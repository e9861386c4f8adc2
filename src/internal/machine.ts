/** A transition table as data: state → event → next state. A pair that is not there leaves the state as it is. */
export type Table<S extends string = string, E extends string = string> = Readonly<
  Record<S, Readonly<Partial<Record<E, S>>>>
>;

/** Runs a {@link Table}: holds the state, and moves it only along the table's arrows. */
export class Machine<S extends string, E extends string> {
  #state: S;

  /**
   * @param table - the arrows
   * @param initial - the first state
   * @param onMove - told after each move, when `state` already reads the new one
   */
  constructor(
    private readonly table: Table<S, E>,
    initial: S,
    private readonly onMove: (from: S, to: S, event: E) => void = () => undefined,
  ) {
    this.#state = initial;
  }

  get state(): S {
    return this.#state;
  }

  /** @returns whether the state moved */
  send(event: E): boolean {
    const from = this.#state;
    const next = this.table[from][event];
    if (next === undefined || next === from) return false;
    this.#state = next;
    this.onMove(from, next, event);
    return true;
  }
}

/**
 * Fills a table so that every (state, event) pair is there: what was not named keeps the state.
 *
 * @param sparse - the arrows that move
 * @returns the same arrows plus the ones that stay
 */
export function completeTable<S extends string, E extends string>(
  sparse: Table<S, E>,
): Readonly<Record<S, Readonly<Record<E, S>>>> {
  const rows = Object.entries(sparse) as [S, Partial<Record<E, S>>][];
  const events = [...new Set(rows.flatMap(([, row]) => Object.keys(row) as E[]))];
  return Object.fromEntries(
    rows.map(([state, row]) => [state, Object.fromEntries(events.map((event) => [event, row[event] ?? state]))]),
  ) as Record<S, Record<E, S>>;
}
