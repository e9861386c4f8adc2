import { type Artifact, type ArtifactSource, type Call, HandoverError, type NormalisedReference } from 'handover';
import { deferred } from '../../src/internal/deferred.js';

type FetchCall = Parameters<ArtifactSource['fetch']>[1];

/** A call that is about to take effect. */
export interface Step {
  /** `find redis:7`, `fetch redis:7`, `users id`, `remove redis:7`. */
  readonly line: string;
  readonly call: Call;
  /** Only for a fetch. */
  readonly onProgress: FetchCall['onProgress'];
}

/** A call that waits for the test. */
export interface Held {
  /** Resolves when the call has come. */
  readonly reached: Promise<Step>;
  /** Lets it take effect. */
  go(): void;
  /** Makes it fail instead. */
  fail(error: unknown): void;
}

/**
 * An engine in memory: names mean ids here (`names`) and in the registry (`registry`). The last name of an id takes its
 * content along, and the last tag of a repository takes its digests along, like in a container engine.
 */
export class ScriptedSource implements ArtifactSource {
  readonly id: string = 'scripted';
  readonly calls: string[] = [];
  readonly registry = new Map<string, string>();
  readonly names = new Map<string, string>();
  readonly platforms = new Map<string, string>();
  readonly usersOf = new Map<string, readonly string[]>();
  /** Runs before a call takes effect; may wait or throw. */
  before: (step: Step) => unknown = () => undefined;
  readonly #held = new Map<string, { reached: (step: Step) => void; gate: Promise<void> }[]>();

  normalise(reference: string): NormalisedReference {
    if (!/^[a-z0-9/.:@-]+$/.test(reference)) {
      throw new HandoverError('ERR_INVALID_REFERENCE', `${reference} is not a reference`, { details: { reference } });
    }
    const host = 'registry.test';
    if (reference.startsWith('sha256:')) {
      return { key: reference, repository: '', host, pullable: false, floating: false, latest: false };
    }
    const [repository, tag] = reference.split(/[:@]/, 2) as [string, string?];
    const floating = !reference.includes('@');
    const key = tag === undefined ? `${repository}:latest` : reference;
    return { key, repository, host, pullable: true, floating, latest: floating && (tag ?? 'latest') === 'latest' };
  }

  async find(referenceOrId: string, call: Call & { platform?: string | undefined }): Promise<Artifact | undefined> {
    await this.#step(`find ${referenceOrId}`, call);
    const id = referenceOrId.startsWith('sha256:') ? referenceOrId : this.names.get(referenceOrId);
    const found = id === undefined ? undefined : this.artifact(id);
    const fits = (found?.platform ?? call.platform ?? '').startsWith(call.platform ?? '');
    return fits ? found : undefined;
  }

  async fetch(reference: string, call: FetchCall): Promise<void> {
    await this.#step(`fetch ${reference}`, call, call.onProgress);
    const id = this.registry.get(reference);
    if (id === undefined) throw pullError(reference, 'not-found-or-denied', false);
    this.put(reference, id);
  }

  async users(id: string, call: Call): Promise<readonly string[]> {
    await this.#step(`users ${id}`, call);
    return this.usersOf.get(id) ?? [];
  }

  async remove(name: string, call: Call): Promise<'removed' | 'untagged' | 'absent' | 'in-use'> {
    await this.#step(`remove ${name}`, call);
    const id = this.names.get(name);
    if (id === undefined) return 'absent';
    if ((this.usersOf.get(id) ?? []).length > 0) return 'in-use';
    this.drop(name);
    return this.artifact(id) === undefined ? 'removed' : 'untagged';
  }

  async list(): Promise<readonly Artifact[]> {
    return [...new Set(this.names.values())].map((id) => this.artifact(id)!);
  }

  /** The content of an id, if any name still leads to it. */
  artifact(id: string): Artifact | undefined {
    const references = [...this.names].filter(([, target]) => target === id).map(([name]) => name);
    if (references.length === 0) return undefined;
    const platform = this.platforms.get(id);
    return { id, references, digest: id, ...(platform === undefined ? {} : { platform }) };
  }

  /** A name comes to mean `id`, together with the digest of its repository. */
  put(name: string, id: string): void {
    this.names.set(name, id);
    this.names.set(digestOf(this.normalise(name).repository, id), id);
  }

  /** Takes a name away. */
  drop(name: string): void {
    const id = this.names.get(name);
    this.names.delete(name);
    const { repository } = this.normalise(name);
    const kin = [...this.names].filter(([other, target]) => target === id && other.startsWith(repository));
    if (kin.every(([other]) => other.includes('@'))) kin.forEach(([other]) => this.names.delete(other));
  }

  /** Somebody deletes the content with all its names. */
  wipe(id: string): void {
    for (const [name, target] of [...this.names]) if (target === id) this.names.delete(name);
  }

  /** The next call of `line` waits for the test. */
  hold(line: string): Held {
    const reached = deferred<Step>();
    const gate = deferred();
    gate.promise.catch(() => undefined);
    this.#held.set(line, [...(this.#held.get(line) ?? []), { reached: reached.resolve, gate: gate.promise }]);
    return { reached: reached.promise, go: () => gate.resolve(), fail: gate.reject };
  }

  /** The calls that match, in order. */
  count(line: string): number {
    return this.calls.filter((call) => call === line).length;
  }

  async #step(line: string, call: Call, onProgress: FetchCall['onProgress'] = () => undefined): Promise<void> {
    this.calls.push(line);
    const step: Step = { line, call, onProgress };
    const held = this.#held.get(line)?.shift();
    held?.reached(step);
    await held?.gate;
    await this.before(step);
  }
}

/** The name of content by its digest. */
export function digestOf(repository: string, id: string): string {
  return `${repository}@${id}`;
}

/** A failure as a source classifies it. */
export function pullError(
  reference: string,
  reason: HandoverError<'ERR_PULL_FAILED'>['details']['reason'],
  retryable: boolean,
): HandoverError<'ERR_PULL_FAILED'> {
  return new HandoverError('ERR_PULL_FAILED', `${reference}: ${reason}`, {
    details: { reference, reason, attempts: 1 },
    retryable,
  });
}

/** Rejects with the call's reason when it is aborted; otherwise never settles. */
export function untilAborted({ signal }: Call): Promise<never> {
  return new Promise((_, reject) => {
    if (signal?.aborted === true) reject(signal.reason as Error);
    signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}
