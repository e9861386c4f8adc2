import PQueue from 'p-queue';
import type { Effective } from '../call.js';
import type { Clock } from '../clock.js';
import type { Reason } from '../env.js';
import type { Emitter } from '../events.js';
import { backoff } from '../internal/backoff.js';
import { HeapTimer } from '../internal/heap-timer.js';
import { abortable } from '../internal/signals.js';
import type { Durable } from './durable.js';
import type { Looks } from './looks.js';
import { closedError, reasonOf } from './pull-failure.js';
import type { ImageRecord } from './record.js';
import { type Outcome, Remover, type Stays } from './remover.js';
import type { Retainer } from './retainer.js';
import type { Artifact, ArtifactSource, RemovalOptions } from './types.js';

/** How long content that could not be removed is left alone, more each time (IC-17). */
const RETRY = { first: 10_000, max: 5 * 60_000, jitter: 'none' } as const;
/** Removals at once; when many images fall due together the engine still has other work to do. */
const CONCURRENCY = 4;
/** What to say of content that stays because an option says so, not because of what its last removal met. */
const BY_OPTION = {
  'not-recovered': 'It is not known yet who holds what since the last process ended: call recover()',
  'removal-disabled': 'Removal is switched off (removal.enabled or removal.delay)',
  pinned: 'It is pinned (retention.pin)',
  'keep-last': 'It is among those of its repository that were used last (retention.keepLast)',
} as const;

/** What became, or would become, of one piece of content: it is gone, or why it is still here. */
export type Answer = 'gone' | Reason;

/** What the options say of one piece of content: until when it stays, in the clock's `now()`, and why. */
interface Verdict {
  readonly until: number;
  readonly why: keyof typeof BY_OPTION | undefined;
}

/** What removals need of the coordinator. */
export interface RemovalDeck<A extends Artifact> {
  readonly clock: Clock;
  readonly source: ArtifactSource<A>;
  readonly settings: Effective<RemovalOptions>;
  readonly retainer: Retainer<A>;
  readonly emitter: Emitter<'image'>;
  readonly looks: Looks<A>;
  /** Everything that is known. */
  readonly records: () => readonly ImageRecord<A>[];
  /** What outlives the process, if there is a store. */
  readonly durable: Pick<Durable<A>, 'recovered' | 'stored'> | undefined;
  /** The end of the flights of a reference that are in the air, if any. */
  readonly flightOf: (reference: string) => Promise<void> | undefined;
}

/** Removes content that nobody holds: when its time has come, or when asked. */
export class Removals<A extends Artifact> {
  /** How one piece of content is removed. */
  readonly remover: Remover<A>;
  readonly #deck: RemovalDeck<A>;
  readonly #timers: HeapTimer;
  readonly #queue = new PQueue({ concurrency: CONCURRENCY });
  /** Aborts when the coordinator has closed: nothing is asked of the source any more. */
  readonly #end = new AbortController();
  #closed = false;

  constructor(deck: RemovalDeck<A>) {
    this.#deck = deck;
    this.#timers = new HeapTimer(deck.clock);
    const { scope } = deck.settings;
    this.remover = new Remover({ ...deck, scope, end: this.#end.signal, stays: (record) => this.#stays(record) });
  }

  /** Nobody holds the content any more, or what keeps it has changed: how long it has from now on (IC-15, IC-18). */
  plan(record: ImageRecord<A>): void {
    // What is left is the next coordinator's (IC-23).
    if (this.#closed) return;
    record.cancelRemoval();
    const { until, why } = this.#verdict(record);
    if (why !== undefined || isByOption(record.kept)) record.kept = why && this.#reason(why);
    record.removeAt = undefined;
    const ms = Math.max(until, record.notBefore) - this.#deck.clock.now();
    if (ms !== Infinity) this.#schedule(record, Math.max(0, ms));
  }

  /** A record has come to another place among its kin: what that changes for idle ones is planned anew. */
  rankMoved(record: ImageRecord<A>): void {
    const { retainer, records, emitter } = this.#deck;
    for (const kin of retainer.kin(record, records())) {
      const why = isByOption(kin.kept) ? kin.kept?.code : undefined;
      if (kin.state !== 'idle' || this.#verdict(kin).why === why) continue;
      this.plan(kin);
      emitter.emit('image:changed', { image: kin.status() });
    }
  }

  /**
   * Why content is not to go now, even if nobody waits for the end of its delay.
   *
   * @param all - everything that is known
   */
  keeps(record: ImageRecord<A>, all = this.#deck.records()): Reason | undefined {
    if (record.state === 'held') return this.#held(record);
    return record.state === 'idle' ? this.#stays(record, all) : undefined;
  }

  /**
   * Removes the content at once, whatever is left of its delay, unless something keeps it; a removal that is under way
   * is waited for.
   *
   * @param isOff - looked at when its turn has come
   */
  async now(record: ImageRecord<A>, isOff: () => boolean): Promise<Answer> {
    return this.#queue.add(() => this.#run(record, isOff));
  }

  /** What {@link Removals.now} would answer, as far as can be told without touching anything. */
  async foresee(record: ImageRecord<A>): Promise<Answer> {
    const { clock } = this.#deck;
    const outcome = await this.remover.foresee(record).catch((error: unknown) => ({ reason: reasonOf(error, clock) }));
    return outcome.reason ?? 'gone';
  }

  /**
   * Looks whether idle content is not there any more, and by which names it goes; not to know means that it is. Before
   * `recover()` it is not asked: who holds what is not known either (IC-21).
   */
  async isGone(record: ImageRecord<A>): Promise<boolean> {
    if (record.state !== 'idle' || this.#deck.durable?.recovered === false) return false;
    const seen = await this.remover.find(record).catch(() => record);
    if (seen !== undefined) record.references = seen.references;
    return seen === undefined;
  }

  /** Takes off the record what is idle and was deleted by somebody: it must hold no place among the last used. */
  async dropGone(records: readonly ImageRecord<A>[]): Promise<void> {
    for (const record of records) {
      if (!(await this.isGone(record))) continue;
      await this.#deck.looks.removal(record.id, async () => {
        if (!(await this.isGone(record)) || !record.send('delayElapsed')) return;
        record.cancelRemoval();
        this.#settle(record, { kind: 'gone' });
      });
    }
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
      this.#end.abort(closedError());
    }
  }

  #stays(record: ImageRecord<A>, all = this.#deck.records()): Reason | undefined {
    const { enabled, delay } = this.#deck.settings;
    const { why } = this.#verdict(record, all);
    // A delay that never ends is no reason for who does not wait for it.
    if (enabled && delay === Infinity && why === 'removal-disabled') return undefined;
    return why && this.#reason(why);
  }

  #verdict(record: ImageRecord<A>, all = this.#deck.records()): Verdict {
    const { settings, retainer } = this.#deck;
    if (!settings.enabled) return { until: Infinity, why: 'removal-disabled' };
    if (this.#deck.durable?.recovered === false) return { until: Infinity, why: 'not-recovered' };
    const { until, keeps } = retainer.standing(record, all);
    // Once its time is over nothing keeps it but what is in the way of its removal.
    if (until <= this.#deck.clock.now()) return { until, why: undefined };
    return { until, why: keeps ?? (until === Infinity ? 'removal-disabled' : undefined) };
  }

  #schedule(record: ImageRecord<A>, ms: number): void {
    // A removal that already waits in line must not run once the content was taken again, nor after the next release.
    let cancelled = false;
    const start = (): void => void this.now(record, () => cancelled);
    const cancelTimer = ms === 0 ? undefined : this.#timers.add(ms, start);
    record.removeAt = this.#deck.clock.wall() + ms;
    record.cancelRemoval = () => {
      cancelled = true;
      cancelTimer?.();
    };
    if (cancelTimer === undefined) start();
  }

  /** Planned anew once a pull has ended that is in the way. */
  #planAfter(record: ImageRecord<A>, pull: Promise<void>): void {
    let cancelled = false;
    record.cancelRemoval = () => (cancelled = true);
    void pull.then(() => {
      if (!cancelled) this.plan(record);
    });
  }

  async #run(record: ImageRecord<A>, isOff: () => boolean): Promise<Answer> {
    // The step in which it fell due ends first: it may take the content again.
    await Promise.resolve();
    const { looks, retainer, records } = this.#deck;
    if (retainer.ranks && !isOff()) {
      await this.dropGone(retainer.kin(record, records()).filter((kin) => this.#stays(kin) !== undefined));
    }
    return looks.removal(record.id, async () => {
      if (record.state === 'absent') return record.kept ?? 'gone';
      // Whoever has called it off does not ask for the answer.
      if (record.state === 'held' || this.#end.signal.aborted || isOff()) return this.#held(record);
      record.cancelRemoval();
      record.send('delayElapsed');
      return this.#remove(record);
    });
  }

  /** Nothing is deleted on the strength of what the store does not know yet (IC-21). */
  async #delete(record: ImageRecord<A>): Promise<Outcome> {
    const stored = this.#deck.durable?.stored();
    if (stored !== undefined) await abortable(stored, this.#end.signal);
    return this.remover.remove(record);
  }

  async #remove(record: ImageRecord<A>): Promise<Answer> {
    const { clock } = this.#deck;
    const outcome = await this.#delete(record).catch((error: unknown): Outcome => ({
      kind: 'kept',
      reason: reasonOf(error, clock),
    }));
    if (!this.#end.signal.aborted) this.#settle(record, outcome);
    return outcome.kind === 'gone' ? 'gone' : outcome.reason;
  }

  #settle(record: ImageRecord<A>, outcome: Outcome): void {
    record.removeAt = undefined;
    if (outcome.kind === 'gone') {
      record.kept = undefined;
      record.send('removed');
      return;
    }
    record.kept = outcome.reason;
    if (outcome.kind === 'left') record.send('forgotten');
    else {
      this.#keep(record, outcome);
      record.send('refused');
    }
    this.#deck.emitter.emit('image:kept', { imageId: record.id, reason: outcome.reason });
  }

  #keep(record: ImageRecord<A>, outcome: Stays): void {
    const { clock } = this.#deck;
    if (outcome.kind === 'kept') {
      record.refusals += 1;
      if (outcome.after !== undefined) {
        this.#planAfter(record, outcome.after);
        return;
      }
      record.notBefore = clock.now() + backoff(RETRY, record.refusals, clock);
    }
    this.plan(record);
  }

  #held({ owners }: ImageRecord<A>): Reason {
    return { code: 'held', message: `Held by ${owners.join(', ')}`, at: this.#deck.clock.wall() };
  }

  #reason(code: keyof typeof BY_OPTION): Reason {
    return { code, message: BY_OPTION[code], at: this.#deck.clock.wall() };
  }
}

function isByOption(reason: Reason | undefined): boolean {
  return reason !== undefined && Object.hasOwn(BY_OPTION, reason.code);
}
