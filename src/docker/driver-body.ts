import { isPlain } from '../internal/is-plain.js';
import { type CreateOptions, hostPorts, type PortBinding } from './create-options.js';
import type { Labels } from './driver-labels.js';
import type { DockerSpec } from './spec.js';

/**
 * The body of `POST /containers/create`. The restart policy is `no`: the engine must not start again what we stop
 * (DP-8). Ports are only bound by the engine at the start, so the body may name ones that are still in use.
 *
 * @param runnable - pins the leased content (DP-6)
 */
export function createBody(spec: DockerSpec, runnable: string, labels: Labels): object {
  const ours: Json = {
    ...(spec.command === undefined ? {} : { Cmd: spec.command }),
    ...(spec.env === undefined ? {} : { Env: Object.entries(spec.env).map(([key, value]) => `${key}=${value}`) }),
    // An engine publishes only what is exposed as well.
    ExposedPorts: Object.fromEntries(Object.keys(bindingsOf(spec)).map((port) => [port, {}])),
    HostConfig: { RestartPolicy: { Name: 'no' }, PortBindings: bindingsOf(spec) },
  };
  return merge(merge(ours, spec.create ?? {}), { Image: runnable, Labels: labels });
}

/** A port of the host that the engine is asked for by number. */
export interface FixedPort {
  /** `8080/tcp`. */
  readonly key: string;
  /** The address it is bound on; `''` = all. */
  readonly ip: string;
}

/**
 * The fixed ports of a spec, raw options included. A range of several leaves the choice to the engine, as no number and
 * 0 do.
 */
export function fixedPorts(spec: DockerSpec): readonly FixedPort[] {
  return Object.entries(bindingsOf(spec)).flatMap(([port, bindings]) => {
    const protocol = port.slice(port.indexOf('/'));
    return bindings.flatMap(({ HostIp, HostPort }) => {
      const { first = 0, last = 0 } = hostPorts(HostPort ?? '') ?? {};
      return first > 0 && first === last ? [{ key: `${first}${protocol}`, ip: HostIp ?? '' }] : [];
    });
  });
}

/** Whether only one of the two can be bound. */
export function clash(a: FixedPort, b: FixedPort): boolean {
  return a.key === b.key && (covers(a.ip, b.ip) || covers(b.ip, a.ip));
}

function covers(one: string, other: string): boolean {
  if (one === '' || one === other) return true;
  return other.includes(':') ? one === '::' : one === '0.0.0.0';
}

function bindingsOf({ ports = {}, create }: DockerSpec): Readonly<Record<string, readonly PortBinding[]>> {
  const named = Object.values(ports).map(
    ({ container, host }) => [`${container}/tcp`, [{ HostPort: host === undefined ? '' : `${host}` }]] as const,
  );
  const raw = (create as CreateOptions | undefined)?.HostConfig?.PortBindings ?? {};
  return merge(Object.fromEntries(named), raw) as Readonly<Record<string, readonly PortBinding[]>>;
}

type Json = Readonly<Record<string, unknown>>;

/** Objects key by key, `over` wins; anything else, lists too, as a whole. `null` says nothing, as for the engine. */
function merge(base: Json, over: Json): Json {
  const merged = Object.entries(over).flatMap(([key, value]) => {
    const below = base[key];
    if (value === null || value === undefined) return [];
    return [[key, isPlain(below) && isPlain(value) ? merge(below, value) : value] as const];
  });
  return { ...base, ...Object.fromEntries(merged) };
}
