import * as v from 'valibot';
import type { Call, Opt } from '../call.js';
import type { Clock } from '../clock.js';
import { type Env, resolveEnv } from '../env.js';
import { backoff, type BackoffOptions } from '../internal/backoff.js';
import { sleep } from '../internal/signals.js';
import { flag, parseOptions } from '../options.js';
import type { ExitResult, ShutdownTarget } from '../shutdown/types.js';
import { type ContainerInfo, Containers, type RestartPolicy } from './driver-containers.js';
import { Engine } from './engine.js';
import { isEngineFault } from './engine-fault.js';
import { exitOf, signalName, unknownExit } from './exit.js';
import { type NextExit, readWait } from './exit-watch.js';
import type { DockerLike } from './types.js';

/** Between two looks at a container whose engine does not answer. */
const LOOK_AGAIN: BackoffOptions = { first: 200, max: 5_000, jitter: 'full' };
const NO_RESTART: RestartPolicy = { Name: 'no' };

/** What a target has to know of its container. */
export interface ContainerTargetOptions {
  /** Id of the target: runs on the same one join. */
  readonly id: string;
  /** Id or name of the container. */
  readonly container: string;
  readonly stopSignal?: string | undefined;
  readonly keepRestartPolicy?: boolean;
  /** A wait that was opened before the start. */
  readonly nextExit?: NextExit | undefined;
}

/** Any container, as something that can be stopped. */
export class ContainerTarget implements ShutdownTarget {
  readonly id: string;
  /** A name may move on to the successor: whoever it meant when we first looked is who we mean. */
  #container: string;
  #pinned: boolean;
  #stopSignal: string | undefined;
  readonly #keepRestartPolicy: boolean;
  readonly #nextExit: NextExit | undefined;
  readonly #sent = new Set<string>();
  #exit: ExitResult | undefined;
  #disarmed: { policy?: RestartPolicy; paused?: true } = {};

  constructor(
    protected readonly containers: Containers,
    protected readonly clock: Clock,
    o: ContainerTargetOptions,
    pinned: boolean,
  ) {
    this.id = o.id;
    this.#container = o.container;
    this.#pinned = pinned;
    this.#stopSignal = o.stopSignal;
    this.#keepRestartPolicy = o.keepRestartPolicy ?? false;
    this.#nextExit = o.nextExit;
  }

  /** Of the container, else of its image; known once the container was looked at. */
  get stopSignal(): string | undefined {
    return this.#stopSignal;
  }

  async isRunning(call: Call): Promise<boolean> {
    if (this.#exit !== undefined) return false;
    return (await this.#look(call))?.running ?? false;
  }

  async wait(call: Call): Promise<ExitResult> {
    this.#exit ??= await this.#await(call);
    return this.#exit;
  }

  async signal(name: string, call: Call): Promise<void> {
    const id = await this.#pin(call);
    if (id === undefined) return;
    // Before the call: a signal whose fate is unknown counts as sent (G-8).
    const sent = signalName(name);
    this.#sent.add(sent);
    if (!(await this.containers.kill(id, name, call))) this.#sent.delete(sent);
  }

  kill(call: Call): Promise<void> {
    return this.signal('SIGKILL', call);
  }

  /** SS-11: a frozen container takes no signal, and a restart policy undoes the stop (C38). */
  async disarm(call: Call): Promise<void> {
    const info = await this.#look(call);
    if (info === undefined) return;
    const { id, restartPolicy, paused } = info;
    if (!this.#keepRestartPolicy && !['', 'no'].includes(restartPolicy.Name)) {
      this.#disarmed.policy ??= restartPolicy;
      await this.containers.setRestartPolicy(id, NO_RESTART, call);
    }
    if (paused) {
      this.#disarmed.paused = true;
      await this.containers.unpause(id, call);
    }
  }

  /** Puts back what {@link ContainerTarget.disarm} changed, and only that. */
  async rearm(call: Call): Promise<void> {
    const { policy, paused } = this.#disarmed;
    if (policy !== undefined) await this.containers.setRestartPolicy(this.#container, policy, call);
    if (paused === true) await this.containers.pause(this.#container, call);
    this.#disarmed = {};
  }

  async #await(call: Call): Promise<ExitResult> {
    const code = await this.#nextExit?.code(call);
    if (code !== undefined) return this.#observed(code, call);
    for (let failures = 1; ; failures++) {
      call.signal?.throwIfAborted();
      const exit = await this.#lookForExit(call);
      if (exit !== undefined) return exit;
      await sleep(this.clock, backoff(LOOK_AGAIN, failures, this.clock), call);
    }
  }

  /** Inspects first and then waits, since a wait for something that came before would take for ever (DP-8). */
  async #lookForExit(call: Call): Promise<ExitResult | undefined> {
    try {
      const info = await this.#look(call);
      if (info === undefined) return unknownExit(this.clock.wall());
      if (!info.running) return this.#found(info);
      const code = await readWait(await this.containers.openWait(info.id, 'not-running', call));
      return code === undefined ? undefined : await this.#observed(code, call);
    } catch (error) {
      call.signal?.throwIfAborted();
      if (isEngineFault(error)) return undefined;
      throw error;
    }
  }

  #found(info: ContainerInfo): ExitResult {
    const at = info.finishedAt ?? this.clock.wall();
    if (info.startedAt === undefined) return unknownExit(at);
    return exitOf({ code: info.exitCode, oom: info.oom, at }, this.#sent);
  }

  /** Only 137 can be the kernel's doing, and only the engine can tell. */
  async #observed(code: number, call: Call): Promise<ExitResult> {
    const at = this.clock.wall();
    const asked = code === 137 && !this.#sent.has('SIGKILL');
    const info = asked ? await this.#look(call).catch(() => undefined) : undefined;
    return exitOf({ code, oom: info?.oom ?? false, at }, this.#sent);
  }

  async #look(call: Call): Promise<ContainerInfo | undefined> {
    const info = await this.containers.inspect(this.#container, call);
    if (info === undefined) return undefined;
    this.#container = info.id;
    this.#pinned = true;
    this.#stopSignal = info.stopSignal;
    return info;
  }

  async #pin(call: Call): Promise<string | undefined> {
    if (this.#pinned) return this.#container;
    return (await this.#look(call))?.id;
  }
}

const targetSchema = v.strictObject({ keepRestartPolicy: flag(false) });

/**
 * Any container as something that a {@link ShutdownSequencer} can stop, also one that this library did not make. One
 * that is not there counts as stopped.
 *
 * @param docker - the Docker client
 * @param idOrName - of the container; also the target's id. A name is looked up once: the container it means then is
 *   the one that is stopped, even if another one takes the name meanwhile
 * @param o.keepRestartPolicy - `true`: the container's restart policy stays as it is; a policy other than `no` may then
 *   start it again. Default `false`: it is set to `no` before the first signal, and put back when the stop is called off
 * @param env - `clock`
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function dockerTarget(
  docker: DockerLike,
  idOrName: string,
  o: Opt<{ keepRestartPolicy: boolean }> = {},
  env: Env = {},
): ShutdownTarget {
  const { keepRestartPolicy } = parseOptions(targetSchema, o);
  const { clock } = resolveEnv(env);
  const containers = new Containers(new Engine(docker, clock), clock);
  return new ContainerTarget(containers, clock, { id: idOrName, container: idOrName, keepRestartPolicy }, false);
}
