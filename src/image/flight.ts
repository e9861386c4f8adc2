import type { HandoverError } from '../errors.js';
import { deferred } from '../internal/deferred.js';
import { Machine } from '../internal/machine.js';
import { abortable, onAbort } from '../internal/signals.js';
import type { Answer } from './auth.js';
import { authorisedFetch } from './authorised-fetch.js';
import type { FlightDeck, Landing } from './flight-deck.js';
import { withGrace } from './grace.js';
import { Pause } from './pause.js';
import { ProgressFeed } from './progress.js';
import {
  asPullError,
  asSourceError,
  closedError,
  endedEmpty,
  mayHaveLanded,
  pullFailed,
  pullReason,
  pullTimeout,
  reasonOf,
} from './pull-failure.js';
import type { Ticket } from './queue.js';
import { asksRegistry, type Request } from './request.js';
import { retryDelay } from './retry-delay.js';
import { FLIGHT_TABLE, type FlightEvent, type FlightState } from './states.js';
import type { Artifact, AuthProvider, ImageLease, NormalisedReference, Progress } from './types.js';
import { type Waiter, Waiters } from './waiters.js';

/** One pull: its place in the queue, its attempts and limits, and those who wait for it. */
export class Flight<A extends Artifact> {
  readonly key: string;
  readonly flightKey: string;
  readonly name: NormalisedReference;
  readonly platform: string | undefined;
  readonly authScope: string | undefined;
  /** Of the first caller who has one: those who share a flight share a scope. */
  auth: AuthProvider | undefined;
  /** What it said last, `anonymous` if there is none; `undefined`: nothing was fetched yet. */
  answer: Answer | undefined;
  /** Wall time of its start, ms. */
  readonly since: number;
  /** From 1. */
  attempt = 1;
  lastError: HandoverError | undefined;
  /** Nothing is present under the reference: whoever wants it has to wait for this flight. */
  absent: boolean;
  /** Somebody wants the registry asked even if something is present. */
  forced = false;
  readonly #deck: FlightDeck<A>;
  readonly #waiters: Waiters<A>;
  readonly #maxAttempts: number;
  readonly #machine: Machine<FlightState, FlightEvent>;
  readonly #feed: ProgressFeed;
  readonly #stop = new AbortController();
  readonly #ended = deferred();
  /** The look that led here is as fresh as one of our own would be. */
  #fresh: boolean;
  #priority: Request['priority'] = 'prefetch';
  #ending: 'fail' | 'abandon' | undefined;
  #ticket: Ticket | undefined;
  #pause: Pause | undefined;
  #madeRoom = false;
  /** The last attempt has fetched, and it is not known what came of it. */
  #unsettled: Landing<A>['fetched'];
  #cancelLinger: () => void = () => undefined;

  /**
   * @param o.absent - a look has just found nothing
   * @param o.maxAttempts - tries for a transient failure
   */
  constructor(deck: FlightDeck<A>, request: Request, o: { readonly absent: boolean; readonly maxAttempts: number }) {
    this.#deck = deck;
    this.key = request.key;
    this.flightKey = request.flightKey;
    this.name = request.name;
    this.platform = request.platform;
    this.authScope = request.authScope;
    this.since = deck.clock.wall();
    this.absent = this.#fresh = o.absent;
    this.#maxAttempts = o.maxAttempts;
    this.#machine = new Machine<FlightState, FlightEvent>(FLIGHT_TABLE, 'queued', (_from, to) => {
      // A landing is told by the record that it is bound to.
      if (to !== 'done') deck.changed(this);
    });
    this.#waiters = new Waiters<A>((owner, error) =>
      deck.warn(this.name.key, 'listener-threw', `onProgress of ${owner} threw: ${String(error)}`),
    );
    this.#feed = new ProgressFeed(deck.clock, (progress) => this.#tellAll(progress));
  }

  /** Whether it may be joined; one that is winding down may not (IC-4). */
  get open(): boolean {
    return this.#ending === undefined && ['queued', 'fetching', 'retrying'].includes(this.#machine.state);
  }

  /** Resolves when it is over and its work has ended. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  get owners(): readonly string[] {
    return this.#waiters.owners;
  }

  get progress(): Progress {
    const position = this.#ticket?.position();
    return { ...this.#feed.latest, ...(position === undefined ? {} : { queuePosition: position }) };
  }

  /** Waits for it: one more caller (IC-3). */
  join(request: Request, signal: AbortSignal | undefined): Promise<ImageLease<A>> {
    const waiter = this.#waiters.add(request);
    this.#cancelLinger();
    this.forced ||= asksRegistry(request);
    this.auth ??= request.auth;
    if (request.priority === 'start') {
      this.#priority = 'start';
      this.#ticket?.promote();
    }
    if (request.onProgress !== undefined) this.#waiters.tell(waiter, this.progress);
    const { promise } = waiter.lease;
    if (signal === undefined) return promise;
    return promise.finally(onAbort(signal, (reason) => this.#leave(waiter, reason)));
  }

  start(): void {
    void this.#run();
  }

  /** Ends the wait before the next attempt. */
  retryNow(): void {
    this.#pause?.end();
  }

  /** The coordinator closes: the work is aborted, the callers get the error once it has wound down. */
  close(): void {
    this.#halt('fail', closedError());
  }

  /** It has landed: takes its waiters over, for their leases. */
  complete(): readonly Waiter<A>[] {
    this.#feed.set({ ...this.#feed.latest, phase: 'done' });
    this.#feed.end();
    const waiters = this.#waiters.takeAll();
    this.#machine.send('land');
    return waiters;
  }

  async #run(): Promise<void> {
    const { clock, pull } = this.#deck;
    const timeUp = (): HandoverError => pullTimeout(this.name.key, this.attempt, pull.timeout, this.lastError);
    const cancel = clock.timer(pull.timeout, () => this.#halt('fail', timeUp()));
    try {
      // Our pull must not move a name that a removal is about to take away (IC-16).
      for (let removal; (removal = this.#deck.removalOf(this.name.key)) !== undefined;) {
        this.#fresh = false;
        await abortable(removal, this.#stop.signal);
      }
      await this.#attempts();
    } catch (error) {
      this.#fail(error);
    } finally {
      cancel();
      this.#cancelLinger();
      this.#feed.end();
      this.#ended.resolve();
    }
  }

  async #attempts(): Promise<void> {
    for (; ; this.attempt += 1) {
      try {
        await this.#attemptOnce();
        return;
      } catch (error) {
        this.#stop.signal.throwIfAborted();
        const failure = asPullError(error, this.name.key, this.attempt);
        this.lastError = failure;
        if (!this.#triesAgain(failure)) throw failure;
        await this.#waitForNext(failure);
      }
    }
  }

  async #attemptOnce(): Promise<void> {
    const inLine = (): void => this.#report({ phase: 'queued', bytes: { done: 0 } });
    const ticket = this.#deck.queue.enter(this.#priority, inLine);
    this.#ticket = ticket;
    if (ticket.position() !== undefined) inLine();
    try {
      const waited = await abortable(ticket.slot, this.#stop.signal);
      this.#machine.send('start');
      await this.#work(waited);
    } finally {
      this.#ticket = undefined;
      ticket.leave();
    }
  }

  async #work(waited: boolean): Promise<void> {
    const deck = this.#deck;
    const looked = this.#fresh && !waited;
    this.#fresh = false;
    await this.#settle();
    const before = looked ? undefined : await abortable(deck.look(this.name.key, this.platform), this.#stop.signal);
    this.absent = before?.fits !== true;
    if (!this.absent && !this.forced && (await deck.land(this, { bind: true }, this.#stop.signal))) return;
    await deck.intents?.begin(this, before, this.#stop.signal);
    const fetched = { before: before?.artifact };
    const failure = await authorisedFetch(deck, this, {
      report: (progress) => this.#report(progress),
      ignored: (end) => this.#watch(end, fetched),
      signal: this.#stop.signal,
    }).then(
      () => undefined,
      (error: unknown) => asSourceError(error, this.name.key, this.attempt),
    );
    if (failure !== undefined && !mayHaveLanded(failure)) deck.intents?.end(this);
    if (failure !== undefined && (deck.closing.aborted || !mayHaveLanded(failure))) throw failure;
    this.#unsettled = fetched;
    // Once it is to end, the look for what came may keep its place no longer than the fetch may (IC-7).
    const bounds = { clock: deck.clock, stop: this.#stop.signal, grace: deck.pull.abortGrace };
    const landing = { fetched, bind: failure === undefined };
    const found = await withGrace(bounds, (late) => deck.land(this, landing, late)).catch((error: unknown) => {
      throw failure ?? asPullError(error, this.name.key, this.attempt);
    });
    this.#unsettled = undefined;
    if (failure !== undefined) throw failure;
    if (!found) throw endedEmpty(this.name.key, this.attempt);
  }

  /** What a fetch brings that nobody waits for any more is here because of us as well (IC-7, IC-17). */
  #watch(end: Promise<void>, fetched: NonNullable<Landing<A>['fetched']>): void {
    const found = end.then(() => this.#deck.land(this, { fetched, bind: false, late: true }));
    // After a failure it would be a guess that it was ours; and that it cannot be looked for now is nobody's trouble.
    found.catch(() => undefined);
  }

  /** What an earlier attempt has brought is ours, whatever this one will find (G-8). */
  async #settle(): Promise<void> {
    if (this.#unsettled === undefined) return;
    await this.#deck.land(this, { fetched: this.#unsettled, bind: false }, this.#stop.signal);
    this.#unsettled = undefined;
  }

  /** A full disk is not tried blindly: once more, after room was made (IC-10, S18). */
  #triesAgain(failure: HandoverError): boolean {
    if (pullReason(failure) === 'no-space') return !this.#madeRoom;
    return failure.retryable && this.attempt < this.#maxAttempts && !this.#everybodyHasACopy();
  }

  async #waitForNext(failure: HandoverError): Promise<void> {
    const { clock } = this.#deck;
    const full = pullReason(failure) === 'no-space';
    const delay = retryDelay(failure, this.attempt, clock);
    const pause = (this.#pause = new Pause());
    const { bytes } = this.#feed.latest;
    const at = full ? {} : { retryAt: clock.wall() + delay };
    this.#report({ phase: 'retrying', bytes, lastError: reasonOf(failure, clock), ...at });
    this.#machine.send('retry');
    if (this.#waiters.size === 0) this.#everybodyLeft();
    try {
      this.#madeRoom ||= full;
      if (full) await pause.until(this.#deck.makeRoom(), this.#stop.signal);
      else await pause.last(clock, delay, this.#stop.signal);
      this.#machine.send('requeue');
    } finally {
      this.#pause = undefined;
    }
  }

  #fail(error: unknown): void {
    const abandoned = this.#ending === 'abandon';
    const failure = asPullError(
      this.#stop.signal.aborted ? this.#stop.signal.reason : error,
      this.name.key,
      this.attempt,
    );
    this.lastError = failure;
    const waiters = this.#waiters.takeAll();
    this.#deck.failed(this, failure, abandoned);
    this.#machine.send(abandoned ? 'abandon' : 'fail');
    for (const waiter of waiters) waiter.lease.reject(failure);
  }

  /** With nobody left but callers who take the local copy when the registry is out of reach, retrying helps nobody. */
  #everybodyHasACopy(): boolean {
    return !this.absent && this.#waiters.every(({ policy }) => policy === 'if-stale');
  }

  #leave(waiter: Waiter<A>, reason: unknown): void {
    if (!this.#waiters.reject(waiter, reason)) return;
    if (this.#waiters.size === 0) this.#everybodyLeft();
  }

  #everybodyLeft(): void {
    const { clock, pull } = this.#deck;
    const problem = 'nobody waits for it any more';
    const abandon = (): void =>
      this.#halt('abandon', pullFailed(this.name.key, 'aborted', this.attempt, { problem, retryable: true }));
    // Only bytes that are under way are worth going on for (IC-4).
    if (this.#machine.state !== 'fetching' || pull.linger === 0) abandon();
    else this.#cancelLinger = clock.timer(pull.linger, abandon);
  }

  #halt(ending: 'fail' | 'abandon', reason: HandoverError): void {
    if (!this.open) return;
    this.#ending = ending;
    this.#stop.abort(reason);
  }

  #report(progress: Omit<Progress, 'attempt'>): void {
    if (this.open) this.#feed.set({ ...progress, attempt: this.attempt });
  }

  #tellAll(latest: Progress): void {
    const progress = latest.phase === 'queued' ? this.progress : latest;
    this.#deck.progressed(this, progress);
    this.#waiters.tellAll(progress);
  }
}
