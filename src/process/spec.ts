import * as v from 'valibot';
import type { Opt } from '../call.js';
import type { ExclusiveResource } from '../driver/driver.js';
import { parseOptions, port, record, strictObject, text } from '../options.js';

/** What an OS process is started from. */
export type ProcessSpec = {
  /**
   * The program and its arguments; no shell. A program with a `/` is looked up from `cwd`, one without in the `PATH`
   * that the process gets.
   */
  readonly argv: readonly string[];
} & Opt<{
  /** A reference to content, such as `https://…#sha256=…`; it is put into the task's directory under its base name. */
  artifact: string;
  /** Where the process starts; relative to the task's directory. Default: the task's directory. */
  cwd: string;
  /** Its environment; `HANDOVER_TASK` is the driver's own. Kept out of errors, events and stored state. */
  env: Readonly<Record<string, string>>;
  /**
   * Variables of this process that it gets as well, if they are set. Default: `PATH`, `HOME`, `TMPDIR`, `TZ`, `LANG`;
   * nothing else is inherited.
   */
  inheritEnv: readonly string[];
  /** The TCP ports that it will listen on, by a name of your choice. Each is held by one task of the host at a time. */
  ports: Readonly<Record<string, number>>;
  /** File that its output is appended to; relative to the task's directory. Default `stdout.log`. */
  stdout: string;
  /** File that its error output is appended to; relative to the task's directory. Default `stderr.log`. */
  stderr: string;
}>;

/** What the system calls take: C strings. */
const cText = v.pipe(
  v.string('must be text'),
  v.check((value) => !value.includes('\0'), 'must not contain a NUL'),
);
const program = v.pipe(cText, v.nonEmpty('must not be empty'));
const variable = v.pipe(
  program,
  v.check((value) => !value.includes('='), 'must not contain "="'),
);

const SPEC = strictObject({
  argv: v.tupleWithRest([program], cText),
  artifact: v.optional(text),
  cwd: v.optional(program, '.'),
  env: v.optional(record(variable, cText), {}),
  inheritEnv: v.optional(v.array(variable), ['PATH', 'HOME', 'TMPDIR', 'TZ', 'LANG']),
  ports: v.optional(
    v.pipe(
      record(text, port),
      v.check((all) => new Set(Object.values(all)).size === Object.values(all).length, 'names one port twice'),
    ),
    {},
  ),
  stdout: v.optional(program, 'stdout.log'),
  stderr: v.optional(program, 'stderr.log'),
});

/** A spec with its defaults filled in; parsing it again changes nothing. */
export type CheckedSpec = v.InferOutput<typeof SPEC>;

/** @throws HandoverError `ERR_INVALID_OPTION` naming the field */
export function parseSpec(input: unknown): CheckedSpec {
  return parseOptions(SPEC, input);
}

/** The ports of a spec; a program listens when it runs, so they are needed from the start on (DP-7). */
export function exclusiveOf({ ports = {} }: ProcessSpec): readonly ExclusiveResource[] {
  return Object.values(ports).map((number) => ({ kind: 'port', key: `${number}/tcp`, scope: 'host', needed: 'start' }));
}

/** The environment of the process: what the spec says, over what it inherits. */
export function environment(
  { env, inheritEnv }: CheckedSpec,
  own: NodeJS.ProcessEnv,
): Readonly<Record<string, string>> {
  const inherited = inheritEnv.flatMap((name) => {
    const value = own[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return { ...Object.fromEntries(inherited), ...env };
}
