import { posix } from 'node:path';
import type { ExclusiveResource } from '../driver/driver.js';
import { clash } from '../driver/resources.js';
import { invalidOption } from '../errors.js';
import { parseOptions } from '../options.js';
import type { CreateOptions } from './create-options.js';
import { fixedPorts, plainAddress, portKey } from './published.js';
import { FIELDS } from './spec-fields.js';
import { specSchema } from './spec-schema.js';
import type { DockerPort, DockerSpec } from './spec.js';

/** @throws HandoverError `ERR_INVALID_OPTION` naming the field */
export function parseSpec(input: unknown): DockerSpec {
  const spec: DockerSpec = parseOptions(specSchema, input);
  for (const check of [saidTwice, portSaidTwice, unpublished, notOfTheHost, takenTwice]) {
    const problem = check(spec);
    if (problem !== undefined) throw invalidOption(problem.path, problem.problem);
  }
  return spec;
}

interface Problem {
  readonly path: string;
  readonly problem: string;
}

function saidTwice(spec: DockerSpec): Problem | undefined {
  const create: Readonly<Record<string, unknown>> = spec.create ?? {};
  for (const { at, raw, of } of FIELDS) {
    const said = raw.reduce<unknown>((value, key) => (value as typeof create | null | undefined)?.[key], create);
    if (!isNothing(said) && of(spec) !== undefined) return { path: `create.${raw.join('.')}`, problem: again(at) };
  }
  return undefined;
}

function portSaidTwice({ ports = {}, create }: DockerSpec): Problem | undefined {
  const bindings = (create as CreateOptions | undefined)?.HostConfig?.PortBindings ?? {};
  const twice = named(ports).find(
    ([, port]) => (port.host ?? port.address) !== undefined && !isNothing(bindings[portKey(port)]),
  );
  if (twice === undefined) return undefined;
  return { path: `create.HostConfig.PortBindings.${portKey(twice[1])}`, problem: again(`ports.${twice[0]}`) };
}

/** Without a network of its own a container publishes nothing, and the engine drops the ports without a word. */
function unpublished({ ports = {}, networks, create }: DockerSpec): Problem | undefined {
  const { HostConfig, NetworkDisabled } = (create ?? {}) as CreateOptions;
  const problem = 'leaves the container without ports of its own, and the spec names some; leave one of them out';
  if (networks === 'host' && Object.keys(HostConfig?.PortBindings ?? {}).length > 0) {
    return {
      path: 'create.HostConfig.PortBindings',
      problem: 'publishes nothing in the network of the host; use `ports`',
    };
  }
  if ([ports, HostConfig?.PortBindings ?? {}].every((some) => Object.keys(some).length === 0)) return undefined;
  if (networks === 'none') return { path: 'networks', problem };
  if (NetworkDisabled === true) return { path: 'create.NetworkDisabled', problem };
  const mode = HostConfig?.NetworkMode ?? '';
  return /^(none|host|container:.*)$/.test(mode) ? { path: 'create.HostConfig.NetworkMode', problem } : undefined;
}

function notOfTheHost({ ports = {}, networks }: DockerSpec): Problem | undefined {
  if (networks !== 'host') return undefined;
  for (const [name, { container, host = container, address }] of named(ports)) {
    const problem = 'cannot be in the network of the host, where the program itself chooses; leave it out';
    if (host !== container) return { path: `ports.${name}.host`, problem };
    if (address !== undefined) return { path: `ports.${name}.address`, problem };
  }
  return undefined;
}

function takenTwice(spec: DockerSpec): Problem | undefined {
  const fixed = fixedPorts(spec);
  const taken = fixed.find((one, i) => fixed.slice(0, i).some((other) => clash(one, other)));
  if (taken === undefined) return undefined;
  return { path: 'ports', problem: `asks for port ${taken.key} of the host twice; only one can have it` };
}

function named(ports: Readonly<Record<string, DockerPort>>): readonly (readonly [string, DockerPort])[] {
  return Object.entries(ports);
}

function isNothing(value: unknown): boolean {
  return value === undefined || value === null;
}

function again(field: string): string {
  return `says again what \`${field}\` says; leave one of them out`;
}

/** What only one container at a time can hold, none of it before its start (DP-7). */
export function exclusiveOf(spec: DockerSpec): readonly ExclusiveResource[] {
  const { name, networks, mounts = [], devices = [] } = spec;
  const addresses = typeof networks === 'object' ? Object.entries(networks) : [];
  const held: readonly Pick<ExclusiveResource, 'kind' | 'key' | 'address'>[] = [
    ...fixedPorts(spec).map(
      ({ key, address }) => ({ kind: 'port', key, ...(address === '' ? {} : { address }) }) as const,
    ),
    ...(name === undefined ? [] : [{ kind: 'name', key: name } as const]),
    ...addresses.flatMap(([network, { address }]) =>
      address === undefined ? [] : [{ kind: 'address', key: `${network}/${plainAddress(address)}` } as const],
    ),
    ...mounts
      .filter(({ exclusive }) => exclusive)
      .map(({ source }) => ({ kind: 'mount', key: plainPath(source) }) as const),
    ...devices
      .filter(({ exclusive }) => exclusive)
      .map(({ host }) => ({ kind: 'device', key: plainPath(host) }) as const),
  ];
  return held.map((resource) => ({ ...resource, scope: 'host', needed: 'start' }));
}

/** One spelling of a path, by which two of one place show; the name of a volume is one already. */
function plainPath(source: string): string {
  return posix.normalize(source).replace(/(?<=.)\/$/, '');
}
