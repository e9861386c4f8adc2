import * as v from 'valibot';
import type { Duration, Opt } from '../call.js';
import { type HandoverError, isHandoverError } from '../errors.js';
import { isPlain } from '../internal/is-plain.js';
import { parseOptions, requiredDuration, strictObject } from '../options.js';
import type { ExecResult } from '../driver/driver.js';
import type { ExitResult } from '../shutdown/types.js';

/** How the tasks of one alloc, or one task, behave. What is not said happens at once and goes well. */
export type FakeScript = Opt<{
  /** How long the slow work takes; `'hang'` until it is aborted; or the error that it ends with. */
  prestart: Duration | HandoverError;
  /** How long the start takes, or the error that it ends with. */
  start: Duration | HandoverError;
  /** Ends by itself so long after its start. Default: never. */
  exitAfter: Duration;
  /** Between the first signal and the exit. Default 0: on the next tick of the clock. */
  exitDelay: Duration;
  /** Facts of an exit that was not a kill. Default: code 0. */
  exit: Partial<ExitResult>;
  /** Signals that change nothing; with `SIGKILL` among them the task cannot be killed. */
  ignores: readonly string[];
  /** What it writes at its start. Default: nothing. */
  output: { readonly stdout?: string; readonly stderr?: string };
  /** What a command comes to. Default: code 0, no output. */
  exec: (argv: readonly string[]) => ExecResult;
  /** What its own check says. Default `none`. */
  health: Health;
}>;

/** What a check of an engine's own can say. */
export type Health = 'starting' | 'healthy' | 'unhealthy' | 'none';

/** A script whose durations are milliseconds. */
export interface ParsedScript {
  readonly prestart?: number | HandoverError | undefined;
  readonly start?: number | HandoverError | undefined;
  readonly exitAfter?: number | undefined;
  readonly exitDelay?: number | undefined;
  readonly exit?: Partial<ExitResult> | undefined;
  readonly ignores?: readonly string[] | undefined;
  readonly output?: { readonly stdout?: string | undefined; readonly stderr?: string | undefined } | undefined;
  readonly exec?: FakeScript['exec'];
  readonly health?: Health | undefined;
}

const failure = v.custom<HandoverError>((value) => isHandoverError(value));
const hang = v.pipe(
  v.literal('hang'),
  v.transform(() => Infinity),
);
const time = v.optional(requiredDuration({ never: true }));

/** A span of time, or what happens instead. */
const step = v.optional(
  v.lazy((input) => (isHandoverError(input) ? failure : input === 'hang' ? hang : requiredDuration({ never: true }))),
);

const SCRIPT = strictObject({
  prestart: step,
  start: step,
  exitAfter: time,
  exitDelay: time,
  exit: v.optional(v.custom<Partial<ExitResult>>(isPlain, 'must be facts of an exit')),
  ignores: v.optional(v.array(v.string('must be names of signals'))),
  output: v.optional(strictObject({ stdout: v.optional(v.string()), stderr: v.optional(v.string()) })),
  exec: v.optional(
    v.custom<NonNullable<FakeScript['exec']>>((value) => typeof value === 'function', 'must be a function'),
  ),
  health: v.optional(v.picklist(['starting', 'healthy', 'unhealthy', 'none'])),
});

/** @throws HandoverError `ERR_INVALID_OPTION`: a script that is spelled wrong would test something else */
export function parseScript(script: FakeScript): ParsedScript {
  return parseOptions(SCRIPT, script, 'script');
}
