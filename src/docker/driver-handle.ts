import type { Call } from '../call.js';
import type { Clock } from '../clock.js';
import type { ExecResult, LogChunk, LogOptions, TaskHandle } from '../driver/driver.js';
import type { ImageLease } from '../image/types.js';
import { checkArgv, checkCall, checkLogs } from '../internal/check-call.js';
import { execIn } from './container-exec.js';
import type { ContainerInfo, Health } from './container-info.js';
import { ContainerLogs } from './container-logs.js';
import type { Containers } from './driver-containers.js';
import type { NextExit } from './exit-watch.js';
import { ContainerTarget } from './target.js';
import type { DockerImage } from './types.js';

/** By what a container is found again; JSON, no secrets. */
export interface DockerState {
  readonly containerId: string;
  readonly imageId: string;
  /** As the spec gave it. */
  readonly reference: string;
}

/** What a handle is made from. */
export interface HandleOptions {
  readonly owner: string;
  readonly state: DockerState;
  /** `undefined`: it is gone already. */
  readonly info: ContainerInfo | undefined;
  /** Name of a port → `80/tcp` of the container. */
  readonly ports: Readonly<Record<string, string>>;
  /** `undefined`: the image is gone, the container is not. */
  readonly lease: ImageLease<DockerImage> | undefined;
  readonly nextExit?: NextExit;
}

/** A container that was started. */
export class DockerHandle extends ContainerTarget implements TaskHandle<DockerState> {
  readonly state: DockerState;
  /**
   * Where each named port is published. A port that is published on all addresses is given as 127.0.0.1, the engine's
   * host as seen from itself, as is one in the network of the host; a port that is not published is left out.
   */
  readonly endpoints: TaskHandle['endpoints'];
  /** By the engine's clock. */
  readonly startedAt: number | undefined;
  readonly #lease: ImageLease<DockerImage> | undefined;

  /** @param destroyed - called when it is gone for good */
  constructor(
    containers: Containers,
    clock: Clock,
    o: HandleOptions,
    private readonly destroyed: () => void,
  ) {
    const { containerId: container } = o.state;
    const { stopSignal } = o.info ?? {};
    super(containers, clock, { id: o.owner, container, stopSignal, nextExit: o.nextExit }, true);
    this.state = o.state;
    this.endpoints = endpointsOf(o.info, o.ports);
    this.startedAt = o.info?.startedAt;
    this.#lease = o.lease;
  }

  /**
   * What the container has written, both outputs in order; with a terminal all of it is `stdout`, and `at` is unknown.
   * While it is followed, a connection that is lost is made anew, and nothing is given twice; with a terminal, of which
   * the engine keeps no times, it then ends with the error.
   *
   * @throws HandoverError `ERR_INVALID_OPTION` at once; `ERR_DRIVER` while it is read, from a log driver that cannot be
   *   read for one
   */
  logs(o: LogOptions = {}): AsyncIterable<LogChunk> {
    const { follow, since, signal } = checkLogs(o);
    return new ContainerLogs(this.containers, this.clock, this.state.containerId, { follow, since, signal }).read();
  }

  /**
   * Runs a command in the container. A program that cannot be run has the engine's words as output, and code 126 or 127.
   * An abort stops the waiting; the command goes on, since engines have no call that ends it.
   *
   * @throws HandoverError `ERR_INVALID_OPTION`; `ERR_DRIVER` when the container does not run
   */
  async exec(argv: readonly string[], call: Call): Promise<ExecResult> {
    checkArgv(argv);
    checkCall(call);
    return execIn(this.containers, this.clock, this.state.containerId, argv, call);
  }

  /** @throws HandoverError `ERR_DRIVER` */
  async health(call: Call): Promise<Health> {
    checkCall(call);
    return (await this.containers.inspect(this.state.containerId, call))?.health ?? 'none';
  }

  /**
   * Removes the container with its anonymous volumes, and releases the image.
   *
   * @throws HandoverError `ERR_DRIVER` when it still runs, or the engine could not remove it; the image stays leased
   */
  async destroy(call: Call = {}): Promise<void> {
    await this.containers.remove(this.state.containerId, false, call);
    await this.#lease?.release();
    this.destroyed();
  }
}

const ANY_ADDRESS = ['', '0.0.0.0', '::'];
const LOCAL = '127.0.0.1';

function endpointsOf(
  info: ContainerInfo | undefined,
  ports: Readonly<Record<string, string>>,
): TaskHandle['endpoints'] {
  const found = Object.entries(ports).flatMap(([name, key]) => {
    if (info?.hostNetwork === true) return [[name, { address: LOCAL, port: Number.parseInt(key) }] as const];
    const [binding] = info?.ports[key] ?? [];
    if (binding === undefined) return [];
    const address = ANY_ADDRESS.includes(binding.HostIp) ? LOCAL : binding.HostIp;
    return [[name, { address, port: Number(binding.HostPort) }] as const];
  });
  return Object.fromEntries(found);
}
