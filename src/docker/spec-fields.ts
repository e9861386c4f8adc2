import { isIPv6 } from 'node:net';
import type {
  DockerDevice,
  DockerHealthcheck,
  DockerMount,
  DockerNetwork,
  DockerResources,
  DockerSpec,
  Size,
} from './spec.js';

/** A field of a spec, and the raw create option that it becomes. */
export interface Field {
  readonly at: string;
  readonly raw: readonly [string] | readonly ['HostConfig' | 'NetworkingConfig', string];
  /** `undefined`: the spec says nothing of it. */
  readonly of: (spec: DockerSpec) => unknown;
}

/** Every field that is a raw option in other words; what has its own rules, image, name, ports, is not in it. */
export const FIELDS: readonly Field[] = [
  { at: 'entrypoint', raw: ['Entrypoint'], of: ({ entrypoint }) => (entrypoint?.length === 0 ? [''] : entrypoint) },
  { at: 'command', raw: ['Cmd'], of: ({ command }) => command },
  { at: 'env', raw: ['Env'], of: ({ env }) => env && pairs(env, '=') },
  { at: 'labels', raw: ['Labels'], of: ({ labels }) => labels },
  { at: 'user', raw: ['User'], of: ({ user }) => user },
  { at: 'workingDir', raw: ['WorkingDir'], of: ({ workingDir }) => workingDir },
  { at: 'hostname', raw: ['Hostname'], of: ({ hostname }) => hostname },
  { at: 'stopSignal', raw: ['StopSignal'], of: ({ stopSignal }) => stopSignal },
  { at: 'healthcheck', raw: ['Healthcheck'], of: ({ healthcheck }) => healthcheck && healthOf(healthcheck) },
  { at: 'init', raw: ['HostConfig', 'Init'], of: ({ init }) => init },
  { at: 'readOnly', raw: ['HostConfig', 'ReadonlyRootfs'], of: ({ readOnly }) => readOnly },
  { at: 'tmpfs', raw: ['HostConfig', 'Tmpfs'], of: ({ tmpfs }) => tmpfs },
  { at: 'mounts', raw: ['HostConfig', 'Mounts'], of: ({ mounts }) => mounts?.map(mountOf) },
  { at: 'devices', raw: ['HostConfig', 'Devices'], of: ({ devices }) => devices?.map(deviceOf) },
  { at: 'capabilities.add', raw: ['HostConfig', 'CapAdd'], of: ({ capabilities }) => capabilities?.add },
  { at: 'capabilities.drop', raw: ['HostConfig', 'CapDrop'], of: ({ capabilities }) => capabilities?.drop },
  limit('memory', 'Memory', ({ memory }) => memory && bytesOf(memory)),
  limit('memorySwap', 'MemorySwap', ({ memorySwap }) => memorySwap && bytesOf(memorySwap)),
  limit('cpus', 'NanoCpus', ({ cpus }) => cpus && Math.round(cpus * 1e9)),
  limit('pids', 'PidsLimit', ({ pids }) => pids),
  limit('ulimits', 'Ulimits', ({ ulimits }) => ulimits && Object.entries(ulimits).map(ulimitOf)),
  { at: 'extraHosts', raw: ['HostConfig', 'ExtraHosts'], of: ({ extraHosts }) => extraHosts && pairs(extraHosts, ':') },
  {
    at: 'log',
    raw: ['HostConfig', 'LogConfig'],
    of: ({ log }) => log && { Type: log.driver, Config: log.options ?? {} },
  },
  { at: 'networks', raw: ['HostConfig', 'NetworkMode'], of: (spec) => modeOf(spec) },
  { at: 'networks', raw: ['NetworkingConfig', 'EndpointsConfig'], of: (spec) => firstOf(spec) },
];

/** Network → how the container is in it, as the engine takes it; all of them but the first, which a create takes. */
export function furtherNetworks({ networks }: DockerSpec): readonly (readonly [network: string, endpoint: object])[] {
  return typeof networks === 'object' ? Object.entries(networks).slice(1).map(endpointOf) : [];
}

/** @returns bytes; `undefined` for what is no size */
export function bytesOf(size: Size): number | undefined {
  const text = typeof size === 'number' ? `${size}b` : size;
  const bytes = Number.parseInt(text) * 1024 ** 'bkmg'.indexOf(text.slice(-1));
  return /^[1-9]\d*[bkmg]$/.test(text) && Number.isSafeInteger(bytes) ? bytes : undefined;
}

function limit(name: keyof DockerResources, raw: string, of: (resources: DockerResources) => unknown): Field {
  return { at: `resources.${name}`, raw: ['HostConfig', raw], of: ({ resources }) => resources && of(resources) };
}

function pairs(of: Readonly<Record<string, string>>, between: string): readonly string[] {
  return Object.entries(of).map(([name, value]) => `${name}${between}${value}`);
}

function healthOf(check: 'none' | DockerHealthcheck): object {
  if (check === 'none') return { Test: ['NONE'] };
  const { test, interval, timeout, startPeriod, retries } = check;
  return {
    Test: typeof test === 'string' ? ['CMD-SHELL', test] : ['CMD', ...test],
    ...{ Interval: nanoseconds(interval), Timeout: nanoseconds(timeout), StartPeriod: nanoseconds(startPeriod) },
    Retries: retries,
  };
}

/** Durations of a spec that was parsed are numbers. */
function nanoseconds(ms: number | string | undefined): number | undefined {
  return ms === undefined ? undefined : Number(ms) * 1e6;
}

function mountOf({ type, source, target, readOnly = false }: DockerMount): object {
  return { Type: type, Source: source, Target: target, ReadOnly: readOnly };
}

function deviceOf({ host, container = host, permissions = 'rwm' }: DockerDevice): object {
  return { PathOnHost: host, PathInContainer: container, CgroupPermissions: permissions };
}

function ulimitOf([name, limits]: readonly [
  string,
  number | { readonly soft: number; readonly hard: number },
]): object {
  const { soft, hard } = typeof limits === 'number' ? { soft: limits, hard: limits } : limits;
  return { Name: name, Soft: soft, Hard: hard };
}

function modeOf({ networks }: DockerSpec): string | undefined {
  return typeof networks === 'object' ? Object.keys(networks)[0] : networks;
}

function firstOf({ networks }: DockerSpec): object | undefined {
  if (typeof networks !== 'object') return undefined;
  return Object.fromEntries(Object.entries(networks).slice(0, 1).map(endpointOf));
}

function endpointOf([network, { aliases = [], address }]: readonly [string, DockerNetwork]): readonly [string, object] {
  const ipam =
    address === undefined ? {} : { IPAMConfig: { [isIPv6(address) ? 'IPv6Address' : 'IPv4Address']: address } };
  return [network, { Aliases: aliases, ...ipam }];
}
