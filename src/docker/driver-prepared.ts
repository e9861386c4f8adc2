import type { Call } from '../call.js';
import type { PreparedTask } from '../driver/driver.js';
import { HandoverError } from '../errors.js';
import type { ImageLease } from '../image/types.js';
import { messageOf } from '../internal/message-of.js';
import type { ContainerInfo } from './container-info.js';
import type { Containers } from './driver-containers.js';
import type { DockerHandle, DockerState, HandleOptions } from './driver-handle.js';
import { takeName } from './driver-name.js';
import { isEngineFault } from './engine-fault.js';
import { NextExit } from './exit-watch.js';
import type { DockerImage } from './types.js';

/** A container that was created and not started. */
export interface DockerPrepared extends PreparedTask, DockerState {}

/** What a prepared container is made from. */
export interface PreparedOptions {
  readonly who: Readonly<Record<'allocId' | 'task' | 'owner' | 'specHash', string>>;
  readonly state: DockerState;
  /** The fixed name to take at the start. */
  readonly name: string | undefined;
  /** Name of a port → `80/tcp` of the container. */
  readonly ports: Readonly<Record<string, string>>;
  readonly lease: ImageLease<DockerImage>;
  /** When it ran last, if it is a leftover that had run; wall time of the engine. */
  readonly ranAt: number | undefined;
}

const STARTABLE = ['created', 'exited'];

/** A {@link DockerPrepared} with what its driver needs to start it. */
export class PreparedContainer implements DockerPrepared {
  readonly owner: string;
  readonly specHash: string;
  readonly containerId: string;
  readonly imageId: string;
  readonly reference: string;
  /** A start was asked for: whether it runs is not known before we hear. */
  #attempted = false;
  #starting: Promise<DockerHandle> | undefined;
  /** `started`: the handle owns it (DP-1). */
  #end: 'started' | 'discarded' | undefined;

  constructor(
    private readonly containers: Containers,
    private readonly handle: (o: HandleOptions) => DockerHandle,
    private readonly o: PreparedOptions,
  ) {
    this.owner = o.who.owner;
    this.specHash = o.who.specHash;
    this.containerId = o.state.containerId;
    this.imageId = o.state.imageId;
    this.reference = o.state.reference;
  }

  async intact(call: Call): Promise<boolean> {
    if (this.#end !== undefined) return false;
    const info = await this.containers.inspect(this.containerId, call);
    return info !== undefined && STARTABLE.includes(info.status);
  }

  async discard(call: Call = {}): Promise<void> {
    // A start in flight decides first who owns the container.
    await this.#starting?.catch(() => undefined);
    if (this.#end !== undefined) return;
    await this.containers.remove(this.containerId, this.#attempted, call);
    await this.o.lease.release();
    this.#end = 'discarded';
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.discard();
  }

  /** May be repeated after it failed. */
  async start(call: Call): Promise<DockerHandle> {
    call.signal?.throwIfAborted();
    if (this.#end !== undefined) throw this.#failed(`it was ${this.#end} before`);
    this.#starting ??= this.#start(call).finally(() => (this.#starting = undefined));
    return this.#starting;
  }

  async #start(call: Call): Promise<DockerHandle> {
    const { name, state, ports, lease } = this.o;
    const { owner } = this;
    if (name !== undefined) await takeName(this.containers, this.containerId, name, call);
    const nextExit = await NextExit.open(this.containers, this.containerId, call).catch((error: unknown) => {
      call.signal?.throwIfAborted();
      throw this.#failed(messageOf(error), error);
    });
    try {
      await this.#launch(call);
      await this.#undoIfAborted(call);
      const info = await this.#inspect();
      this.#end = 'started';
      return this.handle({ owner, state, info, ports, lease, nextExit });
    } catch (error) {
      nextExit.close();
      throw error;
    }
  }

  /** The call is not aborted once it is on its way, so that its outcome is known (G-8). */
  async #launch(call: Call): Promise<void> {
    this.#attempted = true;
    for (let tries = 1; ; tries++) {
      try {
        await this.containers.start(this.containerId);
        return;
      } catch (error) {
        const unsure = isEngineFault(error) && (error.kind === 'lost' || error.kind === 'late');
        if (!unsure) throw this.#failed(messageOf(error), error);
        if (await this.#hasRun()) return;
        call.signal?.throwIfAborted();
        if (tries === 2) throw this.#failed(messageOf(error), error);
      }
    }
  }

  async #hasRun(): Promise<boolean> {
    const info = await this.#inspect();
    if (info === undefined) throw this.#failed('its container is gone');
    return info.running || info.startedAt !== this.o.ranAt;
  }

  async #inspect(): Promise<ContainerInfo | undefined> {
    try {
      return await this.containers.inspect(this.containerId, {});
    } catch (error) {
      throw this.#failed(messageOf(error), error);
    }
  }

  /** An abort that came while the start was on its way: it is killed, and a discard removes it. */
  async #undoIfAborted({ signal }: Call): Promise<void> {
    if (signal?.aborted !== true) return;
    await this.containers.kill(this.containerId, 'SIGKILL', {}).catch(() => undefined);
    throw signal.reason;
  }

  #failed(why: string, cause?: unknown): HandoverError<'ERR_START_FAILED'> {
    const { allocId, task } = this.o.who;
    return new HandoverError(
      'ERR_START_FAILED',
      `Task ${task} of ${allocId} did not start: ${why}; correct that and start it again, or discard it`,
      { details: { allocId, task }, cause, retryable: isEngineFault(cause) && cause.kind !== 'status' },
    );
  }
}
