import { isIP } from 'node:net';
import * as v from 'valibot';
import { record, strictObject, text } from '../options.js';

/** Where a port of a container is asked to be published. */
export interface PortBinding {
  readonly HostIp?: string | null | undefined;
  /** A number, a range, or nothing for one that the engine picks. */
  readonly HostPort?: string | null | undefined;
}

/** The raw create options that the driver itself looks at. */
export interface CreateOptions {
  readonly Cmd?: unknown;
  readonly Env?: unknown;
  readonly NetworkDisabled?: unknown;
  readonly HostConfig?: {
    readonly NetworkMode?: string | null | undefined;
    readonly PortBindings?: Readonly<Record<string, readonly PortBinding[] | null | undefined>> | null | undefined;
  } | null;
  readonly NetworkingConfig?: { readonly EndpointsConfig?: Readonly<Record<string, unknown>> | null } | null;
}

/**
 * The ports of the host from which the engine picks one, as it reads them; 0 = any.
 *
 * @returns `undefined` for what no engine can start with
 */
export function hostPorts(text: string): { readonly first: number; readonly last: number } | undefined {
  const [, from, to = from] = /^(\d+)(?:-(\d+))?$/.exec(text === '' ? '0' : text) ?? [];
  const [first, last] = [Number(from), Number(to)];
  // A range from 0 is created with, and refused at the start.
  const taken = first <= last && last <= 65_535 && (first > 0 || last === 0);
  return taken ? { first, last } : undefined;
}

/** Engines take what is no address for none at all; a zone makes it none. */
export function isAddress(text: string): boolean {
  return isIP(text) > 0 && !text.includes('%');
}

/**
 * The keys of `POST /containers/create` up to API 1.52. Engines ignore a key that they do not know, and read one that
 * is written in other case (`hostconfig`, `image`) as if it were theirs: neither may pass here.
 */
const KEYS = [
  ...['ArgsEscaped', 'AttachStderr', 'AttachStdin', 'AttachStdout', 'Cmd', 'Domainname', 'Entrypoint', 'Env'],
  ...['ExposedPorts', 'Healthcheck', 'Hostname', 'MacAddress', 'NetworkDisabled', 'OnBuild', 'OpenStdin'],
  ...['Shell', 'StdinOnce', 'StopSignal', 'StopTimeout', 'Tty', 'User', 'Volumes', 'WorkingDir'],
];
const HOST_KEYS = [
  ...['Annotations', 'Binds', 'BlkioDeviceReadBps', 'BlkioDeviceReadIOps', 'BlkioDeviceWriteBps'],
  ...['BlkioDeviceWriteIOps', 'BlkioWeight', 'BlkioWeightDevice', 'CapAdd', 'CapDrop', 'Cgroup', 'CgroupParent'],
  ...['CgroupnsMode', 'ConsoleSize', 'ContainerIDFile', 'CpuCount', 'CpuPercent', 'CpuPeriod', 'CpuQuota'],
  ...['CpuRealtimePeriod', 'CpuRealtimeRuntime', 'CpuShares', 'CpusetCpus', 'CpusetMems', 'DeviceCgroupRules'],
  ...['DeviceRequests', 'Devices', 'Dns', 'DnsOptions', 'DnsSearch', 'ExtraHosts', 'GroupAdd', 'IOMaximumBandwidth'],
  ...['IOMaximumIOps', 'Init', 'IpcMode', 'Isolation', 'KernelMemory', 'KernelMemoryTCP', 'Links', 'LogConfig'],
  ...['MaskedPaths', 'Memory', 'MemoryReservation', 'MemorySwap', 'MemorySwappiness', 'Mounts', 'NanoCpus'],
  ...['OomKillDisable', 'OomScoreAdj', 'PidMode', 'PidsLimit', 'Privileged', 'PublishAllPorts', 'ReadonlyPaths'],
  ...['ReadonlyRootfs', 'Runtime', 'SecurityOpt', 'ShmSize', 'StorageOpt', 'Sysctls', 'Tmpfs', 'UTSMode', 'Ulimits'],
  ...['UsernsMode', 'VolumeDriver', 'VolumesFrom'],
];

/** What these hold is the engine's to check, which it does when it creates. */
function unchecked(keys: readonly string[]): Readonly<Record<string, v.OptionalSchema<v.UnknownSchema, undefined>>> {
  return Object.fromEntries(keys.map((key) => [key, v.optional(v.unknown())]));
}

const word = v.nullish(v.string('must be text'));
/** In one spelling, by which a port that is named twice shows. */
const published = v.pipe(
  v.string(),
  v.regex(/^[1-9]\d{0,4}\/(tcp|udp|sctp)$/, 'must be a port with its protocol, such as 80/tcp'),
);
const hostIp = v.pipe(
  v.string('must be text'),
  v.check((ip) => ip === '' || isAddress(ip), 'must be an IP address, or empty for all of them'),
);
const hostPort = v.pipe(
  v.string('must be text'),
  v.check((ports) => hostPorts(ports) !== undefined, 'must be a port, a range such as 8080-8090, or empty for any'),
);
const binding = strictObject({ HostIp: v.nullish(hostIp), HostPort: v.nullish(hostPort) });
const bindings = v.array(binding, 'must be an array of { HostIp, HostPort }');

/** Names of labels that are not the driver's. */
export const ownLabel = v.pipe(
  text,
  v.check((key) => !key.startsWith('handover.'), 'must not begin with handover., where the driver’s own labels do'),
);

const restartPolicy = strictObject({
  Name: v.nullish(
    v.picklist(['', 'no'], 'must be no, or left out: an engine that starts it again undoes its stop (DP-8)'),
  ),
  MaximumRetryCount: v.optional(v.unknown()),
});

const hostConfig = strictObject({
  ...unchecked(HOST_KEYS),
  AutoRemove: v.nullish(v.literal(false, 'must be left out: how the container ended would be gone with it (DP-8)')),
  NetworkMode: word,
  PortBindings: v.nullish(record(published, v.nullish(bindings))),
  RestartPolicy: v.nullish(restartPolicy),
});

/** Raw create options, without what would take the container's life or its content out of the driver's hands. */
export const createOptions = strictObject({
  ...unchecked(KEYS),
  HostConfig: v.nullish(hostConfig),
  Labels: v.nullish(record(ownLabel, v.unknown())),
  Image: v.optional(v.never('must be left out: the driver creates from the leased `image` (DP-6)')),
  NetworkingConfig: v.nullish(strictObject({ EndpointsConfig: v.nullish(record(v.string(), v.unknown())) })),
});
