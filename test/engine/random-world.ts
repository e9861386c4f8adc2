import type Docker from 'dockerode';
import { type ArtifactSource, ImageCoordinator, type ImageLease, isHandoverError } from 'handover';
import { type DockerImage, dockerImages } from 'handover/docker';
import { onTestFinished } from 'vitest';
import type { Chance } from './harness/chance.js';
import { type BuiltImage, type RealEngine, uniqueName } from './harness/index.js';

const REPOSITORIES = 4;
const VERSIONS = ['v1', 'v2', 'v3'] as const;
/** The tag that moves. */
const MOVING = 'live';
const DELAY_MS = 200;
const MAX_LEASES = 12;
const MAX_FOREIGN = 6;

/** What can happen, and how often. */
const WEIGHTS = {
  acquire: 34,
  release: 30,
  retag: 6,
  verify: 6,
  foreignRun: 7,
  foreignEnd: 5,
  foreignTag: 4,
  foreignUntag: 5,
  foreignRemove: 4,
} as const;
type Deed = keyof typeof WEIGHTS;
const DEEDS = Object.entries(WEIGHTS).flatMap(([deed, weight]) => new Array<Deed>(weight).fill(deed as Deed));

/** One coordinator among strangers, on a real engine; and what has to be there in the end. */
export class RandomWorld {
  readonly images: ImageCoordinator<DockerImage>;
  /** Failures that nobody caused. */
  readonly unexpected: unknown[] = [];
  readonly #leases: ImageLease<DockerImage>[] = [];
  readonly #containers: { readonly container: Docker.Container; readonly imageId: string }[] = [];
  /** Names that strangers gave → what they mean. */
  readonly #theirs = new Map<string, string>();
  readonly #log: string[] = [];
  readonly #counts = new Map<Deed, number>();
  readonly #theirName = uniqueName('theirs');
  #last: Promise<void> = Promise.resolve();

  private constructor(
    private readonly engine: RealEngine,
    private readonly luck: Chance,
    private readonly built: readonly BuiltImage[],
    /** Pulled by a stranger beforehand. */
    private readonly pulled: BuiltImage,
  ) {
    this.images = new ImageCoordinator({ source: this.#source(), removal: { delay: DELAY_MS } });
  }

  static async make(engine: RealEngine, luck: Chance): Promise<RandomWorld> {
    const built: BuiltImage[] = [];
    for (let i = 0; i <= REPOSITORIES; i++) {
      const name = uniqueName('random');
      for (const tag of VERSIONS) built.push(await engine.pushImage({ name, tag }));
      await engine.tagInRegistry(name, 'v1', MOVING);
    }
    const pulled = built.pop()!;
    const world = new RandomWorld(engine, luck, built, pulled);
    onTestFinished(() => world.#end());
    await world.#pull(pulled);
    return world;
  }

  /** One random step; never rejects. */
  async step(): Promise<void> {
    const deed = this.luck.oneOf(DEEDS)!;
    this.#counts.set(deed, (this.#counts.get(deed) ?? 0) + 1);
    await this[deed]().catch((error: unknown) => this.unexpected.push(error));
  }

  counts(): string {
    return [...this.#counts].map(([deed, count]) => `${deed} ${count}`).join(', ');
  }

  /** What happened to some content, and what is known of it now, for who has to find out why. */
  async story(ids: readonly string[]): Promise<string> {
    const now = ids.map(async (id) => {
      const found = await this.engine.docker.getImage(id).inspect().catch(ignore(404));
      return JSON.stringify({ tags: found?.RepoTags, digests: found?.RepoDigests, known: this.images.explain(id) });
    });
    const names = this.built.flatMap(({ id, name }) => (ids.includes(id) ? [name] : []));
    const lines = this.#log.filter((line) => [...ids, ...names, this.#theirName].some((each) => line.includes(each)));
    return [...lines, ...(await Promise.all(now))].join('\n');
  }

  /** What is held comes back, whoever deleted it. */
  async verifyAll(): Promise<void> {
    for (const lease of this.#leases) await lease.verify();
  }

  async releaseAll(): Promise<void> {
    await Promise.all(this.#leases.splice(0).map((lease) => lease.release()));
  }

  /** Content whose removal is still to come. */
  pending(): readonly string[] {
    return this.images
      .snapshot()
      .filter(({ state, kept }) => state !== 'idle' || kept === undefined)
      .map(({ reference, state }) => `${reference} ${state}`);
  }

  /** Of what is held or foreign: what is not there. */
  async missing(): Promise<readonly string[]> {
    const names = [
      ...this.#leases.map(({ imageId }) => imageId),
      ...this.inUse,
      ...this.#theirs.keys(),
      this.#reference(this.pulled, this.pulled.tag),
    ];
    const found = await Promise.all(names.map((name) => this.#id(name)));
    return names.filter((name, i) => found[i] !== (this.#theirs.get(name) ?? found[i] ?? ''));
  }

  /** Content that strangers run. */
  get inUse(): readonly string[] {
    return this.#containers.map(({ imageId }) => imageId);
  }

  /** All images of this world that the engine has. */
  async present(): Promise<readonly string[]> {
    const ids = await Promise.all([...this.built, this.pulled].map(({ id }) => this.#id(id)));
    return ids.filter((id) => id !== undefined).toSorted();
  }

  /** All that it has to have when nobody holds anything: what strangers use, named or pulled. */
  wanted(): readonly string[] {
    return [...new Set([...this.inUse, ...this.#theirs.values(), this.pulled.id])].toSorted();
  }

  async acquire(): Promise<void> {
    if (this.#leases.length >= MAX_LEASES) return this.release();
    const image = this.luck.oneOf([...this.built, this.pulled])!;
    const version = this.luck.oneOf([MOVING, image.tag, `@${image.digest}`])!;
    const policy = this.luck.oneOf(['if-absent', 'if-absent', 'if-absent', 'always', 'never'] as const)!;
    const owner = `owner ${this.luck.below(5)}`;
    try {
      const lease = await this.images.acquire(this.#reference(image, version), { owner, policy });
      this.#leases.push(lease);
      this.#note(`${owner} acquired ${lease.reference} (${policy}): ${lease.imageId}`);
    } catch (error) {
      if (policy !== 'never' || !isHandoverError(error, 'ERR_IMAGE_ABSENT')) throw error;
    }
  }

  async release(): Promise<void> {
    const [lease] = this.#leases.splice(this.luck.below(this.#leases.length), 1);
    if (lease === undefined) return;
    await lease.release();
    this.#note(`${lease.owner} released ${lease.imageId}`);
  }

  async verify(): Promise<void> {
    const lease = this.luck.oneOf(this.#leases);
    await lease?.verify();
  }

  async retag(): Promise<void> {
    const { name } = this.luck.oneOf(this.built)!;
    const tag = this.luck.oneOf(VERSIONS)!;
    await this.#alone(() => this.engine.tagInRegistry(name, tag, MOVING));
    this.#note(`${name}:${MOVING} is ${tag}`);
  }

  async foreignRun(): Promise<void> {
    if (this.#containers.length >= MAX_FOREIGN) return this.foreignEnd();
    const imageId = await this.#somethingPresent();
    const start = this.luck.percent(20);
    if (imageId === undefined) return;
    // Between the look and this, it may have gone.
    const body = { Image: imageId, name: uniqueName('stranger'), HostConfig: { NetworkMode: 'none' } };
    const container = await this.#alone(() => this.engine.docker.createContainer(body).catch(ignore(404)));
    if (container === undefined) return;
    if (start) await container.start();
    this.#containers.push({ container, imageId });
    this.#note(`a stranger runs ${imageId}`);
  }

  async foreignEnd(): Promise<void> {
    const [ended] = this.#containers.splice(this.luck.below(this.#containers.length), 1);
    await ended?.container.remove({ force: true });
    if (ended !== undefined) this.#note(`a stranger ran ${ended.imageId}`);
  }

  async foreignTag(): Promise<void> {
    if (this.#theirs.size >= MAX_FOREIGN) return this.foreignUntag();
    const tag = `t${this.luck.below(1_000_000)}`;
    const imageId = await this.#somethingPresent();
    if (imageId === undefined) return;
    const tagged: unknown = await this.engine.docker
      .getImage(imageId)
      .tag({ repo: this.#theirName, tag })
      .catch(ignore(404));
    if (tagged === undefined) return;
    this.#theirs.set(`${this.#theirName}:${tag}`, imageId);
    this.#note(`a stranger calls ${imageId} ${this.#theirName}:${tag}`);
  }

  async foreignUntag(): Promise<void> {
    const name = this.luck.oneOf([...this.#theirs.keys()]);
    if (name === undefined) return;
    this.#theirs.delete(name);
    await this.#alone(() => this.engine.docker.getImage(name).remove().catch(ignore(404, 409)));
    // In use, and without another name, it stays.
    const left = await this.#id(name);
    if (left !== undefined) this.#theirs.set(name, left);
    this.#note(`a stranger takes ${name} away`);
  }

  async foreignRemove(): Promise<void> {
    const image = this.luck.oneOf(this.built)!;
    const name = this.#reference(image, this.luck.oneOf([MOVING, image.tag])!);
    await this.#alone(() => this.engine.docker.getImage(name).remove().catch(ignore(404, 409)));
    this.#note(`a stranger removes ${name}`);
  }

  /**
   * One at a time: while an engine deletes an image it lets others tag it and create from it, and then drops it all the
   * same. That is the engine's to mend; between two calls of the coordinator anything may happen.
   */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.then(
      () => undefined,
      () => undefined,
    );
    return done;
  }

  #source(): ArtifactSource<DockerImage> {
    const source = dockerImages(this.engine.docker);
    return {
      id: source.id,
      normalise: (reference) => source.normalise(reference),
      find: (name, call) => source.find(name, call),
      fetch: (reference, call) => source.fetch(reference, call),
      users: (id, call) => source.users(id, call),
      list: (call) => source.list(call),
      remove: (name, call) => this.#alone(() => source.remove(name, call)),
    };
  }

  #reference({ name }: BuiltImage, version: string): string {
    return `127.0.0.1:${this.engine.registry.port}/${name}${version.startsWith('@') ? '' : ':'}${version}`;
  }

  async #id(name: string): Promise<string | undefined> {
    return (await this.engine.docker.getImage(name).inspect().catch(ignore(404)))?.Id;
  }

  async #somethingPresent(): Promise<string | undefined> {
    const wanted = this.luck.below(this.built.length);
    const present = await this.present();
    return present[wanted % present.length];
  }

  async #pull(image: BuiltImage): Promise<void> {
    const stream = await this.engine.docker.pull(this.#reference(image, image.tag));
    for await (const _ of stream as AsyncIterable<Buffer>);
  }

  #note(line: string): void {
    this.#log.push(line);
  }

  async #end(): Promise<void> {
    await this.images.close();
    await Promise.all(this.#containers.map(({ container }) => container.remove({ force: true })));
    const remove = (id: string): Promise<unknown> => this.engine.docker.getImage(id).remove({ force: true });
    for (const { id } of [...this.built, this.pulled]) await remove(id).catch(ignore(404));
  }
}

/** What an engine answers instead of 404 when the image is deleted in the middle of the call. */
const DELETED_MEANWHILE = /unrecognized image ID|layer does not exist|failed to get digest/;

/** For answers that are as good as done. */
function ignore(...statuses: readonly number[]): (error: unknown) => undefined {
  return (error) => {
    const { statusCode = 0, message } = error as Error & { statusCode?: number };
    if (!statuses.includes(statusCode) && !DELETED_MEANWHILE.test(message)) throw error;
  };
}
