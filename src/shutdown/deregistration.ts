import { sleep } from '../internal/signals.js';
import type { Clock } from '../clock.js';
import type { Warn } from './context.js';
import type { Registrations } from './registrations.js';
import type { Registrar, ServiceInstance } from './types.js';

/** Between two questions whether the catalogue still shows an instance; local catalogues follow within a second. */
const CONFIRM_POLL_MS = 250;

/** Takes the instances of one stop off the registry, all at once, and puts them back when it is called off. */
export class Deregistration {
  #first: Promise<boolean> | undefined;
  /** How often it was taken back: what then fails of what was asked before is what was wanted. */
  #takenBack = 0;

  /**
   * @param life - aborts when the sequencer lets go; until then the intents live on in the background (SS-3)
   * @param timeout - bound of the deregistration in all, ms
   */
  constructor(
    private readonly registrar: Registrar,
    private readonly registrations: Registrations,
    private readonly services: readonly ServiceInstance[],
    private readonly clock: Clock,
    private readonly life: AbortSignal,
    private readonly timeout: number,
    private readonly warn: Warn,
  ) {}

  get ids(): string {
    return this.services.map(({ id }) => id).join(', ');
  }

  /** Whether it was asked for and not taken back. */
  get begun(): boolean {
    return this.#first !== undefined;
  }

  get confirmable(): boolean {
    return this.registrar.confirms !== undefined;
  }

  /** Begins, or joins what has begun. @returns whether all was acknowledged in time; never rejects */
  acknowledged(): Promise<boolean> {
    return (this.#first ??= this.#ask(this.timeout, true));
  }

  /** Holds on for those not acknowledged yet. @returns whether all is acknowledged now */
  heldOut(hold: number): Promise<boolean> {
    return this.#ask(hold, false);
  }

  /** Resolves once the catalogue shows none of them. */
  async unseen(signal: AbortSignal): Promise<void> {
    while (await this.#shown(signal)) await sleep(this.clock, CONFIRM_POLL_MS, { signal });
  }

  /** Registers again what was taken off; rejects when called off. The intents live on like any other. */
  async undo(): Promise<void> {
    this.#first = undefined;
    this.#takenBack++;
    await Promise.all(this.services.map((one) => this.registrations.register(one, { signal: this.life })));
  }

  async #ask(timeout: number, tell: boolean): Promise<boolean> {
    const round = this.#takenBack;
    const calls = this.services.map((one) => this.registrations.deregister(one, { signal: this.life, timeout }));
    const failures = (await Promise.allSettled(calls)).filter((result) => result.status === 'rejected');
    if (this.life.aborted || round !== this.#takenBack) return false;
    for (const { reason } of tell ? failures : []) this.warn('deregister-failed', (reason as Error).message, reason);
    return failures.length === 0;
  }

  /** No answer counts as shown: only a clear no ends the question. */
  async #shown(signal: AbortSignal): Promise<boolean> {
    const answers = await Promise.all(
      this.services.map(async (one) => {
        try {
          return await this.registrar.confirms?.(one, { signal });
        } catch {
          return true;
        }
      }),
    );
    return answers.includes(true);
  }
}
