import * as v from 'valibot';
import type { Clock } from '../clock.js';
import { formatDuration } from '../duration.js';
import { HandoverError } from '../errors.js';
import { onAbort, withDeadline } from '../internal/signals.js';
import { SharedWork } from '../internal/shared-work.js';
import { parseOptions, text } from '../options.js';
import type { AuthProvider, Credentials } from './types.js';

/** How long a provider may take (IC-14). */
const ASK_TIMEOUT = 30_000;

const expiresAt = v.optional(v.number());
/** What a provider may answer: a copy is made of it, without other keys. Of two forms at once, the first one here. */
const ANSWER = v.optional(
  v.union(
    [
      v.object({ encoded: text, expiresAt }),
      v.object({ identityToken: text, expiresAt }),
      v.object({ username: text, password: v.string(), expiresAt }),
    ],
    'has to answer { username, password }, { identityToken } or { encoded }, each of them text, with expiresAt as a number if it may be kept; undefined means anonymous',
  ),
);

/** Who is asked, and for what. */
export interface Claim {
  readonly auth: AuthProvider;
  readonly host: string;
  readonly scope: string | undefined;
}

/** What a provider has said: credentials, none, or nothing because it failed. */
export type Answer = Credentials | 'anonymous' | 'failed';

interface Kept {
  readonly answer: Answer;
  /** In the clock's `now()`. */
  readonly until: number;
}

interface ProviderState {
  readonly number: number;
  /** By host and scope. */
  readonly kept: Map<string, Kept>;
  /** By host, scope and whether the last answer was refused: asks of the same at the same time are one. */
  readonly asks: Map<string, SharedWork<Answer>>;
}

/**
 * Asks providers for credentials (IC-14), keeps what they say may be kept, and no longer. All of it is in memory only,
 * and no error made here shows any of it (G-6).
 */
export class Logins {
  readonly #clock: Clock;
  readonly #states = new WeakMap<AuthProvider, ProviderState>();
  #providers = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A number that stands for a provider: the same for the same function, and no other's. */
  numberOf(auth: AuthProvider): number {
    return this.#stateOf(auth).number;
  }

  /**
   * @param o.refused - the registry refused the last answer: what is kept does not count, and is forgotten
   * @throws HandoverError `ERR_DRIVER` when the provider is late, `ERR_INVALID_OPTION` for an answer of no known form;
   *   what the provider throws; the signal's reason
   */
  async ask(claim: Claim, o: { readonly refused: boolean; readonly signal: AbortSignal }): Promise<Answer> {
    const state = this.#stateOf(claim.auth);
    const place = JSON.stringify([claim.host, claim.scope]);
    const kept = state.kept.get(place);
    if (kept !== undefined && !o.refused && kept.until > this.#clock.now()) return kept.answer;
    state.kept.delete(place);
    // Of an ask that began earlier nobody knows whether it brings what was refused: it counts for who waits for it only.
    if (o.refused) state.asks.delete(`false ${place}`);
    const key = `${o.refused} ${place}`;
    const asking = state.asks.get(key) ?? this.#begin(state, key, place, claim, o.refused);
    return asking.join(o.signal);
  }

  #begin(state: ProviderState, key: string, place: string, claim: Claim, refused: boolean): SharedWork<Answer> {
    const counts = (): boolean => state.asks.get(key) === asking;
    const end = (): void => {
      if (counts()) state.asks.delete(key);
    };
    const asking: SharedWork<Answer> = new SharedWork(async (signal) => {
      // Who comes after all have left asks anew, and does not inherit their abort (IC-4).
      const dispose = onAbort(signal, end);
      try {
        const { answer, keepFor } = await this.#ask(claim, refused, signal);
        if (counts()) this.#keep(state, place, answer, keepFor);
        return answer;
      } finally {
        dispose();
        end();
      }
    });
    state.asks.set(key, asking);
    return asking;
  }

  async #ask(
    { auth, host, scope }: Claim,
    refused: boolean,
    parent: AbortSignal,
  ): Promise<{ readonly answer: Answer; readonly keepFor: number }> {
    const late = (): Error => lateError(host);
    // Async, so that a provider that throws at once rejects like any other.
    const call = async (signal: AbortSignal): Promise<unknown> => auth(host, { scope, refused, signal });
    const given = await withDeadline(this.#clock, ASK_TIMEOUT, parent, late, call);
    const answer = parseOptions(ANSWER, given, 'auth');
    if (answer === undefined) return { answer: 'anonymous', keepFor: 0 };
    const { expiresAt: end, ...credentials } = answer;
    // Its wall time counts once, now: a clock that jumps later does not move it (G-5).
    return { answer: credentials, keepFor: end === undefined ? 0 : end - this.#clock.wall() };
  }

  #keep({ kept }: ProviderState, place: string, answer: Answer, ms: number): void {
    const now = this.#clock.now();
    for (const [other, { until }] of kept) if (until <= now) kept.delete(other);
    if (ms > 0) kept.set(place, { answer, until: now + ms });
  }

  #stateOf(auth: AuthProvider): ProviderState {
    let state = this.#states.get(auth);
    if (state === undefined) {
      state = { number: ++this.#providers, kept: new Map(), asks: new Map() };
      this.#states.set(auth, state);
    }
    return state;
  }
}

/** Whether two answers are the same to a registry. Both are copies of ours, with their keys in one order. */
export function sameAnswer(a: Answer | undefined, b: Answer | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function lateError(host: string): HandoverError<'ERR_DRIVER'> {
  const message = `the provider did not answer for ${host} within ${formatDuration(ASK_TIMEOUT)}`;
  return new HandoverError('ERR_DRIVER', message, {
    details: { driver: 'auth', operation: 'ask', registry: host },
    retryable: true,
  });
}
