import { isIPv6 } from 'node:net';
import { type CreateOptions, hostPorts, type PortBinding } from './create-options.js';
import { merge } from './merge.js';
import type { DockerPort, DockerSpec } from './spec.js';

/** A port of the host that the engine is asked for by number. */
export interface FixedPort {
  /** `8080/tcp`. */
  readonly key: string;
  /** The address it is bound on; `''` = all. */
  readonly address: string;
}

/** `80/tcp`: the port of the container, as the engine names it. */
export function portKey({ container, protocol = 'tcp' }: DockerPort): string {
  return `${container}/${protocol}`;
}

/** Name of a port → `80/tcp`. */
export function portsOf({ ports = {} }: DockerSpec): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, portKey(port)]));
}

/** An IPv6 address in one spelling, by which two of one address show. */
export function plainAddress(address: string): string {
  return isIPv6(address) ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address;
}

/** Where each port is published, raw options included; in the network of the host nothing is. */
export function bindingsOf({
  ports = {},
  networks,
  create,
}: DockerSpec): Readonly<Record<string, readonly PortBinding[]>> {
  const named = Object.values(networks === 'host' ? {} : ports).map((port) => {
    const { host, address } = port;
    const binding = { HostPort: host === undefined ? '' : `${host}`, HostIp: address };
    return [portKey(port), [binding]] as const;
  });
  const raw = (create as CreateOptions | undefined)?.HostConfig?.PortBindings ?? {};
  return merge(Object.fromEntries(named), raw) as Readonly<Record<string, readonly PortBinding[]>>;
}

/**
 * The fixed ports of a spec, raw options included. A range of several leaves the choice to the engine, as no number and
 * 0 do.
 */
export function fixedPorts(spec: DockerSpec): readonly FixedPort[] {
  const shared = spec.networks === 'host' ? Object.values(spec.ports ?? {}) : [];
  const published = Object.entries(bindingsOf(spec)).flatMap(([port, bindings]) => {
    const protocol = port.slice(port.indexOf('/'));
    return bindings.flatMap(({ HostIp, HostPort }) => {
      const { first = 0, last = 0 } = hostPorts(HostPort ?? '') ?? {};
      return first > 0 && first === last ? [{ key: `${first}${protocol}`, address: plainAddress(HostIp ?? '') }] : [];
    });
  });
  return [...shared.map((port) => ({ key: portKey(port), address: '' })), ...published];
}
