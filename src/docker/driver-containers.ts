import type { Readable } from 'node:stream';
import type { Call } from '../call.js';
import { type Clock, Deadline } from '../clock.js';
import { HandoverError } from '../errors.js';
import { backoff, type BackoffOptions } from '../internal/backoff.js';
import { sleep } from '../internal/signals.js';
import {
  type ContainerInfo,
  infoOf,
  type InspectBody,
  type ListBody,
  type ListedContainer,
  listedOf,
  type RestartPolicy,
} from './container-info.js';
import { isEngineFault } from './engine-fault.js';
import type { Engine, EngineRequest } from './engine.js';

/** A large container takes its time to be deleted from disk. */
const REMOVE_MS = 120_000;
/** For a connection that broke, and for an engine that stumbled: of calls that may be repeated. */
const TRIES = 3;
const AGAIN: BackoffOptions = { first: 200, max: 2_000, jitter: 'none' };
/** How long somebody else's removal is waited for (C34). */
const REMOVAL_MS = 60_000;

/** The engine's words for "there is nobody to send it to", with statuses that differ by version (C33). */
const NOT_RUNNING = /is not running|no such process|can only kill running containers/i;
const REMOVAL_IN_PROGRESS = /removal of container .* is already in progress/i;
const SAME_NAME = /same name/i;
const ALREADY_IN = /already (exists in|connected to) network/i;
const NOT_PAUSED = /is not paused/i;

/** The answer of `GET /exec/{id}/json`. */
interface ExecBody {
  readonly Running: boolean;
  readonly ExitCode: number | null;
}

/** Containers of one engine. Calls that may be repeated are, a few times, when the connection breaks (G-8). */
export class Containers {
  constructor(
    private readonly engine: Engine,
    private readonly clock: Clock,
  ) {}

  /** @returns `undefined` when there is no such container */
  async inspect(idOrName: string, call: Call): Promise<ContainerInfo | undefined> {
    const request = {
      operation: `inspect container ${idOrName}`,
      method: 'GET',
      path: `/containers/${encodeURIComponent(idOrName)}/json`,
      accept: [200, 404],
    } as const;
    const { status, body } = await this.#again(call, () => this.engine.call<InspectBody>(request, call));
    return status === 404 || body === undefined ? undefined : infoOf(body);
  }

  /** All containers, in all states, that have every one of the labels (`key` or `key=value`). */
  list(label: readonly string[], call: Call): Promise<readonly ListedContainer[]> {
    return this.#list({ all: 1, filters: { label } }, call);
  }

  /** All containers that run, whoever made them. */
  running(call: Call): Promise<readonly ListedContainer[]> {
    return this.#list({}, call);
  }

  async #list(query: NonNullable<EngineRequest['query']>, call: Call): Promise<readonly ListedContainer[]> {
    const request = {
      operation: 'list containers',
      method: 'GET',
      path: '/containers/json',
      query,
      accept: [200],
    } as const;
    const { body = [] } = await this.#again(call, () => this.engine.call<readonly ListBody[]>(request, call));
    return body.map(listedOf);
  }

  /** By name or id. */
  async hasNetwork(name: string, call: Call): Promise<boolean> {
    const request = {
      operation: `inspect network ${name}`,
      method: 'GET',
      path: `/networks/${encodeURIComponent(name)}`,
      accept: [200, 404],
    } as const;
    return (await this.#again(call, () => this.engine.call(request, call))).status === 200;
  }

  /** Puts a container that does not run into one more network; that it is there already is success (DP-9). */
  async connect(network: string, id: string, endpoint: object, call: Call): Promise<void> {
    const request = {
      operation: `connect container ${id} to network ${network}`,
      method: 'POST',
      path: `/networks/${encodeURIComponent(network)}/connect`,
      body: { Container: id, EndpointConfig: endpoint },
      accept: [200],
    } as const;
    try {
      await this.#again(call, () => this.engine.call(request, call));
    } catch (error) {
      if (!isEngineFault(error, 403, 500) || !ALREADY_IN.test(error.text)) throw error;
    }
  }

  /**
   * @returns its id
   * @throws EngineFault; never repeated here
   */
  async create(name: string, body: object): Promise<string> {
    const operation = `create container ${name}`;
    const { body: answer } = await this.engine.call<{ readonly Id: string }>({
      operation,
      method: 'POST',
      path: '/containers/create',
      query: { name },
      body,
      accept: [201],
    });
    if (answer?.Id !== undefined) return answer.Id;
    throw new HandoverError('ERR_DRIVER', `The Docker engine gave no id in its answer to "${operation}"`, {
      details: { driver: 'docker', operation },
      retryable: true,
    });
  }

  /** One that runs already is a success. */
  async start(id: string): Promise<void> {
    await this.#post(id, 'start', [204, 304]);
  }

  /**
   * Never repeated here: a signal is sent once (SS-5).
   *
   * @returns whether there was somebody to send it to; that there was not is a success (DP-9)
   */
  async kill(id: string, signal: string, call: Call): Promise<boolean> {
    try {
      return (await this.#post(id, 'kill', [204, 404], { call, query: { signal } })) === 204;
    } catch (error) {
      if (isEngineFault(error, 409, 500) && NOT_RUNNING.test(error.text)) return false;
      throw error;
    }
  }

  /** One that has the name already is a success. */
  async rename(id: string, name: string, call: Call): Promise<void> {
    try {
      await this.#again(call, () => this.#post(id, 'rename', [204], { call, query: { name } }));
    } catch (error) {
      if (!isEngineFault(error, 400) || !SAME_NAME.test(error.text)) throw error;
    }
  }

  async setRestartPolicy(id: string, policy: RestartPolicy, call: Call): Promise<void> {
    const body = { RestartPolicy: policy };
    await this.#again(call, () => this.#post(id, 'update', [200, 404], { call, body }));
  }

  async pause(id: string, call: Call): Promise<void> {
    await this.#post(id, 'pause', [204, 404], { call });
  }

  async unpause(id: string, call: Call): Promise<void> {
    try {
      await this.#again(call, () => this.#post(id, 'unpause', [204, 404], { call }));
    } catch (error) {
      if (!isEngineFault(error, 409, 500) || !NOT_PAUSED.test(error.text)) throw error;
    }
  }

  /** Opens a wait; it is armed once this resolves. The answer comes at the exit. */
  async openWait(id: string, condition: 'next-exit' | 'not-running', call: Call): Promise<Readable> {
    const request = {
      operation: `wait for container ${id}`,
      method: 'POST',
      path: `/containers/${id}/wait`,
      query: { condition },
      accept: [200],
    } as const;
    return this.engine.stream(request, call);
  }

  /**
   * Opens what a container has written.
   *
   * @param o.since - wall time, ms
   */
  async openLogs(
    id: string,
    o: { readonly follow: boolean; readonly since: number | undefined; readonly timestamps: boolean },
    { signal }: Call,
  ): Promise<Readable> {
    const since = ((o.since ?? 0) / 1000).toFixed(3);
    const request = {
      operation: `read the output of container ${id}`,
      method: 'GET',
      path: `/containers/${id}/logs`,
      query: { stdout: 1, stderr: 1, follow: o.follow ? 1 : 0, timestamps: o.timestamps ? 1 : 0, since },
      accept: [200],
    } as const;
    return this.engine.stream(request, { signal });
  }

  /** @returns the id of a command that can be run inside of a container */
  async createExec(id: string, argv: readonly string[], call: Call): Promise<string> {
    const body = { AttachStdout: true, AttachStderr: true, Cmd: argv };
    const request = { ...this.#execRequest(id), path: `/containers/${id}/exec`, body, accept: [201] };
    const { body: made } = await this.engine.call<{ readonly Id: string }>(request, call);
    return made?.Id ?? '';
  }

  /** Runs the command: never repeated, since it may have run. */
  async startExec(id: string, exec: string, call: Call): Promise<Readable> {
    const body = { Detach: false, Tty: false };
    return this.engine.stream({ ...this.#execRequest(id), path: `/exec/${exec}/start`, body, accept: [200] }, call);
  }

  /** @returns its exit code; `undefined` while it runs */
  async execCode(id: string, exec: string, call: Call): Promise<number | undefined> {
    const request = { ...this.#execRequest(id), method: 'GET', path: `/exec/${exec}/json`, accept: [200] } as const;
    const { body } = await this.#again(call, () => this.engine.call<ExecBody>(request, call));
    return body?.Running === false ? (body.ExitCode ?? undefined) : undefined;
  }

  #execRequest(id: string) {
    return { operation: `run a command in container ${id}`, method: 'POST' } as const;
  }

  /**
   * Removes a container with its anonymous volumes, never named ones; resolves when it is gone, "was gone" included.
   *
   * @param force - kills it if it runs
   * @throws EngineFault status 409 when it runs and `force` is false
   */
  async remove(id: string, force: boolean, call: Call): Promise<void> {
    const request = {
      operation: `remove container ${id}`,
      method: 'DELETE',
      path: `/containers/${id}`,
      query: { v: 1, force: force ? 1 : 0 },
      accept: [204, 404],
      deadline: REMOVE_MS,
    } as const;
    try {
      await this.#again(call, () => this.engine.call(request, call));
    } catch (error) {
      if (!isEngineFault(error, 409) || !REMOVAL_IN_PROGRESS.test(error.text)) throw error;
      await this.#untilGone(id, error, call);
    }
  }

  async #untilGone(id: string, error: unknown, call: Call): Promise<void> {
    const deadline = new Deadline(this.clock, REMOVAL_MS);
    for (let tries = 1; (await this.inspect(id, call)) !== undefined; tries++) {
      if (deadline.expired) throw error;
      await sleep(this.clock, backoff(AGAIN, tries, this.clock), call);
    }
  }

  async #post(
    id: string,
    verb: string,
    accept: readonly number[],
    o: { readonly call?: Call; readonly query?: Readonly<Record<string, string>>; readonly body?: object } = {},
  ): Promise<number> {
    const { call = {}, ...rest } = o;
    const operation = `${verb} container ${id}`;
    const path = `/containers/${id}/${verb}`;
    return (await this.engine.call({ operation, method: 'POST', path, accept, ...rest }, call)).status;
  }

  /** For calls that change nothing when they are done twice. */
  async #again<T>(call: Call, work: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await work();
      } catch (error) {
        const broken = isEngineFault(error) && (error.kind === 'lost' || (error.status ?? 0) >= 500);
        if (!broken || tries >= TRIES) throw error;
        await sleep(this.clock, backoff(AGAIN, tries, this.clock), call);
      }
    }
  }
}
