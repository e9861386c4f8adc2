import { randomUUID } from 'node:crypto';
import type { Call, Opt } from '../call.js';
import type { Artifact, ArtifactSource, Progress } from '../image/types.js';
import { sourceChecks } from './source-checks.js';
import { type SuiteOptions, registerChecks } from './suite-runner.js';

/** What the suite has to know of a source and of its origin. What is optional switches on the checks that need it. */
export type ArtifactSourceSuite = {
  /** A source; called before each check. Its store may be shared: the suite publishes names and content of its own. */
  make(): Promise<ArtifactSource>;
  /**
   * Makes content available at the origin under a name, without fetching it. The same name again, with other content,
   * moves it.
   *
   * @returns a reference that floats: it means whatever was published last
   */
  publish(name: string, content: string): Promise<string>;
  /** A reference that the origin does not know. */
  missing(): string;
} & SuiteOptions &
  Opt<{
    /** Publishes what the reference means under one more name, and returns the reference to that. */
    alias: (reference: string, name: string) => Promise<string>;
    /** A reference whose fetch begins, tells progress, and goes on until it is aborted. */
    hanging: () => Promise<string>;
    /** A reference whose fetch breaks off in the middle, for a reason that may pass, until `mend()` was called. */
    broken: () => Promise<{ readonly reference: string; readonly mend: () => Promise<void> }>;
    /** Waits for the promise, and moves time for it if the source runs by a fake clock. Default: only waits. */
    settle: <T>(promise: Promise<T>) => Promise<T>;
  }>;

/** What one check works with: a source, and names and content that nobody else has. */
export class SourceBench {
  readonly #mark = randomUUID().slice(0, 8);
  readonly #fetched = new Set<string>();

  constructor(
    readonly options: ArtifactSourceSuite,
    readonly source: ArtifactSource,
  ) {}

  settle<T>(promise: Promise<T>): Promise<T> {
    return this.options.settle === undefined ? promise : this.options.settle(promise);
  }

  /** Publishes content of this check only; equal versions are equal content. */
  publish(name: string, version: string): Promise<string> {
    return this.options.publish(this.name(name), `${version} of ${this.#mark}`);
  }

  /** The name as the origin gets it. */
  name(name: string): string {
    return `suite-${this.#mark}-${name}`;
  }

  /** @returns what the fetch told of its progress */
  async fetch(
    reference: string,
    call: Call & { onProgress?: () => void } = {},
  ): Promise<readonly Omit<Progress, 'attempt'>[]> {
    const told: Omit<Progress, 'attempt'>[] = [];
    this.#fetched.add(reference);
    const onProgress = (progress: Omit<Progress, 'attempt'>): void => {
      told.push(progress);
      call.onProgress?.();
    };
    await this.settle(this.source.fetch(reference, { signal: call.signal, onProgress }));
    return told;
  }

  find(referenceOrId: string): Promise<Artifact | undefined> {
    return this.settle(this.source.find(referenceOrId, {}));
  }

  /** Fetches and finds. */
  async bring(reference: string): Promise<Artifact> {
    await this.fetch(reference);
    const found = await this.find(reference);
    if (found === undefined) throw new Error(`${reference} was fetched and is not there`);
    return found;
  }

  remove(referenceOrId: string): ReturnType<ArtifactSource['remove']> {
    return this.settle(this.source.remove(referenceOrId, {}));
  }

  /** Takes content away by the names it has left; by its id only if it has none, for some sources refuse that (IC-17). */
  async drop(id: string): Promise<void> {
    const names = (await this.find(id))?.references ?? [];
    for (const name of names.length > 0 ? names : [id]) await this.remove(name);
  }

  /** The ids of everything that is present. */
  async ids(): Promise<readonly string[]> {
    return (await this.settle(this.source.list({}))).map(({ id }) => id);
  }

  /** Every name of everything that is present. */
  async references(): Promise<readonly string[]> {
    return (await this.settle(this.source.list({}))).flatMap(({ references }) => references);
  }

  /** Takes away what the check fetched. */
  async clear(): Promise<void> {
    for (const reference of this.#fetched) await this.remove(reference).catch(() => undefined);
  }
}

/**
 * The conformance suite of artifact sources (IC-24): what {@link ImageCoordinator} relies on, as checks against any
 * {@link ArtifactSource}. Call it at the top of a test file.
 *
 * @param name - of the source, for the report
 * @param o - how to get the source, and how to publish at its origin
 * @throws HandoverError `ERR_INVALID_OPTION` when there is neither `o.runner` nor a global one
 */
export function describeArtifactSource(name: string, o: ArtifactSourceSuite): void {
  registerChecks(`artifact source ${name}`, o, sourceChecks(o), async (check) => {
    const bench = new SourceBench(o, await o.make());
    try {
      await check(bench);
    } finally {
      await bench.clear();
    }
  });
}
