/**
 * What has to be undone when the slow work of a prestart fails or is called off (DP-3), for driver authors. A small
 * stand-in for `AsyncDisposableStack`, which Node 20 does not have.
 *
 * Undoing runs the entries last in, first out. All of them run, also when some fail; those that failed stay on the
 * stack, so that disposing again tries exactly them (DP-1: an undo that could not be confirmed is tried again).
 */
export class UndoStack implements AsyncDisposable {
  #undos: (() => Promise<void>)[] = [];
  #running: Promise<void> | undefined;

  /**
   * Takes over a disposable, such as a lease.
   *
   * @returns the same value
   */
  use<T extends AsyncDisposable>(value: T): T {
    this.defer(async () => value[Symbol.asyncDispose]());
    return value;
  }

  /**
   * Adds what undoes a step.
   *
   * @param undo - has to be safe to run again after it failed
   */
  defer(undo: () => Promise<void>): void {
    this.#undos.push(undo);
  }

  /**
   * Hands everything over to a new stack, once the work has succeeded: this one is empty then, and disposing it at the
   * end of its block undoes nothing.
   */
  move(): UndoStack {
    const moved = new UndoStack();
    moved.#undos = this.#undos;
    this.#undos = [];
    return moved;
  }

  /**
   * Undoes everything; idempotent, and calls at the same time share one run.
   *
   * @throws the error of the one undo that failed, or an `AggregateError` of several
   */
  [Symbol.asyncDispose](): Promise<void> {
    this.#running ??= this.#run().finally(() => (this.#running = undefined));
    return this.#running;
  }

  async #run(): Promise<void> {
    const failed: (() => Promise<void>)[] = [];
    const errors: unknown[] = [];
    for (let undo = this.#undos.pop(); undo !== undefined; undo = this.#undos.pop()) {
      try {
        await undo();
      } catch (error) {
        failed.unshift(undo);
        errors.push(error);
      }
    }
    this.#undos = failed;
    if (errors.length === 1) throw errors[0];
    if (errors.length > 1) throw new AggregateError(errors, `${errors.length} steps could not be undone`);
  }
}
