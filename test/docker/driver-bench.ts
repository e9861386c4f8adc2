import Docker from 'dockerode';
import { type AcquireOptions, HandoverError, type ImageLease, type PrestartContext } from 'handover';
import { DockerDriver, type DockerImage, type DockerSpec, type ImageLeases } from 'handover/docker';
import { eventLog, FakeClock, FakeEngine } from 'handover/testing';
import { onTestFinished } from 'vitest';

/** A coordinator reduced to what the driver sees of it: pulls what is absent, and counts who holds what. */
export class TestLeases implements ImageLeases {
  readonly held = new Set<string>();
  readonly verified: string[] = [];
  /** What `verify()` does besides being counted. */
  onVerify: () => void = () => {};

  constructor(private readonly docker: Docker) {}

  async acquire(reference: string, o: AcquireOptions): Promise<ImageLease<DockerImage>> {
    o.onProgress?.({ phase: 'resolving', attempt: 1, bytes: { done: 0 } });
    const found = await this.docker
      .getImage(reference)
      .inspect()
      .catch(() => undefined);
    if (found === undefined || o.policy === 'always') await this.#pull(reference, o.signal);
    return this.#lease(o.owner, reference, (await this.docker.getImage(reference).inspect()).Id);
  }

  async adopt(held: {
    owner: string;
    reference: string;
    imageId: string;
  }): Promise<ImageLease<DockerImage> | undefined> {
    const found = await this.docker
      .getImage(held.imageId)
      .inspect()
      .catch(() => undefined);
    return found && this.#lease(held.owner, held.reference, held.imageId);
  }

  async #pull(reference: string, signal: AbortSignal | undefined): Promise<void> {
    try {
      const stream = await this.docker.pull(reference, { abortSignal: signal });
      await new Promise<void>((resolve) => this.docker.modem.followProgress(stream, () => resolve()));
    } catch (cause) {
      signal?.throwIfAborted();
      throw new HandoverError('ERR_PULL_FAILED', String(cause), {
        details: { reference, reason: 'unknown', attempts: 1 },
        cause,
      });
    }
  }

  #lease(owner: string, reference: string, imageId: string): ImageLease<DockerImage> {
    const key = `${owner} ${reference}`;
    this.held.add(key);
    const release = async (): Promise<void> => void this.held.delete(key);
    return {
      ...{ owner, reference, imageId, digest: undefined, stale: false },
      artifact: { id: imageId, platform: 'linux/amd64', references: [reference] },
      runnable: imageId,
      verify: async () => {
        this.verified.push(reference);
        this.onVerify();
      },
      release,
      [Symbol.asyncDispose]: release,
    };
  }
}

export interface Bench {
  readonly engine: FakeEngine;
  readonly docker: Docker;
  readonly leases: TestLeases;
  readonly clock: FakeClock;
  readonly driver: DockerDriver;
  /** Warnings of all drivers. */
  readonly warnings: readonly string[];
  /** Another process: a driver that remembers nothing. */
  again(): DockerDriver;
  ask(
    alloc: string,
    spec?: Partial<DockerSpec>,
    more?: Partial<PrestartContext<DockerSpec>>,
  ): PrestartContext<DockerSpec>;
  /** The calls since the last time, ids written as names, queries left out but for what matters. */
  calls(): readonly string[];
}

/**
 * A driver before a fake engine whose registry serves `app:v1`. Containers live by the system's clock; the driver's own
 * time stands still until the test moves it, so that no deadline fires unasked.
 */
export async function bench(): Promise<Bench> {
  const engine = await FakeEngine.start();
  onTestFinished(() => engine.close());
  engine.publish('app:v1');
  const docker = new Docker({ socketPath: engine.socketPath });
  const leases = new TestLeases(docker);
  const clock = new FakeClock();
  const log = eventLog();
  const env = { clock, onEvent: log.onEvent };
  const make = (): DockerDriver => new DockerDriver({ docker, images: leases }, env);
  const names = new Map<string, string>();
  let seen = 0;
  return {
    ...{ engine, docker, leases, clock, driver: make(), again: make },
    get warnings() {
      return log.events.flatMap((event) => (event.type === 'warning' ? [event.reason.code] : []));
    },
    ask: (allocId, spec = {}, more = {}) => ({
      ...{ owner: `${allocId}/web`, allocId, task: 'web', specHash: 'hash-1', report: () => {} },
      spec: { image: 'app:v1', ...spec },
      ...more,
    }),
    calls() {
      for (const { id, labels } of engine.containers) names.set(id, labels['handover.alloc'] ?? 'stranger');
      const fresh = engine.calls.slice(seen).filter((call) => !call.includes(' /images/'));
      seen = engine.calls.length;
      return fresh.map((call) => [...names].reduce((text, [id, name]) => text.replace(id, name), call));
    },
  };
}

/** Moves the driver's time, from timer to timer, once the engine has seen the call that the time is about. */
export async function afterCall(b: Bench, call: RegExp, by: string | number, times = 1): Promise<void> {
  await b.engine.called(call, times);
  await b.clock.advance(by);
}

/** The error a promise rejects with. */
export async function failure(promise: Promise<unknown>): Promise<HandoverError> {
  return promise.then(
    () => {
      throw new Error('it was expected to fail');
    },
    (error: unknown) => error as HandoverError,
  );
}

/** Moves the driver's time on, as often as it waits for it, until the promise has settled. */
export async function moving<T>(b: Bench, promise: Promise<T>): Promise<T> {
  const state = { settled: false };
  const settle = (): void => void (state.settled = true);
  void promise.then(settle, settle);
  while (!state.settled) await b.clock.advance(500);
  return promise;
}
