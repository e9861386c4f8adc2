import type { Call, Opt } from '../call.js';
import type { Clock } from '../clock.js';
import { type Env, resolveEnv } from '../env.js';
import { invalidOption } from '../errors.js';
import { backoff, type BackoffOptions } from '../internal/backoff.js';
import { signalName, signalNumber } from '../internal/signal-names.js';
import { sleep } from '../internal/signals.js';
import { flag, parseOptions, strictObject, text } from '../options.js';
import type { ExitResult, ShutdownTarget } from '../shutdown/types.js';
import type { ContainerInfo, RestartPolicy } from './container-info.js';
import { Containers } from './driver-containers.js';
import { Engine } from './engine.js';
import { isEngineFault } from './engine-fault.js';
import { exitOf, unknownExit } from './exit.js';
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
  /** How often each signal was sent, or may have been: it may have ended by any of them. */
  readonly #sent = new Map<string, number>();
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

  /**
   * Of the container, else of its image; known once the container was looked at. One that engines do not know, which an
   * image may name, counts as none: the engine itself would then take SIGTERM.
   */
  get stopSignal(): string | undefined {
    return this.#stopSignal === undefined || signalNumber(this.#stopSignal) === undefined
      ? undefined
      : this.#stopSignal;
  }

  async isRunning(call: Call): Promise<boolean> {
    if (this.#exit !== undefined) return false;
    return (await this.#look(call))?.running ?? false;
  }

  async wait(call: Call): Promise<ExitResult> {
    if (this.#exit !== undefined) return this.#exit;
    const exit = await this.#await(call);
    // Somebody else may have learned of it a moment sooner: everybody is told the same.
    return (this.#exit ??= exit);
  }

  /** @throws HandoverError `ERR_INVALID_OPTION` for what engines do not know as a signal */
  async signal(name: string, call: Call): Promise<void> {
    if (signalNumber(name) === undefined) throw invalidOption('signal', `${name} is not a signal of Linux`);
    call.signal?.throwIfAborted();
    const id = await this.#pin(call);
    if (id === undefined) return;
    // Before the call: a signal whose fate is unknown counts as sent (G-8).
    const uncount = this.#count(signalName(name));
    try {
      if (!(await this.containers.kill(id, name, call))) uncount();
    } catch (error) {
      if (hadNoEffect(error)) uncount();
      throw error;
    }
  }

  /** @returns takes back this one, and no other of the same name */
  #count(sent: string): () => void {
    const add = (times: number) => this.#sent.set(sent, (this.#sent.get(sent) ?? 0) + times);
    add(1);
    return () => add(-1);
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
      this.#disarmed.policy = restartPolicy;
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

  /**
   * A wait that was answered is not the end yet: somebody may have restarted the container by hand, or have given it a
   * restart policy. The engine answers a look when a restart that is under way is done; what runs again is waited for
   * again. Nor is a wait that broke; a look comes first, since a wait for what came before would take for ever (DP-8).
   */
  async #await(call: Call): Promise<ExitResult> {
    let code = await this.#nextExit?.code(call);
    for (let looks = 1; ; looks++) {
      call.signal?.throwIfAborted();
      const info = await this.#unlessFailed(call, () => this.#look(call));
      if (info === undefined || (info !== 'failed' && !info.running)) return this.#exitOf(info, code);
      const answer = info === 'failed' ? info : await this.#unlessFailed(call, () => this.#stopped(info.id, call));
      if (typeof answer === 'number') code = answer;
      else await sleep(this.clock, backoff(LOOK_AGAIN, looks, this.clock), call);
    }
  }

  async #stopped(id: string, call: Call): Promise<number | 'failed'> {
    return (await readWait(await this.containers.openWait(id, 'not-running', call))) ?? 'failed';
  }

  async #unlessFailed<T>(call: Call, ask: () => Promise<T>): Promise<T | 'failed'> {
    try {
      return await ask();
    } catch (error) {
      call.signal?.throwIfAborted();
      if (isEngineFault(error)) return 'failed';
      throw error;
    }
  }

  /** @param code - of the last exit that was seen, if one was */
  #exitOf(info: ContainerInfo | undefined, code: number | undefined): ExitResult {
    const now = this.clock.wall();
    const sent = new Set([...this.#sent].filter(([, times]) => times > 0).map(([name]) => name));
    if (info === undefined && code !== undefined) return exitOf({ code, oom: false, at: now }, sent);
    if (info?.startedAt === undefined) return unknownExit(now);
    const at = code === undefined ? (info.finishedAt ?? now) : now;
    return exitOf({ code: info.exitCode, oom: info.oom, at }, sent);
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

/** Refused, or never sent; an engine that tried and failed has sent it, for all anybody knows (C35). */
function hadNoEffect(error: unknown): boolean {
  return isEngineFault(error) && (error.kind === 'not-sent' || (error.status ?? 500) < 500);
}

const targetSchema = strictObject({ keepRestartPolicy: flag(false) });

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
  const id = parseOptions(text, idOrName, 'idOrName');
  const { keepRestartPolicy } = parseOptions(targetSchema, o);
  const { clock } = resolveEnv(env);
  const containers = new Containers(new Engine(docker, clock), clock);
  return new ContainerTarget(containers, clock, { id, container: id, keepRestartPolicy }, false);
}
