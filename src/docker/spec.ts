import type { Duration, Opt } from '../call.js';
import type { PullPolicy } from '../image/types.js';

/** A port of a container. */
export interface DockerPort {
  /** Where the program listens inside the container, 1 to 65535. */
  readonly container: number;
  /**
   * The fixed port of the host. Only one task at a time can have it, so it makes a replacement stop-first. Default: a
   * free one that the engine picks at the start.
   */
  readonly host?: number | undefined;
  /** The address of the host that it is published on. Default: all of them. */
  readonly address?: string | undefined;
  /** Default `tcp`. */
  readonly protocol?: 'tcp' | 'udp' | 'sctp' | undefined;
}

/** Something of the host, or a volume, that the container sees in its file system. */
export interface DockerMount {
  /** A path of the host, or a named volume; an engine makes a volume that is missing, and refuses a path that is. */
  readonly type: 'bind' | 'volume';
  /** The path, absolute, or the name of the volume. */
  readonly source: string;
  /** Where the container sees it; absolute. */
  readonly target: string;
  /** Default `false`. */
  readonly readOnly?: boolean | undefined;
  /**
   * `true`: only one task at a time may have it, as with the files of a database; a replacement is then stop-first (DP-7).
   * Default `false`.
   */
  readonly exclusive?: boolean | undefined;
}

/** A device of the host. */
export interface DockerDevice {
  /** Its path on the host, such as `/dev/ttyUSB0`. */
  readonly host: string;
  /** Its path in the container. Default: the same. */
  readonly container?: string | undefined;
  /** Letters of `rwm`: read, write, make nodes. Default `rwm`. */
  readonly permissions?: string | undefined;
  /** `true`: only one task at a time may have it (DP-7). Default `false`. */
  readonly exclusive?: boolean | undefined;
}

/** A container's place in a network. */
export interface DockerNetwork {
  /** Names that others in the network find it by, besides its own. */
  readonly aliases?: readonly string[] | undefined;
  /**
   * A fixed address, IPv4 or IPv6; the network must have been made with a subnet. Only one task at a time can have it
   * (DP-7). Default: one that the engine picks at the start.
   */
  readonly address?: string | undefined;
}

/** A whole number of bytes, or text with a unit of base 1024: `512m`, `1g`, also `b` and `k`. */
export type Size = number | string;

/** What a container may use of its host. */
export interface DockerResources {
  /** Memory; an engine wants 6m or more. What needs more is ended by the kernel. Default: no limit. */
  readonly memory?: Size | undefined;
  /** Memory and swap together. Default: the engine's, twice the memory. */
  readonly memorySwap?: Size | undefined;
  /** Processors, in parts too: `0.5`. Default: no limit. */
  readonly cpus?: number | undefined;
  /** Processes and threads. Default: no limit. */
  readonly pids?: number | undefined;
  /** By name, such as `nofile`; one number is both limits, -1 is none. Default: the engine's. */
  readonly ulimits?: Readonly<Record<string, number | { readonly soft: number; readonly hard: number }>> | undefined;
}

/** The engine's own check of a container; what it says is in `health()` of a handle. */
export interface DockerHealthcheck {
  /** A program with its arguments, or one text for the shell of the image. Exit code 0 is healthy. */
  readonly test: string | readonly string[];
  /** Between two checks, 1 ms or more. Default: the engine's 30 s. */
  readonly interval?: Duration | undefined;
  /** After which a check counts as failed, 1 ms or more. Default: the engine's 30 s. */
  readonly timeout?: Duration | undefined;
  /** After the start, for so long, failures do not count; 1 ms or more. Default: none. */
  readonly startPeriod?: Duration | undefined;
  /** Failures in a row that make it unhealthy, 1 or more. Default: the engine's 3. */
  readonly retries?: number | undefined;
}

/**
 * What a container is made from.
 *
 * What can be known of a spec is checked by `parse()` and `prestart()`, before anything of a previous task is touched:
 * fields and raw options, networks, names and ports that foreign containers hold. What only a start can tell is told by
 * `ERR_START_FAILED`: a command or user that the image does not have, a device or address that the host or network does
 * not have, and a host port that a program outside of this engine holds.
 */
export type DockerSpec = {
  /** A reference such as `registry:5000/app:v1`, `app@sha256:…`, or an image id. */
  readonly image: string;
} & Opt<{
  /**
   * A fixed name, at least two characters. It is taken at the start and held by one task at a time (DP-7). Default: the
   * container keeps a unique name made of alloc id and task.
   */
  name: string;
  /** Replaces the image's entrypoint, and drops its command; `[]` drops the entrypoint too. */
  entrypoint: readonly string[];
  /** Replaces the image's command: a program and its arguments, or arguments of the entrypoint. */
  command: readonly string[];
  /** Added to the image's environment. Kept out of errors, events and stored state. */
  env: Readonly<Record<string, string>>;
  /** Labels of the container. `handover.` is where the driver's own begin. */
  labels: Readonly<Record<string, string>>;
  /** A name or number, with a group if need be: `1000:1000`. Default: the image's. */
  user: string;
  /** Where the program starts; absolute. Default: the image's. */
  workingDir: string;
  /** What the container calls itself. Default: the beginning of its id. */
  hostname: string;
  /** `true`: a small init of the engine's is its first process, which passes signals on and reaps. Default: the engine's. */
  init: boolean;
  /** What asks the program to end, unless a shutdown says otherwise: a name or number of Linux. Default: the image's. */
  stopSignal: string;
  /** `true`: nothing can be written but to mounts and `tmpfs`. Default `false`. */
  readOnly: boolean;
  /** Path → options of a file system in memory there: `{ '/tmp': 'size=64m' }`; `''` for none. */
  tmpfs: Readonly<Record<string, string>>;
  /** Volumes and paths of the host. */
  mounts: readonly DockerMount[];
  /** Devices of the host. */
  devices: readonly DockerDevice[];
  /** Capabilities of Linux, without `CAP_` in front; `ALL` is all. */
  capabilities: Opt<{ add: readonly string[]; drop: readonly string[] }>;
  /** Limits. Without them there are none. */
  resources: DockerResources;
  /** When to ask the registry. Default: the coordinator's policy. */
  pull: PullPolicy;
  /** By a name of your choice: services and checks name ports by it. */
  ports: Readonly<Record<string, DockerPort>>;
  /**
   * The networks that it is in, by name or id, `{ backend: { aliases: ['db'] } }`; they have to be there, and are never
   * made or removed here. `host`: the network of the host, so that `container` of each port is the host's own, held by one
   * task at a time. `none`: no network. Default: the engine's `bridge`.
   */
  networks: 'host' | 'none' | Readonly<Record<string, DockerNetwork>>;
  /** Host name → address, for the container's `/etc/hosts`; `host-gateway` is the host. */
  extraHosts: Readonly<Record<string, string>>;
  /** The engine's own check. `none` switches off that of the image. Default: that of the image. */
  healthcheck: 'none' | DockerHealthcheck;
  /** Where output goes: a log driver of the engine with its options. Default: the engine's. */
  log: { readonly driver: string; readonly options?: Readonly<Record<string, string>> | undefined };
  /**
   * The engine's own create options, for what has no field above: `{ HostConfig: { ShmSize: 67108864 } }`. Keys of it and
   * of its `HostConfig` that no engine knows are refused, since an engine ignores them; what the keys hold is the
   * engine's to check at the prestart, but for `PortBindings`: a `HostPort` is one port (`8080`, fixed as `host` is), a
   * range or empty, a `HostIp` an address or empty. `null` says nothing.
   *
   * Refused is what would say a thing twice: `Cmd` beside `command`, `HostConfig.Memory` beside `resources.memory`, another
   * binding of a port whose `host` or `address` is given. Refused too are `Image`, `Labels` that begin with `handover.`, and
   * in `HostConfig` a `RestartPolicy` other than `no` and `AutoRemove`: the life of the container is the driver's (DP-8).
   */
  create: Readonly<Record<string, unknown>>;
}>;
