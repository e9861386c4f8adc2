import type { Call } from '../call.js';
import type { Emitter } from '../events.js';
import { messageOf } from '../internal/message-of.js';
import { abortable } from '../internal/signals.js';
import { UndoStack } from './undo-stack.js';

/**
 * The undoing of a driver's prestarts (DP-1, DP-3). One that could not be confirmed is told as a warning and tried again:
 * before the next prestart of its owner, which makes the same things, and beside those of others, since its owner may
 * never come again.
 */
export class Undos {
  readonly #unfinished = new Map<string, UndoStack>();

  constructor(private readonly warnings: Emitter<never>) {}

  /**
   * Does the slow work of one prestart.
   *
   * @param work - puts what has to be undone on the stack, and moves it off when it has succeeded
   * @throws what the work throws, after its undo; or what goes wrong with an earlier undo of this owner
   */
  async guard<T>(call: Call & { readonly owner: string }, work: (undo: UndoStack) => Promise<T>): Promise<T> {
    await this.#finish(call);
    const undo = new UndoStack();
    try {
      return await work(undo);
    } catch (error) {
      // The error that led here is the one to be told, not what goes wrong with the undoing of it.
      await this.#undo(undo, call.owner).catch(() => undefined);
      throw error;
    }
  }

  async #finish({ owner, signal }: Call & { readonly owner: string }): Promise<void> {
    const own = this.#unfinished.get(owner);
    for (const [other, undo] of this.#unfinished) {
      if (undo !== own) void this.#undo(undo, other).catch(() => undefined);
    }
    if (own !== undefined) await abortable(this.#undo(own, owner), signal);
  }

  async #undo(undo: UndoStack, owner: string): Promise<void> {
    try {
      await undo[Symbol.asyncDispose]();
      if (this.#unfinished.get(owner) === undo) this.#unfinished.delete(owner);
    } catch (error) {
      this.#unfinished.set(owner, undo);
      const message = `Could not undo all of the preparation of ${owner}; it is tried again with the next one: ${messageOf(error)}`;
      this.warnings.warn(owner, { code: 'undo-failed', message });
      throw error;
    }
  }
}
