import type { Call, Effective, Opt } from '../call.js';
import type { Clock } from '../clock.js';
import { type Env, resolveEnv } from '../env.js';
import { Emitter, type On } from '../events.js';
import { checkCall } from '../internal/check-call.js';
import { HeapTimer } from '../internal/heap-timer.js';
import type { StateStore } from '../store/store.js';
import { Acquirer, type Deadline } from './acquirer.js';
import { Logins } from './auth.js';
import { collect } from './collect.js';
import { Durable } from './durable.js';
import { FlightBoard } from './flight-board.js';
import { flightDeck, type FlightParts } from './flights.js';
import { Gates } from './gates.js';
import type { Hold, Lease } from './lease.js';
import { Local } from './local.js';
import { Looks } from './looks.js';
import { nameOf } from './name-of.js';
import {
  type AcquireSettings,
  checkIsLive,
  type ImageSettings,
  parseAcquireOptions,
  parseCollectOptions,
  parseCoordinatorOptions,
  parseHeld,
  parsePrefetchOptions,
  parseText,
} from './options.js';
import { closedError } from './pull-failure.js';
import { Removals } from './removals.js';
import { Retainer } from './retainer.js';
import type { Request } from './request.js';
import { Requests } from './requests.js';
import { Shelf } from './shelf.js';
import { explain, snapshot } from './status.js';
import type {
  AcquireOptions,
  Artifact,
  ArtifactSource,
  Collected,
  AuthProvider,
  ImageLease,
  ImageStatus,
  PrefetchLease,
  PrefetchOptions,
  PullOptions,
  RemovalOptions,
  RetentionOptions,
} from './types.js';
import { verify } from './verify.js';

/**
 * Brings content that tasks run from, once for all who ask, and removes it when nobody has held it for a while.
 *
 * Content is counted by its id, whatever names it goes by. While a lease is held its content is not removed; after the
 * last release it stays for `removal.delay`, and then only those names are taken away that this coordinator brought.
 */
export class ImageCoordinator<A extends Artifact = Artifact> implements AsyncDisposable {
  /** The options in effect, durations in milliseconds. */
  readonly options: {
    readonly removal: Effective<RemovalOptions>;
    readonly retention: Effective<RetentionOptions>;
    readonly pull: Effective<PullOptions>;
  };
  /** Subscribes to one kind of event. */
  readonly on: On<'image'>;
  readonly #settings: ImageSettings;
  readonly #source: ArtifactSource<A>;
  readonly #clock: Clock;
  readonly #emitter: Emitter<'image'>;
  readonly #closing = new AbortController();
  readonly #board = new FlightBoard<A>();
  readonly #looks = new Looks<A>();
  readonly #local: Local<A>;
  readonly #gates: Gates;
  readonly #logins: Logins;
  readonly #requests: Requests<A>;
  readonly #shelf: Shelf<A>;
  readonly #removals: Removals<A>;
  /** The ends of prefetch leases. */
  readonly #terms: HeapTimer;
  readonly #acquirer: Acquirer<A>;
  readonly #durable: Durable<A> | undefined;
  #closed: Promise<void> | undefined;

  /**
   * @param o.source - where content comes from and is kept; one coordinator for each engine or folder
   * @param o.auth - gives the credentials of registries. Default: none, everything is fetched anonymously
   * @param o.removal - what happens to content that nobody holds
   * @param o.retention - what of it stays longer, or less long
   * @param o.pull - how content is fetched
   * @param env - uses `clock`, `onEvent` and `store`
   * @throws HandoverError `ERR_INVALID_OPTION` naming the option
   */
  constructor(
    o: { readonly source: ArtifactSource<A> } & Opt<{
      auth: AuthProvider;
      removal: RemovalOptions;
      retention: RetentionOptions;
      pull: PullOptions;
    }>,
    env: Env = {},
  ) {
    const { source, auth, ...settings } = parseCoordinatorOptions<A>(o);
    const ground = resolveEnv(env);
    this.#settings = settings;
    this.options = { removal: settings.removal, retention: settings.retention, pull: settings.pull };
    this.#source = source;
    this.#local = new Local(source, this.#closing.signal);
    const clock = (this.#clock = ground.clock);
    const emitter = (this.#emitter = new Emitter<'image'>(ground));
    this.on = emitter.on;
    this.#gates = new Gates(clock);
    const logins = (this.#logins = new Logins(clock));
    this.#requests = new Requests<A>({ source, settings, auth, logins });
    const retainer = new Retainer<A>({ ...settings.retention, delay: settings.removal.delay }, (one) =>
      nameOf(source, one),
    );
    const durable = (this.#durable = ground.store === undefined ? undefined : this.#durableState(ground.store));
    this.#removals = new Removals<A>({
      clock,
      durable,
      source,
      emitter,
      looks: this.#looks,
      settings: settings.removal,
      retainer,
      records: () => this.#shelf.records,
      flightOf: (reference) => this.#board.of(reference)[0]?.ended,
    });
    this.#terms = new HeapTimer(clock);
    this.#shelf = new Shelf<A>({
      clock,
      source,
      emitter,
      note: durable?.note,
      untold: durable?.untold,
      terms: {
        clock,
        timers: this.#terms,
        closing: this.#closing.signal,
        renewed: (lease) => this.#shelf.renewed(lease),
      },
      keeper: { release: (lease) => this.#release(lease), verify: (lease, call) => this.#verify(lease, call) },
      onIdle: (record) => this.#removals.plan(record),
      onRank: retainer.ranks ? (record) => this.#removals.rankMoved(record) : undefined,
    });
    this.#acquirer = new Acquirer<A>({
      ...this.#statusDeck(),
      looks: this.#looks,
      flights: flightDeck(this.#flightParts()),
    });
  }

  /**
   * Makes sure that content is there, fetching it if need be, and holds it for `owner`.
   *
   * Callers who want the same content at the same time share one pull; one of them leaving does not disturb the others.
   *
   * @param reference - what to acquire, in the grammar of the source
   * @param o.owner - who holds the lease
   * @returns the lease; content is not removed before the last lease of it is released
   * @throws HandoverError `ERR_INVALID_OPTION`, `ERR_INVALID_REFERENCE` before any call; `ERR_PULL_FAILED` with the
   *   class of the failure, and `retryAt` while the same pull is not tried again after it failed; `ERR_IMAGE_ABSENT`
   *   when it is not there and may not be fetched; `ERR_CLOSED`; and the reason of `o.signal` when that aborts
   */
  acquire(reference: string, o: AcquireOptions): Promise<ImageLease<A>> {
    return this.#lease(reference, o, parseAcquireOptions);
  }

  /**
   * Acquires content that will be needed: after all who need theirs now (priority `prefetch`, until one of those wants the
   * same), and for so long only. The lease ends `ttl` after it was given, like a release; it does not ask whether its
   * owner lives. Once its owner acquires the same content, that lease takes its place.
   *
   * @param o.ttl - how long the lease holds; {@link PrefetchLease.renew} gives it more
   * @throws as {@link ImageCoordinator.acquire}
   */
  prefetch(reference: string, o: PrefetchOptions): Promise<PrefetchLease<A>> {
    // What has a ttl gets a lease that ends by itself.
    return this.#lease(reference, o, parsePrefetchOptions) as Promise<PrefetchLease<A>>;
  }

  async #lease<O>(reference: string, o: O, parse: (o: O) => AcquireSettings): Promise<ImageLease<A>> {
    const asked = parse(o);
    this.#closing.signal.throwIfAborted();
    const request = this.#requests.of(reference, asked);
    asked.signal?.throwIfAborted();
    if (asked.timeout === Infinity) return this.#stored(request, asked.signal);
    return this.#acquirer.inTime(request, asked, async (signal, deadline) => this.#stored(request, signal, deadline));
  }

  #stored(
    request: Request,
    signal: AbortSignal | undefined,
    deadline?: Deadline,
  ): ImageLease<A> | Promise<ImageLease<A>> {
    if (this.#durable === undefined) return this.#take(request, signal, deadline);
    return this.#durable.lease(() => this.#take(request, signal, deadline), signal);
  }

  /**
   * Takes a lease of content that is known to have been held, by its id: after a restart, say. Never fetches anything,
   * and never makes it ours to remove.
   *
   * @param held.reference - shown in the lease, and used to bring the content back if it is lost
   * @param held.imageId - a name is refused: it may mean other content by now
   * @returns `undefined` when the content is gone
   * @throws HandoverError `ERR_INVALID_OPTION`, `ERR_INVALID_REFERENCE`, `ERR_CLOSED`; `ERR_PULL_FAILED`
   *   (`engine-unavailable`) when the source cannot be asked
   */
  async adopt(
    held: { readonly owner: string; readonly reference: string; readonly imageId: string },
    call: Call = {},
  ): Promise<ImageLease<A> | undefined> {
    const { owner, reference, imageId } = parseHeld(this.#source, held);
    this.#closing.signal.throwIfAborted();
    const { key } = this.#source.normalise(reference);
    checkCall(call);
    const { signal } = call;
    const adopt = (): Promise<ImageLease<A> | undefined> =>
      this.#looks.settle(
        key,
        () => this.#local.look(this.#shelf.idNow(imageId), undefined),
        ({ artifact }) => this.#shelf.adopt(artifact, { owner, reference, key }),
        signal,
      );
    return this.#durable === undefined ? adopt() : this.#durable.lease(adopt, signal);
  }

  /**
   * Brings what the store knows together with what is there, after a start: leases of earlier processes whose owner is
   * not alive any more are released, what those had pulled is known as ours, and delays go on where they stood. With a
   * store nothing is removed before this has succeeded once; without one there is nothing to do. May be called again at
   * any time, to let go of earlier processes' leases of owners that have ended since; leases of this process are never
   * touched.
   *
   * @param isLive - answers at once whether an owner is still there, and will take its leases over by `adopt()` or `acquire()`, or
   *   release them; prefetched content lives by its `ttl` instead
   * @returns the owners whose leases were released, and everything that is known now
   * @throws HandoverError `ERR_INVALID_OPTION`; `ERR_STORE_CORRUPT` naming a key that cannot be read; `ERR_DRIVER` when
   *   the store or the source fails, `ERR_PULL_FAILED` (`engine-unavailable`) likewise; `ERR_CLOSED`; what `isLive`
   *   throws; the reason of `call.signal`. Nothing was changed then, and it may be called again
   */
  async recover(
    isLive: (owner: string) => boolean,
    call: Call = {},
  ): Promise<{ readonly released: readonly string[]; readonly images: readonly ImageStatus[] }> {
    checkIsLive(isLive);
    checkCall(call);
    const { signal } = call;
    this.#closing.signal.throwIfAborted();
    signal?.throwIfAborted();
    const released = (await this.#durable?.recover(isLive, signal)) ?? [];
    return { released, images: this.snapshot() };
  }

  /**
   * Drops all leases of an owner; no lease object needed. What it still waits for is not among them: that is ended by its
   * signal. Like {@link ImageLease.release} it resolves when that is stored, or after 30 s if the store does not answer.
   *
   * @throws HandoverError `ERR_INVALID_OPTION` for an owner that is not text; `ERR_STORE_CORRUPT`, `ERR_DRIVER` when it
   *   cannot be read what it held in an earlier process: what it held in this one is let go all the same
   */
  async release(owner: string): Promise<void> {
    parseText(owner, 'owner');
    if (this.#durable === undefined) this.#shelf.releaseOwner(owner);
    else await this.#durable.release(owner);
  }

  /**
   * Removes now what nobody holds and `retention` does not keep, whatever is left of its delay: for who cannot wait, such
   * as a program that is about to end. Removals that are under way are waited for; one that fails does not stop the
   * others. With the scope `any`, content that was not known until now is on record from now on, and may go too.
   *
   * @param o.dryRun - touch nothing, only say what would go. Default `false`
   * @param o.signal - ends the wait; what was removed stays removed
   * @throws HandoverError `ERR_INVALID_OPTION`; `ERR_CLOSED`; what the source threw when it was asked for all that is
   *   present (only with the scope `any`); the reason of `o.signal`
   */
  async collect(o: Call & Opt<{ dryRun: boolean }> = {}): Promise<Collected> {
    const call = parseCollectOptions(o);
    if (this.#durable !== undefined) await this.#durable.load(call.signal);
    return collect<A>(
      {
        clock: this.#clock,
        source: this.#source,
        settings: this.#settings.removal,
        shelf: this.#shelf,
        removals: this.#removals,
        closing: this.#closing.signal,
      },
      call,
    );
  }

  /**
   * Everything that is held, idle or being pulled now, with reasons. With a store, what that knows is shown from the first
   * `recover()`, `acquire()` or `collect()` on.
   */
  snapshot(): readonly ImageStatus[] {
    return snapshot(this.#statusDeck());
  }

  /**
   * Why a reference or an id is here, or not: who holds it, since when, when it goes, why it has not gone. With a store,
   * what that knows is shown from the first `recover()`, `acquire()` or `collect()` on.
   *
   * @throws HandoverError `ERR_INVALID_OPTION` for what is not text, `ERR_INVALID_REFERENCE`
   */
  explain(reference: string): ImageStatus {
    const status = this.#shelf.get(parseText(reference, 'reference'))?.status();
    return status ?? explain(this.#statusDeck(), this.#source.normalise(reference));
  }

  /**
   * Ends the wait after failed pulls of a reference: the next attempt comes at once.
   *
   * @throws HandoverError `ERR_INVALID_OPTION` for what is not text, `ERR_INVALID_REFERENCE`
   */
  retryNow(reference: string): void {
    const { key } = this.#source.normalise(parseText(reference, 'reference'));
    this.#gates.retryNow(key);
    for (const flight of this.#board.of(key)) flight.retryNow();
  }

  /**
   * Ends the coordinator: what is pending is called off and rejects with `ERR_CLOSED`, nothing is removed before its
   * time; removals that are due already end first. Resolves when the work that was under way has ended (at most
   * `pull.abortGrace` later). Leases that are held stay valid objects whose release does nothing. Idempotent.
   */
  close(): Promise<void> {
    this.#closed ??= this.#shutDown();
    return this.#closed;
  }

  /** Same as {@link ImageCoordinator.close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #shutDown(): Promise<void> {
    this.#closing.abort(closedError());
    this.#terms.clear();
    const flights = this.#board.all;
    for (const flight of flights) flight.close();
    await Promise.all([this.#removals.close(this.#settings.pull.abortGrace), ...flights.map((flight) => flight.ended)]);
    await this.#durable?.close(this.#settings.pull.abortGrace);
    this.#shelf.clear();
    this.#gates.clearAll();
  }

  #take(
    request: Request,
    signal: AbortSignal | undefined,
    deadline: Deadline | undefined,
  ): ImageLease<A> | Promise<ImageLease<A>> {
    // What a digest names cannot have moved, and what is held has not been removed: nothing to ask the source.
    const held = request.name.floating ? undefined : this.#shelf.held(request.key);
    return held === undefined ? this.#acquirer.acquire(request, signal, deadline) : this.#shelf.grant(held, request);
  }

  #durableState(store: StateStore): Durable<A> {
    return new Durable<A>({
      clock: this.#clock,
      store,
      source: this.#source,
      local: this.#local,
      shelf: () => this.#shelf,
      closing: this.#closing.signal,
      recovered: () => {
        for (const record of this.#shelf.records) if (record.state === 'idle') this.#removals.plan(record);
      },
      warn: (subject, code, message) => this.#emitter.warn(subject, { code, message }),
    });
  }

  #flightParts(): FlightParts<A> {
    return {
      ...this.#statusDeck(),
      source: this.#source,
      local: this.#local,
      looks: this.#looks,
      logins: this.#logins,
      intents: this.#durable?.intents,
      emitter: this.#emitter,
      pull: this.#settings.pull,
      closing: this.#closing.signal,
      // Whatever came in the way: the pull is tried again and tells best what is the matter.
      makeRoom: () => this.collect(),
    };
  }

  #release(lease: Hold): Promise<void> | undefined {
    this.#shelf.release(lease);
    return this.#durable?.written();
  }

  async #verify(lease: Lease<A>, call: Call): Promise<void> {
    this.#closing.signal.throwIfAborted();
    const acquire = (reference: string, o: AcquireSettings): Promise<ImageLease<A>> =>
      this.#lease(reference, o, (asked) => asked);
    await verify<A>({ source: this.#source, local: this.#local, shelf: this.#shelf, acquire }, lease, call);
  }

  #statusDeck() {
    return { clock: this.#clock, shelf: this.#shelf, board: this.#board, gates: this.#gates };
  }
}
