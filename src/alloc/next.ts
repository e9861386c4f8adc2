import type { Call, Duration, Opt } from '../call.js';
import { type Clock, Deadline } from '../clock.js';
import { formatDuration } from '../duration.js';
import { type Env, resolveEnv } from '../env.js';
import { HandoverError } from '../errors.js';
import { checkCall } from '../internal/check-call.js';
import { deferred } from '../internal/deferred.js';
import { linkSignals, withDeadline } from '../internal/signals.js';
import { duration, oneOf, parseOptions, strictObject } from '../options.js';
import { look, requirePeer, sightings } from './sightings.js';
import { isDoomed, meets } from './states.js';
import type { AllocPeer, AllocView, Gate, NextOutcome, Sighting } from './types.js';

const schema = strictObject({
  gate: oneOf(['none', 'prepared', 'healthy'], 'prepared'),
  deadline: duration(30 * 60_000, { never: true }),
  onFailed: oneOf(['keep', 'proceed'], 'keep'),
});

/** The last look before a signal is part of what a stop does before it, which has 5 s for this at least. */
const LOOK_MS = 3_000;

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
  #patienceEnds: Deadline;

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
    requirePeer('next', next);
    const options = parseOptions(schema, o);
    this.gate = options.gate;
    this.onFailed = options.onFailed;
    this.#deadline = options.deadline;
    this.#clock = resolveEnv(env).clock;
    this.#patienceEnds = new Deadline(this.#clock, this.#deadline);
  }

  /** @internal When the wait ends if there is no more progress: wall time, ms; `null` = never. */
  get expires(): number | null {
    return this.#patienceEnds.wall;
  }

  /**
   * Waits for the gate; resolves from the current state if it has been reached already.
   *
   * @returns how it ended; missing the gate is a value, not an error
   * @throws the signal's reason when it aborts
   */
  async wait(call: Call = {}): Promise<NextOutcome> {
    checkCall(call);
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
      for (;;) {
        const item = await Promise.race([seen.next(), patience.up]);
        if (item === 'up')
          return done('deadline', last, this.#missed(last, `it made no progress in ${formatDuration(this.#deadline)}`));
        const { seen: view } = item.value as Sighting;
        if (view === 'unreachable') continue;
        if (view === 'absent') return done('failed', last, this.#missed(last, 'it is not there any more'));
        if (meets(view.reached, this.gate)) return done('reached', view);
        if (view.terminal) return done('failed', view, this.#missed(view, `it ended as ${view.state}`));
        if (isDoomed(view.state)) return done('failed', view, this.#missed(view, 'it is being stopped'));
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
   * @internal Looks once, and not for long, whether the gate is still reached: it is a level, and may be lost again
   * (AL-3). Not to know counts as lost: that is no reason to stop what serves.
   *
   * @returns why it does not hold; `undefined`: it holds
   */
  async lost(call: Call = {}): Promise<HandoverError<'ERR_GATE_MISSED'> | undefined> {
    if (this.gate === 'none') return undefined;
    const late = (): Error => new Error(`no answer in ${LOOK_MS} ms`);
    let last: AllocView | undefined;
    try {
      const { seen } = await withDeadline(this.#clock, LOOK_MS, call.signal, late, (signal) =>
        look(this.next, this.#clock, signal),
      );
      if (typeof seen === 'object') last = seen;
    } catch {
      call.signal?.throwIfAborted();
    }
    if (last !== undefined && meets(last.reached, this.gate)) return undefined;
    const now = last === undefined ? 'it could not be seen' : `it is ${last.state} now`;
    return this.#missed(last, `${now}, just before the previous alloc was to be signalled`);
  }

  /**
   * @internal Resolves when the successor has ended, or is gone: then nothing can bring the gate back.
   *
   * @throws the signal's reason when it aborts
   */
  async ended(signal: AbortSignal): Promise<HandoverError<'ERR_GATE_MISSED'>> {
    for await (const { seen } of sightings(this.next, this.#clock, signal)) {
      if (seen === 'absent') return this.#missed(undefined, 'it is not there any more');
      if (typeof seen === 'object' && seen.terminal) return this.#missed(seen, `it ended as ${seen.state}`);
    }
    throw signal.reason;
  }

  #patience(): { readonly up: Promise<'up'>; stop(): void } {
    const up = deferred<'up'>();
    this.#patienceEnds = new Deadline(this.#clock, this.#deadline);
    return { up: up.promise, stop: this.#clock.timer(this.#deadline, () => up.resolve('up')) };
  }

  #missed(last: AllocView | undefined, why: string): HandoverError<'ERR_GATE_MISSED'> {
    const message = `Alloc ${this.next.id} did not become or stay ${this.gate}: ${why}`;
    return new HandoverError('ERR_GATE_MISSED', message, {
      details: { allocId: this.next.id, gate: this.gate, state: last?.state ?? 'pending' },
    });
  }
}
