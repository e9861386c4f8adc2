import * as v from 'valibot';
import type { Call, Duration, Opt } from '../call.js';
import type { Clock } from '../clock.js';
import { formatDuration } from '../duration.js';
import { type Env, requireMethods, resolveEnv } from '../env.js';
import { HandoverError } from '../errors.js';
import { deferred } from '../internal/deferred.js';
import { linkSignals } from '../internal/signals.js';
import { duration, oneOf, parseOptions } from '../options.js';
import { look, sightings } from './sightings.js';
import { meets } from './states.js';
import type { AllocPeer, AllocView, Gate, NextOutcome, Sighting } from './types.js';

const schema = v.strictObject({
  gate: oneOf(['none', 'prepared', 'healthy'], 'prepared'),
  deadline: duration(30 * 60_000, { never: true }),
  onFailed: oneOf(['keep', 'proceed'], 'keep'),
});

/**
 * The old one waits for the new one (AL-3): a stop because of a replacement is held until the successor has reached
 * the gate.
 */
export class NextAllocWatcher {
  /** What the next alloc must have reached. */
  readonly gate: Gate;
  /** Whether the previous alloc runs on, or is stopped all the same, when the next does not reach the gate. */
  readonly onFailed: 'keep' | 'proceed';
  readonly #deadline: number;
  readonly #clock: Clock;

  /**
   * @param next - the successor
   * @param o.gate - `none`, `prepared`, or `healthy` (and registered). Default `prepared`
   * @param o.deadline - how long the successor may show no progress at all. Default 30 minutes
   * @param o.onFailed - `keep` the previous alloc, or `proceed` with its stop. Default `keep`
   * @throws HandoverError `ERR_INVALID_OPTION`
   */
  constructor(
    readonly next: AllocPeer,
    o: Opt<{ gate: Gate; deadline: Duration; onFailed: 'keep' | 'proceed' }> = {},
    env: Env = {},
  ) {
    requireMethods('next', next, ['watch']);
    const options = parseOptions(schema, o);
    this.gate = options.gate;
    this.onFailed = options.onFailed;
    this.#deadline = options.deadline;
    this.#clock = resolveEnv(env).clock;
  }

  /** When the wait would end if there were no more progress from now on; `Infinity` = never. */
  get patience(): number {
    return this.#deadline;
  }

  /**
   * Waits for the gate; resolves from the current state if it has been reached already.
   *
   * @returns how it ended; missing the gate is a value, not an error
   * @throws the signal's reason when it aborts
   */
  async wait(call: Call = {}): Promise<NextOutcome> {
    const started = this.#clock.now();
    const done = (outcome: NextOutcome['outcome'], last?: AllocView, cause?: HandoverError): NextOutcome => ({
      outcome,
      waited: this.#clock.now() - started,
      ...(last === undefined ? {} : { last }),
      ...(cause === undefined ? {} : { cause }),
    });
    if (this.gate === 'none') return done('reached');
    const link = linkSignals(call.signal);
    const seen = sightings(this.next, this.#clock, link.signal);
    let patience = this.#patience();
    let last: AllocView | undefined;
    try {
      for (let pending = seen.next(); ;) {
        const item = await Promise.race([pending, patience.up]);
        if (item === 'up') return done('deadline', last, this.#missed(last, 'it made no progress'));
        const { seen: view } = item.value as Sighting;
        if (view === 'unreachable') continue;
        if (view === 'absent') return done('failed', last, this.#missed(last, 'it is not there any more'));
        if (meets(view.reached, this.gate)) return done('reached', view);
        if (view.terminal) return done('failed', view, this.#missed(view, `it ended as ${view.state}`));
        if (last?.revision !== view.revision) {
          patience.stop();
          patience = this.#patience();
        }
        last = view;
      }
    } finally {
      patience.stop();
      link.abort(new HandoverError('ERR_CLOSED', 'The wait is over', { details: {} }));
      link.dispose();
      seen.return().catch(() => undefined);
    }
  }

  /**
   * Looks once whether the gate is reached right now: it is a level, and may be lost again (AL-3).
   *
   * @throws the signal's reason when it aborts
   */
  async holds(call: Call = {}): Promise<boolean> {
    if (this.gate === 'none') return true;
    const link = linkSignals(call.signal);
    try {
      const { seen } = await look(this.next, this.#clock, link.signal);
      return typeof seen === 'object' && meets(seen.reached, this.gate);
    } finally {
      link.dispose();
    }
  }

  #patience(): { readonly up: Promise<'up'>; stop(): void } {
    const up = deferred<'up'>();
    return { up: up.promise, stop: this.#clock.timer(this.#deadline, () => up.resolve('up')) };
  }

  #missed(last: AllocView | undefined, why: string): HandoverError<'ERR_GATE_MISSED'> {
    const patience =
      this.#deadline === Infinity ? '' : ` (patience: ${formatDuration(this.#deadline)} without progress)`;
    const message = `Alloc ${this.next.id} did not become ${this.gate}: ${why}${patience}`;
    return new HandoverError('ERR_GATE_MISSED', message, {
      details: { allocId: this.next.id, gate: this.gate, state: last?.state ?? 'pending' },
    });
  }
}
