import * as v from 'valibot';
import type { Opt } from '../call.js';
import type { ExclusiveResource } from '../driver/driver.js';
import { invalidOption } from '../errors.js';
import type { PullPolicy } from '../image/types.js';
import { parseOptions, port, record, strictObject, text } from '../options.js';
import { type CreateOptions, createOptions } from './create-options.js';
import { clash, fixedPorts } from './driver-body.js';

/** A port of a container. */
export interface DockerPort {
  /** Where the program listens inside the container; TCP, 1 to 65535. */
  readonly container: number;
  /**
   * The fixed port of the host, on all addresses that the engine publishes on by default. Only one task at a time can
   * have it, so it makes a replacement stop-first. Default: a free one that the engine picks at the start.
   */
  readonly host?: number | undefined;
}

/**
 * What a container is made from.
 *
 * What can be known of a spec is checked by `parse()` and `prestart()`, before anything of a previous task is touched:
 * fields and raw options, networks, names and ports that foreign containers hold. What only a start can tell is told by
 * `ERR_START_FAILED`: a command or user that the image does not have, a device or address that the host does not have,
 * and a host port that a program outside of this engine holds.
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
  /** Replaces the image's command: a program and its arguments. */
  command: readonly string[];
  /** Added to the image's environment. Kept out of errors, events and stored state. */
  env: Readonly<Record<string, string>>;
  /** When to ask the registry. Default: the coordinator's policy. */
  pull: PullPolicy;
  /** By a name of your choice: services and checks name ports by it. */
  ports: Readonly<Record<string, DockerPort>>;
  /**
   * The engine's own create options, for what has no field above: `{ HostConfig: { Binds: ['data:/data'] } }`. Keys of
   * it and of its `HostConfig` that no engine knows are refused, since an engine ignores them; what the keys hold is
   * the engine's to check at the prestart, but for `PortBindings`: a `HostPort` is one port (`8080`, fixed as `host` is),
   * a range or empty, a `HostIp` an address or empty. `null` says nothing.
   *
   * Refused is what would say a thing twice: `Cmd` beside `command`, `Env` beside `env`, another binding of a port whose
   * `host` is given. Labels are merged, and the ones the driver finds its containers by stay its own. Refused too are
   * `Image`, and in `HostConfig` a `RestartPolicy` other than `no` and `AutoRemove`: the life of the container is the
   * driver's (DP-8).
   */
  create: Readonly<Record<string, unknown>>;
}>;

const ports = v.pipe(
  record(text, strictObject({ container: port, host: v.optional(port) })),
  v.check((all) => {
    const containers = Object.values(all).map(({ container }) => container);
    return new Set(containers).size === containers.length;
  }, 'names one container port twice; give it one name'),
);

/** The engine's own grammar of container names. */
const name = v.pipe(
  v.string('must be text'),
  v.regex(
    /^[a-zA-Z0-9][a-zA-Z0-9_.-]+$/,
    'must be two or more letters, digits, "_", "." or "-", and begin with a letter or digit',
  ),
);

/** A program is given text up to the first NUL only, or it is not started at all. */
const cString = v.pipe(v.string('must be text'), v.regex(/^[^\0]*$/, 'must not contain NUL'));
const variable = v.pipe(text, v.regex(/^[^=\0]+$/, 'must contain neither "=" nor NUL'));
const command = v.pipe(
  v.array(cString),
  v.check(([program = '']) => program !== '', 'must begin with a program; leave it out for the command of the image'),
);

const schema = strictObject({
  image: text,
  name: v.optional(name),
  command: v.optional(command),
  env: v.optional(record(variable, cString)),
  pull: v.optional(
    v.picklist(['if-absent', 'always', 'never', 'if-stale'], 'must be one of if-absent, always, never, if-stale'),
  ),
  ports: v.optional(ports),
  create: v.optional(createOptions),
});

/** @throws HandoverError `ERR_INVALID_OPTION` naming the field */
export function parseSpec(input: unknown): DockerSpec {
  const spec: DockerSpec = parseOptions(schema, input);
  const problem = saidTwice(spec) ?? unpublished(spec);
  if (problem !== undefined) throw invalidOption(problem.path, problem.problem);
  return spec;
}

interface Problem {
  readonly path: string;
  readonly problem: string;
}

/** Without a network of its own a container publishes nothing, and the engine drops the ports without a word. */
function unpublished({ ports = {}, create }: DockerSpec): Problem | undefined {
  const { HostConfig, NetworkDisabled } = (create ?? {}) as CreateOptions;
  if ([ports, HostConfig?.PortBindings ?? {}].every((some) => Object.keys(some).length === 0)) return undefined;
  const problem = 'leaves the container without ports of its own, and the spec names some; leave one of them out';
  if (NetworkDisabled === true) return { path: 'create.NetworkDisabled', problem };
  const mode = HostConfig?.NetworkMode ?? '';
  return /^(none|host|container:.*)$/.test(mode) ? { path: 'create.HostConfig.NetworkMode', problem } : undefined;
}

function saidTwice(spec: DockerSpec): Problem | undefined {
  const { Cmd, Env, HostConfig } = (spec.create ?? {}) as CreateOptions;
  if (spec.command !== undefined && !isNothing(Cmd)) return { path: 'create.Cmd', problem: again('command') };
  if (spec.env !== undefined && !isNothing(Env)) return { path: 'create.Env', problem: again('env') };
  for (const [name, { container, host }] of Object.entries(spec.ports ?? {})) {
    const key = `${container}/tcp`;
    if (host === undefined || isNothing(HostConfig?.PortBindings?.[key])) continue;
    return { path: `create.HostConfig.PortBindings.${key}`, problem: again(`ports.${name}.host`) };
  }
  const fixed = fixedPorts(spec);
  const taken = fixed.find((one, i) => fixed.slice(0, i).some((other) => clash(one, other)));
  if (taken === undefined) return undefined;
  return { path: 'ports', problem: `asks for port ${taken.key} of the host twice; only one can have it` };
}

function isNothing(value: unknown): boolean {
  return value === undefined || value === null;
}

function again(field: string): string {
  return `says again what \`${field}\` says; leave one of them out`;
}

/** What only one container at a time can hold, both not before its start (DP-7). */
export function exclusiveOf(spec: DockerSpec): readonly ExclusiveResource[] {
  const held = { scope: 'host', needed: 'start' } as const;
  return [
    ...[...new Set(fixedPorts(spec).map(({ key }) => key))].map((key) => ({ kind: 'port', key, ...held }) as const),
    ...(spec.name === undefined ? [] : [{ kind: 'name', key: spec.name, ...held } as const]),
  ];
}
