import type { Call, Duration, Opt } from '../call.js';
import type { Clock } from '../clock.js';
import { parseDuration } from '../duration.js';
import { HandoverError } from '../errors.js';
import type { Artifact, ArtifactSource, NormalisedReference, PullReason, Progress } from '../image/types.js';
import { sleep } from '../internal/signals.js';

const NAME = String.raw`([a-z0-9]+(?:[._/-][a-z0-9]+)*)`;
const TAGGED = new RegExp(String.raw`^${NAME}(?::([a-z0-9][a-z0-9._-]*))?$`);
const DIGESTED = new RegExp(String.raw`^${NAME}@(sha256:[0-9a-f]{64})$`);
const ID = /^sha256:[0-9a-f]{64}$/;

type Platform = Opt<{ platform: string }>;

/**
 * Images in memory: a registry to publish in, and the store of a host that fetches from it. References are
 * `name[:tag]`, `name@sha256:<64 hex>` and, for what is there, ids `sha256:<64 hex>`; all in lower case.
 */
export class FakeImages implements ArtifactSource {
  readonly id = 'fake';
  /** How long a fetch takes; `'never'` until it is aborted. Default 0: at once, without the clock being moved. */
  delay: Duration = 0;
  readonly #clock: Clock;
  /** The registry: key → what is published under it, or the error with which its fetch ends. */
  readonly #published = new Map<string, Artifact | HandoverError>();
  /** The store of the host: id → content. Its `references` are the names that it goes by here. */
  readonly #stored = new Map<string, Artifact>();
  readonly #fetched: string[] = [];
  #made = 0;

  /** @param clock - measures `delay` */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Every reference that a fetch was begun of, in order and as given. */
  get fetched(): readonly string[] {
    return [...this.#fetched];
  }

  /**
   * Publishes content; a tag that was published before moves to it. Nothing is stored on the host before a fetch.
   *
   * @param artifact - facts of the content. Default: an id and digest of its own, 1000 bytes, no platform
   */
  put(reference: string, artifact: Partial<Artifact> = {}): void {
    const { key, repository } = this.normalise(reference);
    const [, digest = `sha256:${(++this.#made).toString(16).padStart(64, '0')}`] = key.split('@');
    const references = [...new Set([key, `${repository}@${artifact.digest ?? digest}`])];
    const made: Artifact = { id: digest, digest, bytes: 1_000, ...artifact, references };
    for (const name of references) this.#published.set(name, made);
  }

  /** Every fetch of the reference ends with `error`, until the next {@link FakeImages.put} of it. */
  fail(reference: string, error: HandoverError): void {
    this.#published.set(this.normalise(reference).key, error);
  }

  normalise(reference: string): NormalisedReference {
    const [, repository, tag = 'latest'] = TAGGED.exec(reference) ?? [];
    const [, pinned] = DIGESTED.exec(reference) ?? [];
    const fixed = { host: 'fake', floating: false, latest: false };
    if (ID.test(reference)) return { ...fixed, key: reference, repository: reference, pullable: false };
    if (pinned !== undefined) return { ...fixed, key: reference, repository: pinned, pullable: true };
    if (repository === undefined) throw invalidReference(reference);
    return {
      ...{ key: `${repository}:${tag}`, repository, host: 'fake' },
      ...{ pullable: true, floating: true, latest: tag === 'latest' },
    };
  }

  async find(referenceOrId: string, call: Call & Platform): Promise<Artifact | undefined> {
    call.signal?.throwIfAborted();
    const found = this.#look(referenceOrId);
    return found !== undefined && fits(found, call) ? found : undefined;
  }

  async fetch(
    reference: string,
    call: Call & Platform & { onProgress(progress: Omit<Progress, 'attempt'>): void },
  ): Promise<void> {
    call.signal?.throwIfAborted();
    const { key, pullable } = this.normalise(reference);
    if (!pullable) throw invalidReference(reference);
    this.#fetched.push(reference);
    call.onProgress({ phase: 'downloading', bytes: { done: 0 } });
    const ms = parseDuration(this.delay, 'delay', { never: true });
    if (ms > 0) await sleep(this.#clock, ms, { signal: call.signal });
    const content = this.#published.get(key);
    if (content instanceof Error) throw content;
    if (content === undefined) throw pullFailed(reference, 'not-found-or-denied', 'is not published');
    if (!fits(content, call)) throw pullFailed(reference, 'no-platform', `has no content for ${call.platform ?? ''}`);
    call.onProgress({ phase: 'done', bytes: { done: content.bytes ?? 0, total: content.bytes ?? 0 } });
    this.#store(key, content);
  }

  /** Nobody: fake tasks do not run from fake images. */
  async users(_id: string, call: Call): Promise<readonly string[]> {
    call.signal?.throwIfAborted();
    return [];
  }

  async remove(referenceOrId: string, call: Call): Promise<'removed' | 'untagged' | 'absent'> {
    call.signal?.throwIfAborted();
    const found = this.#look(referenceOrId);
    if (found === undefined) return 'absent';
    if (found.id === referenceOrId) return this.#drop(found);
    const { key, repository } = this.normalise(referenceOrId);
    const others = found.references.filter((name) => name !== key);
    // As engines do it: the last tag of a repository takes the repository's digest along.
    const tagged = others.some((name) => name.startsWith(`${repository}:`));
    const references = tagged ? others : others.filter((name) => !name.startsWith(`${repository}@`));
    if (references.length === 0) return this.#drop(found);
    this.#stored.set(found.id, { ...found, references });
    return 'untagged';
  }

  async list(call: Call): Promise<readonly Artifact[]> {
    call.signal?.throwIfAborted();
    return [...this.#stored.values()];
  }

  #drop({ id }: Artifact): 'removed' {
    this.#stored.delete(id);
    return 'removed';
  }

  #look(referenceOrId: string): Artifact | undefined {
    const direct = this.#stored.get(referenceOrId);
    if (direct !== undefined) return direct;
    const { key } = this.normalise(referenceOrId);
    return [...this.#stored.values()].find((artifact) => artifact.references.includes(key));
  }

  /** Gives the content its names, and takes a tag that moved from what had it before. */
  #store(key: string, content: Artifact): void {
    const { repository } = this.normalise(key);
    for (const [id, old] of this.#stored) {
      this.#stored.set(id, { ...old, references: old.references.filter((name) => name !== key) });
    }
    const already = this.#stored.get(content.id)?.references ?? [];
    const names = [key, ...(content.digest === undefined ? [] : [`${repository}@${content.digest}`])];
    this.#stored.set(content.id, { ...content, references: [...new Set([...already, ...names])] });
  }
}

function fits(artifact: Artifact, { platform }: Platform): boolean {
  return platform === undefined || artifact.platform === undefined || artifact.platform === platform;
}

function invalidReference(reference: string): HandoverError<'ERR_INVALID_REFERENCE'> {
  const help = 'write name[:tag] or name@sha256:<64 hex>, in lower case';
  return new HandoverError('ERR_INVALID_REFERENCE', `${JSON.stringify(reference)} cannot be fetched; ${help}`, {
    details: { reference },
  });
}

function pullFailed(reference: string, reason: PullReason, why: string): HandoverError<'ERR_PULL_FAILED'> {
  return new HandoverError('ERR_PULL_FAILED', `${reference} ${why}; publish it by put() first`, {
    details: { reference, reason, attempts: 1 },
  });
}
