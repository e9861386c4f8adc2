import type { Call } from '../call.js';
import type { Clock } from '../clock.js';
import type { Wait } from '../env.js';
import type { HandoverError } from '../errors.js';
import { linkSignals } from '../internal/signals.js';
import type { NextAllocWatcher } from './next.js';
import type { NextOutcome } from './types.js';

/** What a stop because of a replacement depends on: its successor's gate, until that is bypassed (AL-3, AL-5). */
export class StopGate {
  /** Aborts when the successor is not to be waited for any more. */
  readonly #open = new AbortController();
  /** None once it was bypassed. */
  #after: NextAllocWatcher | undefined;
  /** That it was lost again while the alloc drained. */
  #lost: NextOutcome | undefined;

  /**
   * @param onLost - told when the gate is lost again, and the alloc is to be kept then
   */
  constructor(
    after: NextAllocWatcher | undefined,
    private readonly clock: Clock,
    private readonly onLost: () => void,
  ) {
    this.#after = after;
  }

  get lost(): NextOutcome | undefined {
    return this.#lost;
  }

  /** When the wait ends without progress; wall time, ms. `null`: never. */
  get until(): number | null {
    return this.#after?.expires ?? null;
  }

  /** The successor's gate does not bind the stop any more. */
  bypass(): void {
    this.#after = undefined;
    this.#open.abort();
  }

  /** Ends a wait in progress. */
  leave(): void {
    this.#open.abort();
  }

  /** Whether the alloc is to be kept after such an end of the wait. */
  keeps(gate: NextOutcome | undefined): boolean {
    return this.#after?.onFailed === 'keep' && (gate?.outcome === 'failed' || gate?.outcome === 'deadline');
  }

  /** What there is to wait for; `null`: nothing, or nothing any more. */
  wait(): Wait | null {
    if (this.#after === undefined || this.#open.signal.aborted) return null;
    const { next, gate, expires } = this.#after;
    const why = `Serves on until alloc ${next.id} is ${gate}`;
    return { for: 'successor', since: this.clock.wall(), until: expires, on: next.id, why };
  }

  /** Waits for the gate; `undefined`: there is none. */
  async reached(life: AbortSignal): Promise<NextOutcome | undefined> {
    const started = this.clock.now();
    const link = linkSignals(this.#open.signal, life);
    try {
      return await this.#after?.wait({ signal: link.signal });
    } catch {
      return { outcome: 'bypassed', waited: this.clock.now() - started };
    } finally {
      link.dispose();
    }
  }

  /** The look right before the first signal: the gate is a level. @returns whether it is lost, and the alloc kept */
  async isLost(call: Call): Promise<boolean> {
    const after = this.#after;
    if (after?.onFailed !== 'keep') return false;
    const cause = await after.lost(call);
    return cause !== undefined && this.#keep(cause);
  }

  /** While it drains nobody serves but the successor; one that ends then is not worth waiting for the signal (AL-3). */
  async mind(signal: AbortSignal): Promise<void> {
    const after = this.#after;
    if (after?.onFailed !== 'keep' || after.gate === 'none') return;
    try {
      this.#keep(await after.ended(signal));
    } catch {
      // The stop was over first.
    }
  }

  /** Bypassed while we looked: then nothing depends on the successor any more. */
  #keep(cause: HandoverError): boolean {
    if (this.#after === undefined) return false;
    this.#lost = { outcome: 'failed', waited: 0, cause };
    this.onLost();
    return true;
  }
}
