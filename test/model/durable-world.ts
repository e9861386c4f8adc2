import type { Call, ImageLease, StateStore } from 'handover';
import { memoryStore } from 'handover/testing';
import { type Life, Lives, moody, type Settings } from '../image/lives.js';
import { digestOf, pullError, type Step } from '../image/scripted-source.js';
import type { Behaviour } from './image-world.js';

/** A lease that its owner knows of and has not released, of whatever life. */
export interface Claim {
  readonly owner: string;
  readonly imageId: string;
  readonly reference: string;
  /** Of the present life. */
  lease: ImageLease | undefined;
}

/**
 * Processes that die at any write, one after another, over one engine and one store. It watches over what they do to
 * the engine: each rule that is broken goes to `broken`.
 */
export class DurableWorld {
  readonly lives: Lives;
  readonly broken: string[] = [];
  readonly claims = new Set<Claim>();
  readonly store: ReturnType<typeof moody>;
  life: Life;
  alive = true;
  /** From now on every call of the source goes well. */
  calm = false;
  readonly #behaviours: readonly Behaviour[];
  readonly #namedBy = new Map<string, 'us' | 'stranger' | 'unclear'>();
  /** References that we ever meant to pull: whoever names them after that, nobody can tell whose they are. */
  readonly #meant = new Set<string>();
  /** What a reference meant when its last intent was written. */
  readonly #meantBefore = new Map<string, unknown>();
  /** Content that a stranger deleted, last. */
  readonly #wiped = new Set<string>();
  /** What a name meant when the call to take it away was made. */
  readonly #untagging = new Map<string, string | undefined>();
  #stranger = false;
  #next = 0;

  constructor(settings: Settings, behaviours: readonly Behaviour[] = []) {
    this.#behaviours = behaviours;
    const inner = memoryStore();
    const noting: StateStore = {
      batch: async (ops) => {
        for (const op of ops) if ('put' in op) this.#note(op.value);
        await inner.batch(ops);
      },
      list: (prefix) => inner.list(prefix),
    };
    this.store = moody(noting);
    this.lives = new Lives(settings, this.store.store);
    this.#guardSource();
    this.life = this.#begin();
  }

  /** The process dies now. */
  kill(): void {
    this.life.mortal.kill();
  }

  /** After a death: the next process. */
  revive(): void {
    for (const { reference, progress } of this.life.images.snapshot()) {
      if (progress !== undefined) this.#meant.add(reference);
    }
    for (const claim of this.claims) claim.lease = undefined;
    this.life = this.#begin();
  }

  /** A lease that was given counts from the moment on when its owner has it. */
  took(lease: ImageLease | undefined, life: Life): void {
    if (lease === undefined || life !== this.life) return;
    const { owner, imageId, reference } = lease;
    // An owner's lease takes the place of what it held of the same in an earlier life.
    for (const claim of this.claims) {
      if (claim.lease === undefined && claim.owner === owner && claim.imageId === imageId) this.claims.delete(claim);
    }
    this.claims.add({ owner, imageId, reference, lease });
    if (this.lives.source.artifact(imageId) === undefined && !this.#wiped.has(imageId)) {
      this.broken.push(`a lease on ${imageId}, which we deleted`);
    }
  }

  /** Each live owner takes over what it holds. */
  async adoptAll(): Promise<void> {
    const { life } = this;
    for (const claim of [...this.claims]) {
      if (claim.lease !== undefined) continue;
      const { owner, reference, imageId } = claim;
      const lease = await life.images.adopt({ owner, reference, imageId }).catch(() => null);
      if (life !== this.life || lease === null) return;
      // Its owner has let go of it meanwhile.
      if (!this.claims.has(claim)) {
        void lease?.release();
        continue;
      }
      if (lease === undefined) {
        this.claims.delete(claim);
        if (!this.#wiped.has(imageId)) this.broken.push(`${owner} lost ${imageId}`);
      } else claim.lease = lease;
    }
  }

  strangerPuts(name: string, id: string): void {
    this.#stranger = true;
    this.lives.source.put(name, id);
    this.#stranger = false;
  }

  strangerWipes(id: string): void {
    if (this.lives.source.artifact(id) === undefined) return;
    for (const [name, target] of this.lives.source.names) if (target === id) this.#namedBy.delete(name);
    this.lives.source.wipe(id);
    this.#wiped.add(id);
  }

  /** What we brought and what is still there although nobody holds it. */
  leaks(): readonly string[] {
    return [...this.lives.source.names.keys()].filter(
      (name) => this.#namedBy.get(name) === 'us' && !name.includes('@'),
    );
  }

  #begin(): Life {
    this.alive = true;
    const life = this.lives.begin();
    void life.mortal.dead.then(() => {
      if (life === this.life) this.alive = false;
    });
    return life;
  }

  #note(value: unknown): void {
    const { before, reference } = value as { before?: unknown; reference: string };
    if (before === undefined) return;
    this.#meant.add(reference);
    this.#meantBefore.set(reference, before);
  }

  #isMeant(name: string): boolean {
    const repository = repositoryOf(name);
    const flying = this.life.images.explain(name).progress !== undefined;
    return flying || [...this.#meant].some((one) => (name.includes('@') ? one.startsWith(repository) : one === name));
  }

  /**
   * A digest that a stranger's tag left behind, and whose content our fetch brings once more: nobody who did not know of
   * the content before can tell whose it is. It is known as long as another tag of a stranger shows it.
   */
  #isLeftover(digest: string, fetched: string, before: ReadonlyMap<string, string>): boolean {
    const id = before.get(digest);
    if (id === undefined || before.get(fetched) === id) return false;
    const tags = [...before.keys()].filter(
      (name) => name.startsWith(`${repositoryOf(digest)}:`) && before.get(name) === id,
    );
    return tags.every((name) => this.#namedBy.get(name) === 'us');
  }

  #guardSource(): void {
    const { source } = this.lives;
    source.before = (step) => this.#delay(step);
    const put = source.put.bind(source);
    source.put = (name, id) => {
      const before = new Map(source.names);
      put(name, id);
      this.#wiped.delete(id);
      // What was there when we meant to pull is not ours, even if somebody deletes it before our pull brings it back (IC-21).
      const again = !this.#stranger && this.#meantBefore.get(name) === id;
      for (const [touched, target] of source.names) {
        if (before.get(touched) === target) continue;
        const ours = !this.#stranger && !again && this.#namedBy.get(touched) !== 'unclear';
        this.#namedBy.set(touched, ours ? 'us' : this.#stranger && !this.#isMeant(touched) ? 'stranger' : 'unclear');
      }
      const digest = digestOf(repositoryOf(name), id);
      if (!this.#stranger && this.#isLeftover(digest, name, before)) this.#namedBy.set(digest, 'unclear');
    };
    const remove = source.remove.bind(source);
    source.remove = (name, call) => {
      this.#untagging.set(name, source.names.get(name));
      return remove(name, call);
    };
    const drop = source.drop.bind(source);
    source.drop = (name) => {
      const id = source.names.get(name);
      // A stranger may move a name while it is being taken away; that cannot be helped.
      if (id !== undefined && this.#untagging.get(name) === id) this.#judge(name, id);
      else if (id !== undefined) this.#wiped.add(id);
      drop(name);
      for (const gone of [...this.#namedBy.keys()]) if (!source.names.has(gone)) this.#namedBy.delete(gone);
    };
  }

  #judge(name: string, id: string): void {
    for (const { owner, imageId } of this.claims) {
      if (imageId === id) this.broken.push(`${name} taken from ${id}, which ${owner} holds`);
    }
    if (this.#namedBy.get(name) === 'stranger') this.broken.push(`${name} was a stranger's`);
  }

  async #delay({ line, call }: Step): Promise<void> {
    const behaviour = this.#behaviours[this.#next++ % Math.max(1, this.#behaviours.length)];
    if (behaviour === undefined || this.calm) return;
    const { life } = this;
    await this.#wait(behaviour.latency, call);
    // An engine calls off what the client of a dead process asked for; by the next process's start it has.
    if (life !== this.life) throw new Error('client gone');
    const name = line.split(' ')[1]!;
    const fetching = line.startsWith('fetch');
    if (behaviour.kind === 'fail')
      throw fetching ? pullError(name, 'registry-unavailable', true) : new Error('HTTP 500');
    if (behaviour.kind !== 'late-fail') return;
    const id = this.lives.source.registry.get(name);
    if (fetching && id !== undefined) this.lives.source.put(name, id);
    if (fetching) throw new Error('socket closed');
  }

  /** A process that is dead calls nothing off: its engine goes on. */
  #wait(ms: number, { signal }: Call): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = this.lives.clock.timer(ms, () => {
        signal?.removeEventListener('abort', stop);
        resolve();
      });
      const stop = (): void => {
        cancel();
        reject(signal?.reason as Error);
      };
      if (signal?.aborted === true) stop();
      else signal?.addEventListener('abort', stop, { once: true });
    });
  }
}

function repositoryOf(name: string): string {
  return name.split(/[:@]/, 1)[0]!;
}
