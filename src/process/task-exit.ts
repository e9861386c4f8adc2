import type { ChildProcess } from 'node:child_process';
import type { Clock } from '../clock.js';
import { Cell } from '../internal/cell.js';
import { sleep } from '../internal/signals.js';
import type { ExitResult } from '../shutdown/types.js';
import { type Run, isRunning } from './identity.js';

/** How often a process that is not our child is looked at, ms. Nobody tells us of its exit. */
const POLL_MS = 250;

/** What is known of an exit; who caused it is for the handle to say. */
export type Exit = Pick<ExitResult, 'code' | 'signal' | 'at'>;

/** The end of a process, to be waited for. */
export interface TaskExit {
  readonly running: boolean;
  /** @throws the signal's reason */
  wait(signal: AbortSignal | undefined): Promise<Exit>;
}

/** The exit of our own child, which the system tells us of. It keeps this process alive only while somebody waits (G-5). */
export class ChildExit implements TaskExit {
  readonly #exit = new Cell<Exit | undefined>(undefined);
  #waiters = 0;

  constructor(
    private readonly child: ChildProcess,
    clock: Clock,
  ) {
    child.once('exit', (code, signal) => this.#exit.set({ code, signal, at: clock.wall() }));
  }

  get running(): boolean {
    return this.#exit.value === undefined;
  }

  async wait(signal: AbortSignal | undefined): Promise<Exit> {
    if (this.#waiters++ === 0) this.child.ref();
    try {
      return await this.#exit.until((exit) => exit, signal);
    } finally {
      if (--this.#waiters === 0) this.child.unref();
    }
  }
}

/** The exit of a process that an earlier process of ours started: only its parent learns the code (DP-10). */
export class StrangerExit implements TaskExit {
  #exit: Exit | undefined;

  constructor(
    private readonly run: Run,
    private readonly clock: Clock,
  ) {}

  get running(): boolean {
    return isRunning(this.run);
  }

  async wait(signal: AbortSignal | undefined): Promise<Exit> {
    signal?.throwIfAborted();
    while (this.running) await sleep(this.clock, POLL_MS, { signal });
    this.#exit ??= { code: null, signal: null, at: this.clock.wall() };
    return this.#exit;
  }
}
