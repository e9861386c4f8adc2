import * as v from 'valibot';
import type { Call, Duration, Opt } from '../call.js';
import type { Clock } from '../clock.js';
import { formatDuration } from '../duration.js';
import { type Env, resolveEnv } from '../env.js';
import { HandoverError } from '../errors.js';
import { checkCall } from '../internal/check-call.js';
import { deferred } from '../internal/deferred.js';
import { linkSignals } from '../internal/signals.js';
import { oneOf, parseOptions, requiredDuration, strictObject } from '../options.js';
import { requirePeer, sightings } from './sightings.js';
import type { AllocPeer, AllocState, AllocView, PreviousOutcome } from './types.js';

const schema = strictObject({
  deadline: v.optional(requiredDuration({ never: true })),
  onExpired: oneOf(['fail', 'overlap'], 'fail'),
  onUnreachable: oneOf(['wait', 'proceed'], 'wait'),
});

function budgetOf({ stopBudget }: AllocView): number {
  return stopBudget === 'never' ? Infinity : stopBudget;
}

/** States in which the previous alloc has been told to stop and its time runs. */
const GOING: ReadonlySet<AllocState> = new Set(['draining', 'stopping', 'unkillable']);

/**
 * The new one waits for the old one (AL-2): until the previous alloc has ended, or an authority says that it is not
 * there. Nothing else releases it.
 */
export class PrevAllocWatcher {
  readonly #options: v.InferOutput<typeof schema>;
  readonly #clock: Clock;

  /**
   * @param previous - the alloc to wait for
   * @param o.deadline - how long the previous one may take from the moment it is seen draining (not while it is
   *   held). Default: its own stop budget. `'never'` waits as long as it takes
   * @param o.onExpired - `fail` rejects; `overlap` goes on beside it. Default `fail`
   * @param o.onUnreachable - `wait` until the feed knows; `proceed` takes not knowing for gone. Default `wait`
   * @throws HandoverError `ERR_INVALID_OPTION`
   */
  constructor(
    readonly previous: AllocPeer,
    o: Opt<{ deadline: Duration; onExpired: 'fail' | 'overlap'; onUnreachable: 'wait' | 'proceed' }> = {},
    env: Env = {},
  ) {
    requirePeer('previous', previous);
    this.#options = parseOptions(schema, o);
    this.#clock = resolveEnv(env).clock;
  }

  /**
   * Waits for the end of the previous alloc; resolves from its current state if it has ended already.
   *
   * @throws HandoverError `ERR_PREVIOUS_RUNNING` when its time is up, or when its stop was called off and it runs on
   * @throws the signal's reason when it aborts
   */
  async wait(call: Call = {}): Promise<PreviousOutcome> {
    checkCall(call);
    const started = this.#clock.now();
    const expired = deferred<'expired'>();
    const link = linkSignals(call.signal);
    let stopTimer: (() => void) | undefined;
    let last: AllocView | undefined;
    const outcome = (word: PreviousOutcome['outcome']): PreviousOutcome => ({
      outcome: word,
      waited: this.#clock.now() - started,
      ...(last === undefined ? {} : { last }),
    });
    const seen = sightings(this.previous, this.#clock, link.signal);
    try {
      for (;;) {
        const next = await Promise.race([seen.next(), expired.promise]);
        if (next === 'expired') return this.#onExpired(last, outcome);
        const view = (next.value as { seen: AllocView | 'absent' | 'unreachable' }).seen;
        if (view === 'absent') return outcome('absent');
        if (view === 'unreachable') {
          if (this.#options.onUnreachable === 'proceed') return outcome('absent');
          continue;
        }
        const before = last?.state;
        last = view;
        if (view.terminal) return outcome('ended');
        if (view.state === 'running' && (before === 'held' || before === 'draining')) throw this.#running('running');
        if (GOING.has(view.state)) {
          stopTimer ??= this.#clock.timer(this.#options.deadline ?? budgetOf(view), () => expired.resolve('expired'));
        }
      }
    } finally {
      stopTimer?.();
      link.abort(new HandoverError('ERR_CLOSED', 'The wait is over', { details: {} }));
      link.dispose();
      seen.return().catch(() => undefined);
    }
  }

  #onExpired(last: AllocView | undefined, outcome: (word: 'overlap') => PreviousOutcome): PreviousOutcome {
    if (this.#options.onExpired === 'overlap') return outcome('overlap');
    throw this.#running(last?.state ?? 'unreachable');
  }

  #running(state: AllocState | 'unreachable'): HandoverError<'ERR_PREVIOUS_RUNNING'> {
    const why =
      state === 'running'
        ? 'its stop was called off and it runs on'
        : `it has not ended within ${formatDuration(this.#options.deadline ?? 'its own stop budget')}`;
    const message = `Alloc ${this.previous.id} is still there (${state}): ${why}. Start again once it may be waited for.`;
    return new HandoverError('ERR_PREVIOUS_RUNNING', message, {
      details: { allocId: this.previous.id, state },
      retryable: true,
    });
  }
}
