import PQueue from 'p-queue';
import type { Effective } from '../call.js';
import type { Clock } from '../clock.js';
import type { Reason } from '../env.js';
import type { Emitter } from '../events.js';
import { backoff } from '../internal/backoff.js';
import { HeapTimer } from '../internal/heap-timer.js';
import { abortable } from '../internal/signals.js';
import type { Looks } from './looks.js';
import { closedError, reasonOf } from './pull-failure.js';
import type { ImageRecord } from './record.js';
import { removableNames } from './removal-plan.js';
import type { Artifact, ArtifactSource, RemovalOptions } from './types.js';

/** How long content that could not be removed is left alone, more each time (IC-17). */
const RETRY = { first: 10_000, max: 5 * 60_000, jitter: 'none' } as const;
/** Removals at once; when many images fall due together the engine still has other work to do. */
const CONCURRENCY = 4;

/** How a removal ended: all gone; the rest is not ours; or kept, to be tried again by time or after a pull. */
type Outcome =
  | { readonly kind: 'gone' }
  | { readonly kind: 'left'; readonly reason: Reason }
  | { readonly kind: 'kept'; readonly reason: Reason; readonly after?: Promise<void> };

type Kept = Extract<Outcome, { kind: 'kept' }>;

/** What removals need of the coordinator. */
export interface RemovalDeck<A extends Artifact> {
  readonly clock: Clock;
  readonly source: ArtifactSource<A>;
  readonly settings: Effective<RemovalOptions>;
  readonly emitter: Emitter<'image'>;
  readonly looks: Looks<A>;
  /** The end of the flights of a reference that are in the air, if any. */
  readonly flightOf: (reference: string) => Promise<void> | undefined;
}

/** Removes content that nobody holds, when its time has come: never by force, never by id, never what is not ours. */
export class Removals<A extends Artifact> {
  readonly #deck: RemovalDeck<A>;
  readonly #timers: HeapTimer;
  readonly #queue = new PQueue({ concurrency: CONCURRENCY });
  /** Aborts when the coordinator has closed and waits for no removal any more. */
  readonly #end = new AbortController();
  #closed = false;

  constructor(deck: RemovalDeck<A>) {
    this.#deck = deck;
    this.#timers = new HeapTimer(deck.clock);
  }

  /** Nobody holds the content any more: from now on it has so long (IC-15). */
  plan(record: ImageRecord<A>): void {
    const { enabled, delay } = this.#deck.settings;
    if (enabled && delay !== Infinity) this.#schedule(record, delay);
    else record.kept = this.#reason('removal-disabled', 'Removal is switched off (removal.enabled or removal.delay)');
  }

  /**
   * Forgets what is planned for later; what is due already ends first (IC-23).
   *
   * @param grace - after this long, ms, it is waited for no longer
   */
  async close(grace: number): Promise<void> {
    this.#closed = true;
    this.#timers.clear();
    const cancel = this.#deck.clock.timer(grace, () => this.#end.abort(closedError()));
    try {
      await this.#queue.onIdle();
    } finally {
      cancel();
    }
  }

  #schedule(record: ImageRecord<A>, ms: number, after?: Promise<void>): void {
    // A removal that already waits in line must not run once the content was taken again, nor after the next release.
    let cancelled = false;
    const start = (): void => {
      if (!cancelled) void this.#queue.add(() => this.#run(record, () => cancelled));
    };
    const cancelTimer = ms === 0 || after !== undefined ? undefined : this.#timers.add(ms, start);
    record.removeAt = after === undefined ? this.#deck.clock.wall() + ms : undefined;
    record.cancelRemoval = () => {
      cancelled = true;
      cancelTimer?.();
    };
    if (cancelTimer === undefined) void (after ?? Promise.resolve()).then(start);
  }

  async #run(record: ImageRecord<A>, cancelled: () => boolean): Promise<void> {
    const { looks, clock } = this.#deck;
    await looks.removal(record.id, async () => {
      const over = (): boolean => this.#end.signal.aborted;
      if (cancelled() || over() || !record.send('delayElapsed')) return;
      const outcome = await this.#remove(record).catch((error: unknown): Outcome => ({
        kind: 'kept',
        reason: reasonOf(error, clock),
      }));
      if (!over()) this.#settle(record, outcome);
    });
  }

  #settle(record: ImageRecord<A>, outcome: Outcome): void {
    record.removeAt = undefined;
    if (outcome.kind === 'gone') {
      record.kept = undefined;
      record.send('removed');
      return;
    }
    record.kept = outcome.reason;
    if (outcome.kind === 'left') {
      record.send('forgotten');
    } else {
      record.refusals += 1;
      if (!this.#closed) this.#schedule(record, backoff(RETRY, record.refusals, this.#deck.clock), outcome.after);
      record.send('refused');
    }
    this.#deck.emitter.emit('image:kept', { imageId: record.id, reason: outcome.reason });
  }

  async #remove(record: ImageRecord<A>): Promise<Outcome> {
    const { source } = this.#deck;
    const tried = new Map<string, Kept | undefined>();
    for (;;) {
      const now = await this.#ask((call) => source.find(record.id, call));
      if (now === undefined) return { kind: 'gone' };
      // Whoever brings a lost name back is not us; a removal of unknown outcome may have taken it away (G-8).
      for (const name of record.ours.keys()) if (!now.references.includes(name)) record.ours.delete(name);
      const names = this.#names(record, now).filter((name) => !tried.has(name));
      if (names.length === 0) return worst(now.references.map((name) => tried.get(name))) ?? this.#left(now);
      const users = await this.#ask((call) => source.users(record.id, call));
      if (users.length > 0) return this.#kept('image-in-use', `In use by ${users.join(', ')}`);
      for (const name of names) tried.set(name, await this.#untag(record, name));
    }
  }

  #names(record: ImageRecord<A>, now: A): readonly string[] {
    const { source, settings } = this.#deck;
    const mayGo = (name: string): boolean => settings.scope === 'any' || record.ours.has(name);
    return removableNames(now, mayGo, (reference) => source.normalise(reference));
  }

  /** Takes one name away, if it still means this content; nobody fetches it meanwhile. */
  async #untag(record: ImageRecord<A>, name: string): Promise<Kept | undefined> {
    const { looks, flightOf, clock } = this.#deck;
    for (let other; (other = looks.untagging(name)) !== undefined;) await other;
    const flight = flightOf(name);
    if (flight !== undefined) {
      return { ...this.#kept('pull-in-progress', `${name} is being pulled`), after: flight };
    }
    return looks
      .untag(name, () => this.#untagLocked(record, name))
      .catch((error: unknown) => ({ kind: 'kept', reason: reasonOf(error, clock) }));
  }

  async #untagLocked(record: ImageRecord<A>, name: string): Promise<Kept | undefined> {
    const { source } = this.#deck;
    const platform = record.ours.get(name);
    const meant = await this.#ask((call) => source.find(name, { ...call, platform }));
    if (meant?.id !== record.id) return undefined;
    const result = await this.#ask((call) => source.remove(name, call));
    if (result === 'in-use') return this.#kept('image-in-use', `The engine says that ${name} is in use`);
    record.ours.delete(name);
    // All names have gone with the content: whatever leads to it from now on was brought by somebody else.
    if (result === 'removed') record.ours.clear();
    return undefined;
  }

  /** Asks the source, but does not wait for one that ignores the coordinator's end. */
  async #ask<T>(question: (call: { readonly signal: AbortSignal }) => Promise<T>): Promise<T> {
    const { signal } = this.#end;
    signal.throwIfAborted();
    return abortable(question({ signal }), signal);
  }

  #left(now: A): Outcome {
    const names = now.references.length === 0 ? 'it has no name left' : `it still goes by ${now.references.join(', ')}`;
    return {
      kind: 'left',
      reason: this.#reason('not-ours', `Only what this coordinator brought is removed (removal.scope); ${names}`),
    };
  }

  #kept(code: string, message: string): Kept {
    return { kind: 'kept', reason: this.#reason(code, message) };
  }

  #reason(code: string, message: string): Reason {
    return { code, message, at: this.#deck.clock.wall() };
  }
}

/** What can be helped by time comes before what only has to wait for a pull. */
function worst(outcomes: readonly (Kept | undefined)[]): Kept | undefined {
  const problems = outcomes.filter((outcome) => outcome !== undefined);
  return problems.find(({ after }) => after === undefined) ?? problems[0];
}
