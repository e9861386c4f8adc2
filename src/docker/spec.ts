import * as v from 'valibot';
import type { Opt } from '../call.js';
import type { ExclusiveResource } from '../driver/driver.js';
import type { PullPolicy } from '../image/types.js';
import { looseObject, parseOptions, port, record, strictObject, text } from '../options.js';
import { fixedPorts } from './driver-body.js';

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

/** What a container is made from. */
export type DockerSpec = {
  /** A reference such as `registry:5000/app:v1`, `app@sha256:…`, or an image id. */
  readonly image: string;
} & Opt<{
  /**
   * A fixed name, at least two characters. It is taken at the start and held by one task at a time (DP-7). Default: the
   * container keeps a unique name made of alloc id and task.
   */
  name: string;
  /** Replaces the image's command. */
  command: readonly string[];
  /** Added to the image's environment. Kept out of errors, events and stored state. */
  env: Readonly<Record<string, string>>;
  /** When to ask the registry. Default: the coordinator's policy. */
  pull: PullPolicy;
  /** By a name of your choice: services and checks name ports by it. */
  ports: Readonly<Record<string, DockerPort>>;
  /**
   * The engine's own create options, as they are; where both say something, these win over the fields above, key by
   * key. Labels are merged, and the ones the driver finds its containers by stay its own. Refused are `Image`, and in
   * `HostConfig` a `RestartPolicy` other than `no` and `AutoRemove`: the life of the container is the driver's (DP-8).
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

const variable = v.pipe(text, v.regex(/^[^=\0]+$/, 'must not contain "="'));

/** What would take the container's life out of the driver's hands, and the leased content away (DP-6, DP-8). */
const create = v.pipe(
  looseObject({
    HostConfig: v.nullish(
      looseObject({
        RestartPolicy: v.nullish(
          looseObject({
            Name: v.nullish(
              v.picklist(['', 'no'], 'must be no, or left out: an engine that starts it again undoes its stop (DP-8)'),
            ),
          }),
        ),
        AutoRemove: v.nullish(
          v.literal(false, 'must be left out: how the container ended would be gone with it (DP-8)'),
        ),
      }),
    ),
  }),
  v.check((raw) => !('Image' in raw), 'must not set Image: the driver creates from the leased `image` (DP-6)'),
);

const schema = strictObject({
  image: text,
  name: v.optional(name),
  command: v.optional(v.array(v.string('must be text'))),
  env: v.optional(record(variable, v.string('must be text'))),
  pull: v.optional(
    v.picklist(['if-absent', 'always', 'never', 'if-stale'], 'must be one of if-absent, always, never, if-stale'),
  ),
  ports: v.optional(ports),
  create: v.optional(create),
});

/** @throws HandoverError `ERR_INVALID_OPTION` naming the field */
export function parseSpec(input: unknown): DockerSpec {
  return parseOptions(schema, input);
}

/** What only one container at a time can hold, both not before its start (DP-7). */
export function exclusiveOf(spec: DockerSpec): readonly ExclusiveResource[] {
  const held = { scope: 'host', needed: 'start' } as const;
  return [
    ...fixedPorts(spec).map((key) => ({ kind: 'port', key, ...held }) as const),
    ...(spec.name === undefined ? [] : [{ kind: 'name', key: spec.name, ...held } as const]),
  ];
}
