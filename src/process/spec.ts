import { normalize } from 'node:path';
import * as v from 'valibot';
import type { Opt } from '../call.js';
import type { ExclusiveResource } from '../driver/driver.js';
import { invalidOption } from '../errors.js';
import { parseOptions, path, port, record, strictObject, text, wholeRange } from '../options.js';
import { STATE_FILE, contentName } from './task-folder.js';

/**
 * What an OS process is started from.
 *
 * A program, the interpreter of a script, a directory to start in or a place for output that is missing, or that this
 * process has no right to, is found by `prestart()`. Not before the start it shows that a program is none that the
 * system can run (it is for another machine), that arguments and environment are together too big for the system, that a
 * port is taken by somebody who is no task of this host, or whatever has changed since.
 */
export type ProcessSpec = {
  /**
   * The program and its arguments; no shell. A program with a `/` is looked up from `cwd`, one without in the `PATH`
   * that the process gets. Each has less than 128 KiB, as has a variable of `env` with its name.
   */
  readonly argv: readonly string[];
} & Opt<{
  /**
   * A reference to content, such as `https://…#sha256=…`; it is put into the task's directory under its base name, or as
   * `artifact` when that is none or has other characters than letters, digits and `_.~:@+=-`. Not where `stdout` or
   * `stderr` go.
   */
  artifact: string;
  /**
   * `true`: the artifact is a tar archive, plain or with gzip, and what is in it is put into the task's directory, in place
   * of the archive itself. One that has an absolute name in it, `..`, a link that leads outside, a device, or what would
   * take the place of the task's output, is refused before any of it is written; as is one of more than 100,000 entries or
   * 16 GiB. Default `false`.
   */
  unpack: boolean;
  /** Where the process starts; relative to the task's directory. Default: the task's directory. */
  cwd: string;
  /** Its environment; `HANDOVER_TASK` is the driver's own. Kept out of errors, events and stored state. */
  env: Readonly<Record<string, string>>;
  /**
   * Variables of this process that it gets as well, if they are set. Default: `PATH`, `HOME`, `TMPDIR`, `TZ`, `LANG`;
   * nothing else is inherited.
   */
  inheritEnv: readonly string[];
  /**
   * The number of the user that it runs as, with `gid`; for that this process has to be root. It gets no other groups than
   * `gid`. The task's directory can then be written to by that group. Default: the user of this process.
   */
  uid: number;
  /** The number of the group that it runs as, with `uid`. */
  gid: number;
  /** The TCP ports that it will listen on, by a name of your choice. Each is held by one task of the host at a time. */
  ports: Readonly<Record<string, number>>;
  /**
   * File that its output is appended to, made when it is missing; relative to the task's directory. Its own directory
   * has to be there. Default `stdout.log`.
   */
  stdout: string;
  /** The same for its error output; may be the same file. Default `stderr.log`. */
  stderr: string;
}>;

/** Of one string of arguments or environment, in bytes of UTF-8 with the NUL at its end (`execve(2)` of Linux). */
const MAX_STRING = 131_072;
const TOO_LONG = `must have less than ${MAX_STRING} bytes in UTF-8, with the name of a variable: the system takes no more in one argument or variable; put it into a file`;

const fits = (value: string): boolean => Buffer.byteLength(value) < MAX_STRING;

const argument = v.pipe(
  v.string('must be text'),
  v.check((value) => !value.includes('\0'), 'must not contain a NUL'),
  v.check(fits, TOO_LONG),
);
const variable = v.pipe(
  path,
  v.check((value) => !value.includes('='), 'must not contain "="'),
);

/** The greatest number means nobody in particular to `chown(2)`. */
const id = wholeRange(0, 2 ** 32 - 2, 'must be the number of a user or group, from 0');

const SPEC = strictObject({
  argv: v.tupleWithRest([path], argument),
  artifact: v.optional(text),
  unpack: v.optional(v.boolean('must be true or false'), false),
  cwd: v.optional(path, '.'),
  env: v.optional(record(variable, argument), {}),
  inheritEnv: v.optional(v.array(variable), ['PATH', 'HOME', 'TMPDIR', 'TZ', 'LANG']),
  ports: v.optional(
    v.pipe(
      record(text, port),
      v.check((all) => new Set(Object.values(all)).size === Object.values(all).length, 'names one port twice'),
    ),
    {},
  ),
  stdout: v.optional(path, 'stdout.log'),
  stderr: v.optional(path, 'stderr.log'),
  uid: v.optional(id),
  gid: v.optional(id),
});

/** A spec with its defaults filled in; parsing it again changes nothing. */
export type CheckedSpec = v.InferOutput<typeof SPEC>;

/** @throws HandoverError `ERR_INVALID_OPTION` naming the field */
export function parseSpec(input: unknown): CheckedSpec {
  const spec = parseOptions(SPEC, input);
  for (const [name, value] of Object.entries(spec.env)) {
    if (!fits(`${name}=${value}`)) throw invalidOption(`env.${name}`, TOO_LONG);
  }
  if (spec.unpack && spec.artifact === undefined) throw invalidOption('unpack', 'needs an artifact');
  if (spec.uid !== undefined && spec.gid === undefined) throw invalidOption('gid', NEEDED);
  if (spec.gid !== undefined && spec.uid === undefined) throw invalidOption('uid', NEEDED);
  if (spec.artifact !== undefined && !spec.unpack) checkPlace(contentName(spec.artifact), spec);
  return spec;
}

const NEEDED = 'is needed as well: with only one of the two the program would keep our other one';

/** Found out here, before anything is fetched; what only shows in the task's directory `prestart()` refuses. */
function checkPlace(name: string, spec: CheckedSpec): void {
  const place = `would be placed as ${name}, `;
  if (name === STATE_FILE) throw invalidOption('artifact', `${place}which is the driver’s own; give it another name`);
  for (const stream of ['stdout', 'stderr'] as const) {
    if (normalize(spec[stream]) !== name) continue;
    throw invalidOption('artifact', `${place}where ${stream} goes; give ${stream} another file`);
  }
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
