import type { Labels } from './driver-labels.js';
import type { DockerSpec } from './spec.js';

/**
 * The body of `POST /containers/create`. The restart policy is `no`: the engine must not start again what we stop
 * (DP-8). Ports are only bound by the engine at the start, so the body may name ones that are still in use.
 *
 * @param runnable - pins the leased content (DP-6)
 */
export function createBody(spec: DockerSpec, runnable: string, labels: Labels): object {
  const ports = Object.values(spec.ports ?? {});
  const ours: Json = {
    ...(spec.command === undefined ? {} : { Cmd: spec.command }),
    ...(spec.env === undefined ? {} : { Env: Object.entries(spec.env).map(([key, value]) => `${key}=${value}`) }),
    ExposedPorts: Object.fromEntries(ports.map(({ container }) => [`${container}/tcp`, {}])),
    HostConfig: {
      RestartPolicy: { Name: 'no' },
      PortBindings: bindingsOf(spec),
    },
  };
  return merge(merge(ours, spec.create ?? {}), { Image: runnable, Labels: labels });
}

/**
 * The ports of the host that the engine is asked for by number, raw options included: `8080/tcp`. A range leaves the
 * choice to the engine, as no number and 0 do.
 */
export function fixedPorts(spec: DockerSpec): readonly string[] {
  const host = spec.create?.['HostConfig'] as { readonly PortBindings?: Json | null } | null | undefined;
  const bindings = { ...bindingsOf(spec), ...host?.PortBindings };
  const fixed = Object.entries(bindings).flatMap(([port, list]) => {
    const protocol = port.split('/')[1] ?? 'tcp';
    const numbers = (Array.isArray(list) ? list : []).map((binding) => (binding as Binding | null)?.HostPort ?? '');
    return numbers.filter((text) => Number(text) > 0).map((text) => `${Number(text)}/${protocol}`);
  });
  return [...new Set(fixed)];
}

interface Binding {
  readonly HostPort?: string;
}

function bindingsOf({ ports = {} }: DockerSpec): Readonly<Record<string, readonly Binding[]>> {
  const all = Object.values(ports);
  return Object.fromEntries(
    all.map(({ container, host }) => [`${container}/tcp`, [{ HostPort: host === undefined ? '' : `${host}` }]]),
  );
}

type Json = Readonly<Record<string, unknown>>;

/** Objects key by key, `over` wins; anything else, lists too, as a whole. */
function merge(base: Json, over: Json): Json {
  const merged = Object.entries(over).map(([key, value]) => {
    const below = base[key];
    return [key, isPlain(below) && isPlain(value) ? merge(below, value) : value];
  });
  return { ...base, ...(Object.fromEntries(merged) as Json) };
}

function isPlain(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
