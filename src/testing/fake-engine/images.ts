import { createHash } from 'node:crypto';
import { EngineProblem, type FakeAnswer } from './answer.js';

/** An image as the fake engine and its registry know it. */
export interface FakeImageOptions {
  /** What distinguishes its content: equal content means an equal id. Default: the reference. */
  readonly content?: string;
  /** `os/arch`. Default `linux/amd64`. */
  readonly platform?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly stopSignal?: string;
  /** Bytes of its one layer. Default 1,000,000. */
  readonly bytes?: number;
}

/** An image that is present. */
export interface FakeImage {
  readonly id: string;
  readonly digest: string;
  readonly platform: string;
  readonly bytes: number;
  readonly config: { readonly Env: readonly string[]; readonly Cmd: readonly string[]; readonly StopSignal?: string };
  /** `name:tag`. */
  readonly tags: Set<string>;
  /** `name@digest`. */
  readonly digests: Set<string>;
}

interface Name {
  readonly repository: string;
  readonly tag: string;
  readonly digest: string | undefined;
}

/** The images of an engine, and the registry it pulls from. */
export class EngineImages {
  readonly #images = new Map<string, FakeImage>();
  /** `name:tag` and `name@digest` → what the registry serves. */
  readonly #remote = new Map<string, FakeImage>();

  /** Makes the registry serve this content under the reference. */
  publish(reference: string, options: FakeImageOptions): FakeImage {
    const name = parse(reference);
    const image = make(reference, options);
    this.#remote.set(`${name.repository}:${name.tag}`, image);
    this.#remote.set(`${name.repository}@${image.digest}`, image);
    return image;
  }

  /** Puts an image there as if it had been pulled. */
  put(reference: string, options: FakeImageOptions): FakeImage {
    return this.#land(parse(reference), make(reference, options));
  }

  /** By name, digest or id. */
  find(reference: string): FakeImage | undefined {
    const byId = this.#images.get(reference) ?? this.#images.get(`sha256:${reference}`);
    if (byId !== undefined) return byId;
    const name = parse(reference);
    return [...this.#images.values()].find((image) =>
      name.digest === undefined
        ? image.tags.has(`${name.repository}:${name.tag}`)
        : image.digests.has(`${name.repository}@${name.digest}`),
    );
  }

  /** As {@link find}, but absence is the engine's 404. */
  get(reference: string): FakeImage {
    const image = this.find(reference);
    if (image === undefined) throw new EngineProblem(404, `No such image: ${reference}`);
    return image;
  }

  list(): readonly FakeImage[] {
    return [...this.#images.values()];
  }

  /** `docker pull`: a stream of progress, then the image is there. */
  pull(fromImage: string, tag: string | null, platform: string | null): FakeAnswer {
    const reference = tag === null ? fromImage : `${fromImage}${tag.includes(':') ? '@' : ':'}${tag}`;
    const name = parse(reference);
    const key = name.digest === undefined ? `${name.repository}:${name.tag}` : `${name.repository}@${name.digest}`;
    const image = this.#remote.get(key);
    if (image === undefined) {
      throw new EngineProblem(404, `manifest for ${key} not found: manifest unknown: manifest unknown`);
    }
    if (platform !== null && platform.split('/')[0] !== image.platform.split('/')[0]) {
      throw new EngineProblem(404, `no matching manifest for ${platform} in the manifest list entries`);
    }
    return { status: 200, lines: progressOf(name, image), landed: () => void this.#land(name, image) };
  }

  /**
   * Takes one name away, and the image with its last name.
   *
   * @param users - short ids of the containers that use an image id
   */
  remove(reference: string, users: (id: string) => readonly string[]): readonly object[] {
    const image = this.get(reference);
    const byId = image.id.endsWith(reference.replace(/^sha256:/, ''));
    const names = [...image.tags, ...image.digests];
    const [user] = users(image.id);
    const name = byId ? undefined : nameIn(image, reference);
    const left = names.filter((other) => !byId && other !== name && (image.tags.has(other) || image.tags.size > 1));
    if (left.length === 0 && user !== undefined) {
      const what = byId ? `delete ${image.id.slice(7, 19)}` : `remove repository reference "${reference}"`;
      throw new EngineProblem(
        409,
        `conflict: unable to ${what} (must force) - container ${user} is using its referenced image ${image.id.slice(7, 19)}`,
      );
    }
    const gone = left.length === 0 ? names : [name ?? reference];
    for (const each of gone) image.tags.delete(each);
    for (const each of gone) image.digests.delete(each);
    const untagged = gone.map((each) => ({ Untagged: each }));
    if (left.length > 0) return untagged;
    this.#images.delete(image.id);
    return [...untagged, { Deleted: image.id }];
  }

  /** Somebody removed it by force, or its store was lost. */
  lose(reference: string): void {
    this.#images.delete(this.get(reference).id);
  }

  #land(name: Name, content: FakeImage): FakeImage {
    const image = this.#images.get(content.id) ?? { ...content, tags: new Set(), digests: new Set() };
    this.#images.set(image.id, image);
    if (name.digest === undefined) {
      const tag = `${name.repository}:${name.tag}`;
      for (const other of this.#images.values()) other.tags.delete(tag);
      image.tags.add(tag);
    }
    image.digests.add(`${name.repository}@${content.digest}`);
    return image;
  }
}

/** The image as the engine's API shows it; the list leaves the details out. */
export function imageJson(image: FakeImage): object {
  const [os, architecture, variant] = image.platform.split('/');
  return {
    Id: image.id,
    RepoTags: [...image.tags],
    RepoDigests: [...image.digests],
    Os: os,
    Architecture: architecture,
    Variant: variant ?? '',
    Size: image.bytes,
    Config: image.config,
  };
}

function make(reference: string, o: FakeImageOptions): FakeImage {
  const content = o.content ?? reference;
  return {
    id: `sha256:${hash(`config ${content}`)}`,
    digest: `sha256:${hash(`manifest ${content}`)}`,
    platform: o.platform ?? 'linux/amd64',
    bytes: o.bytes ?? 1_000_000,
    config: {
      Env: Object.entries(o.env ?? {}).map(([key, value]) => `${key}=${value}`),
      Cmd: ['/bin/app'],
      ...(o.stopSignal === undefined ? {} : { StopSignal: o.stopSignal }),
    },
    tags: new Set(),
    digests: new Set(),
  };
}

function parse(reference: string): Name {
  const [named = '', digest] = reference.split('@');
  const short = named.replace(/^docker\.io\//, '').replace(/^library\//, '');
  const colon = short.lastIndexOf(':');
  const tagged = colon > short.lastIndexOf('/');
  return {
    repository: tagged ? short.slice(0, colon) : short,
    tag: tagged ? short.slice(colon + 1) : 'latest',
    digest,
  };
}

function nameIn(image: FakeImage, reference: string): string {
  const name = parse(reference);
  const tag = `${name.repository}:${name.tag}`;
  return name.digest === undefined && image.tags.has(tag) ? tag : `${name.repository}@${name.digest ?? image.digest}`;
}

function progressOf(name: Name, image: FakeImage): readonly object[] {
  const id = image.id.slice(7, 19);
  const total = image.bytes;
  return [
    { status: `Pulling from ${name.repository}`, id: name.tag },
    { status: 'Pulling fs layer', progressDetail: {}, id },
    { status: 'Downloading', progressDetail: { current: Math.floor(total / 2), total }, id },
    { status: 'Downloading', progressDetail: { current: total, total }, id },
    { status: 'Download complete', progressDetail: {}, id },
    { status: 'Extracting', progressDetail: { current: total, total }, id },
    { status: 'Pull complete', progressDetail: {}, id },
    { status: `Digest: ${image.digest}` },
    { status: `Status: Downloaded newer image for ${name.repository}:${name.tag}` },
  ];
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
