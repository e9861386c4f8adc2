import type { Call, ImageCoordinator, ImageLease, PrefetchLease, RetentionOptions } from 'handover';
import type { FakeClock } from 'handover/testing';
import { pullError, ScriptedSource, type Step } from '../image/scripted-source.js';
import { RetentionWatch } from './retention-watch.js';

/** How one call of the source behaves. */
export interface Behaviour {
  /** ms until it takes effect. */
  readonly latency: number;
  /** `lie`: ends well without having done anything. `late-fail`: does it, then fails. `deaf`: ignores its abort. */
  readonly kind: 'ok' | 'fail' | 'fatal' | 'lie' | 'late-fail' | 'deaf';
}

const GRACE = 5_000;

/**
 * A scripted engine that watches over what the coordinator does to it. Each rule that is broken goes to `broken`; the
 * test fails with the list.
 */
export class ImageWorld {
  readonly source = new ScriptedSource();
  readonly broken: string[] = [];
  readonly leases = new Set<ImageLease>();
  /** Who gave a name its present meaning; `unclear` when both were at it at once. */
  readonly #namedBy = new Map<string, 'us' | 'stranger' | 'unclear'>();
  /** Content that is gone, by whom. */
  readonly #goneBy = new Map<string, 'us' | 'stranger'>();
  readonly #fetching = new Map<string, { abortedAt: number | undefined }[]>();
  /** What a name meant when the call to take it away was made, and after how many leases that was. */
  readonly #untagging = new Map<string, { readonly id: string | undefined; readonly leases: number }>();
  /**
   * Names that went by a call of ours which did not say so: a digest along with its tag, or the call failed. Until the
   * coordinator has looked again it cannot know that a stranger brought them back.
   */
  readonly #wentUnsaid = new Set<string>();
  /** Leases in the order in which they were given. */
  readonly #given: ImageLease[] = [];
  readonly #behaviours: readonly Behaviour[];
  readonly #clock: FakeClock;
  readonly #retention: RetentionWatch;
  #next = 0;
  /** Unset once it closes: a call that it had to leave behind is nobody's fault any more. */
  images: ImageCoordinator | undefined;

  constructor(clock: FakeClock, behaviours: readonly Behaviour[], retention: RetentionOptions) {
    this.#retention = new RetentionWatch(this, clock, retention);
    this.#clock = clock;
    this.#behaviours = behaviours;
    this.#guardFetch();
    this.#guardRemove();
    this.source.before = (step) => this.#delay(step);
    this.#watchLooks();
  }

  /** A stranger gives a name to content. */
  strangerPuts(name: string, id: string): void {
    const before = new Map(this.source.names);
    this.source.put(name, id);
    for (const [touched, target] of this.source.names) {
      if (before.get(touched) === target) continue;
      const shared =
        (this.#named(touched) ?? 'stranger') !== 'stranger' ||
        this.#pulling(name) ||
        this.#pulling(touched) ||
        this.#unsaid(touched, target);
      this.#namedBy.set(touched, shared ? 'unclear' : 'stranger');
    }
    this.#goneBy.delete(id);
  }

  #unsaid(name: string, id: string): boolean {
    return this.#wentUnsaid.has(name) && this.images?.explain(id).state !== 'absent';
  }

  /** A stranger deletes content, by force if need be. */
  strangerWipes(id: string): void {
    if (this.source.artifact(id) === undefined) return;
    for (const [name, target] of this.source.names) if (target === id) this.#namedBy.set(name, 'unclear');
    this.source.wipe(id);
    this.#goneBy.set(id, 'stranger');
    this.#retention.wiped();
  }

  /** A lease was given. */
  took(lease: ImageLease): void {
    const claimed = [...this.leases].filter((other) => other.owner === lease.owner && other.imageId === lease.imageId);
    if (!('renew' in lease)) for (const other of claimed) if ('renew' in other) this.leases.delete(other);
    this.leases.add(lease);
    this.#given.push(lease);
    this.#retention.used(lease.imageId, this.#endOf(lease));
    if (this.source.artifact(lease.imageId) === undefined && this.#goneBy.get(lease.imageId) !== 'stranger') {
      this.broken.push(`a lease on ${lease.imageId}, which we deleted`);
    }
  }

  /** A lease was let go. */
  letGo(lease: ImageLease): void {
    if (this.leases.delete(lease) && !this.#ended(lease)) this.#retention.used(lease.imageId);
  }

  /** The lease is renewed, or says that it has ended. */
  renewed(lease: PrefetchLease, renew: () => void): void {
    const ended = this.#ended(lease);
    try {
      renew();
      this.#retention.used(lease.imageId, this.#endOf(lease));
      if (ended) this.broken.push(`a lease on ${lease.imageId} was renewed after its end`);
    } catch (error) {
      if (!ended && !this.#claimed(lease)) {
        this.broken.push(`a lease on ${lease.imageId} was not renewed: ${String(error)}`);
      }
    }
  }

  /** Its owner holds the content in earnest: that may have taken the lease's place, and its acquire is told only later. */
  #claimed({ imageId, owner }: ImageLease): boolean {
    const holder = this.images?.explain(imageId).holders.find((one) => one.owner === owner);
    return holder !== undefined && holder.until === undefined;
  }

  #ended(lease: ImageLease): boolean {
    return 'renew' in lease && this.#endOf(lease) <= this.#clock.now();
  }

  /** When a lease ends by itself, in the clock's `now()`. */
  #endOf(lease: ImageLease): number {
    if (!('renew' in lease)) return 0;
    // Wall times are too big for fractions of a millisecond.
    return (lease as PrefetchLease).expiresAt - this.#clock.wall() + this.#clock.now() - 0.01;
  }

  #named(name: string): 'us' | 'stranger' | 'unclear' | undefined {
    return this.#namedBy.get(name);
  }

  #pulling(name: string): boolean {
    return this.images?.explain(name).progress !== undefined;
  }

  #guardFetch(): void {
    const fetch = this.source.fetch.bind(this.source);
    this.source.fetch = async (name, call) => {
      const others = this.#fetching.get(name) ?? [];
      const overlap = others.filter(({ abortedAt }) => this.#clock.now() < (abortedAt ?? Infinity) + GRACE);
      if (overlap.length > 0) this.broken.push(`two fetches of ${name} at once`);
      const mine: { abortedAt: number | undefined } = { abortedAt: undefined };
      const note = (): void => void (mine.abortedAt = this.#clock.now());
      call.signal?.addEventListener('abort', note);
      this.#fetching.set(name, [...others, mine]);
      const before = new Map(this.source.names);
      try {
        await fetch(name, call);
      } finally {
        call.signal?.removeEventListener('abort', note);
        this.#fetching.set(
          name,
          (this.#fetching.get(name) ?? []).filter((other) => other !== mine),
        );
        this.#retention.fetched(this.source.names.get(name) ?? '');
        for (const [touched, target] of this.source.names) {
          if (before.get(touched) === target && !this.#leftover(touched, name)) continue;
          if (this.#named(touched) === undefined) this.#namedBy.set(touched, 'us');
          else if (this.#named(touched) === 'stranger') this.#namedBy.set(touched, 'unclear');
        }
      }
    };
  }

  /** A digest that a stranger's tag left behind, and that our fetch brings once more: nobody can tell whose it is. */
  #leftover(digest: string, fetched: string): boolean {
    const id = this.source.names.get(fetched);
    const tags = [...this.source.names].filter(([name, target]) => target === id && name.startsWith('app:'));
    return digest.includes('@') && this.source.names.get(digest) === id && tags.every(([name]) => name === fetched);
  }

  #watchLooks(): void {
    const find = this.source.find.bind(this.source);
    this.source.find = async (name, call) => {
      const found = await find(name, call);
      if (found !== undefined) this.#retention.saw(found, { byId: name === found.id });
      return found;
    };
  }

  #guardRemove(): void {
    const remove = this.source.remove.bind(this.source);
    this.source.remove = (name, call) => {
      const wanted = this.source.names.get(name);
      if (wanted !== undefined && this.images !== undefined) this.#retention.judge(wanted, this.images.snapshot());
      this.#untagging.set(name, { id: this.source.names.get(name), leases: this.#given.length });
      return remove(name, call);
    };
    const drop = this.source.drop.bind(this.source);
    this.source.drop = (name) => {
      const id = this.source.names.get(name);
      const called = this.#untagging.get(name);
      if (id !== undefined && called !== undefined && this.images !== undefined) {
        if (called.id === id) this.#judge(name, id, this.images);
        // A stranger has moved the name since. That cannot be helped, but nobody may have been given it meanwhile.
        else if (this.#given.slice(called.leases).some((lease) => lease.reference === name && lease.imageId === id)) {
          this.broken.push(`a lease on ${id} by ${name} while that was being taken away`);
        }
      }
      const before = new Map(this.source.names);
      drop(name);
      for (const gone of before.keys()) {
        if (this.source.names.has(gone)) continue;
        this.#namedBy.delete(gone);
        if (gone !== name && id !== undefined && this.source.artifact(id) !== undefined) this.#wentUnsaid.add(gone);
      }
      const moved = called?.id !== id;
      if (id !== undefined && this.source.artifact(id) === undefined) this.#goneBy.set(id, moved ? 'stranger' : 'us');
    };
  }

  #judge(name: string, id: string, images: ImageCoordinator): void {
    if ([...this.leases].some((lease) => lease.imageId === id && !this.#ended(lease)))
      this.broken.push(`${name} taken from held ${id}`);
    if (this.#named(name) === 'stranger') this.broken.push(`${name} was a stranger's`);
    if (images.explain(id).state !== 'removing') this.broken.push(`${name} taken away outside a removal of ${id}`);
    if ((this.source.usersOf.get(id) ?? []).length > 0) this.broken.push(`${id} was in use`);
  }

  async #delay(step: Step): Promise<void> {
    const { latency, kind } = this.#behaviours[this.#next++ % this.#behaviours.length]!;
    await this.#wait(latency, kind === 'deaf' ? {} : step.call);
    const fetching = step.line.startsWith('fetch');
    const name = step.line.split(' ')[1]!;
    if (kind === 'fail') throw fetching ? pullError(name, 'registry-unavailable', true) : new Error('HTTP 500');
    if (kind === 'fatal' && fetching) throw pullError(name, 'unauthorized', false);
    if (kind === 'late-fail' && fetching) {
      const id = this.source.registry.get(name);
      if (id !== undefined) this.source.put(name, id);
      throw new Error('socket closed');
    }
    if (kind === 'late-fail' && step.line.startsWith('remove')) {
      const before = [...this.source.names.keys()];
      if (this.source.usersOf.get(this.source.names.get(name) ?? '') === undefined) this.source.drop(name);
      for (const gone of before) if (!this.source.names.has(gone)) this.#wentUnsaid.add(gone);
      throw new Error('socket closed');
    }
    if (kind === 'lie' && fetching) {
      const id = this.source.registry.get(name);
      if (id !== undefined) throw pullError(name, 'corrupt-stream', true);
    }
  }

  #wait(ms: number, { signal }: Call): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        cancel();
        reject(signal?.reason as Error);
      };
      const cancel = this.#clock.timer(ms, () => {
        signal?.removeEventListener('abort', stop);
        resolve();
      });
      if (signal?.aborted === true) stop();
      else signal?.addEventListener('abort', stop, { once: true });
    });
  }
}
