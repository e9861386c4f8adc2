import { randomUUID } from 'node:crypto';
import { resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import * as v from 'valibot';
import type { Call, Opt } from '../call.js';
import type { Clock } from '../clock.js';
import type { ExclusiveResource, ListedTask, PrestartContext, TaskDriver } from '../driver/driver.js';
import { prestartOnce } from '../driver/prestart-once.js';
import { Undos } from '../driver/undos.js';
import { type Env, requireMethods, resolveEnv } from '../env.js';
import { HandoverError, invalidOption } from '../errors.js';
import { Emitter } from '../events.js';
import { checkCall, checkOwnedCall } from '../internal/check-call.js';
import { messageOf } from '../internal/message-of.js';
import { bootId } from '../internal/process-identity.js';
import { errorCode } from '../internal/system-error.js';
import { looseObject, parseOptions, path, strictObject, text } from '../options.js';
import { ProcessHandle, type ProcessState, stateOf } from './handle.js';
import { type Run, killSurvivors } from './identity.js';
import { type Launched, launch } from './launch.js';
import { PreparedProcess, type ProcessPrepared } from './prepared.js';
import { type ArtifactLeases, type Content, prepare } from './prestart.js';
import { type ProcessSpec, exclusiveOf, parseSpec } from './spec.js';
import { StrangerExit, type TaskExit } from './task-exit.js';
import { TaskFolder, type TaskRecord, taskFolders } from './task-folder.js';

/** What a {@link ProcessDriver} is made with. */
export type ProcessDriverOptions = {
  /**
   * Where tasks have their directories, `<directory>/<allocId>/<task>`; made when it is missing. One driver at a time. A
   * relative one is resolved at construction, and stays where it is when the process moves.
   */
  readonly directory: string;
} & Opt<{
  /** By which the driver is named. Default `process`. */
  name: string;
  /** For specs with an `artifact`: `new ImageCoordinator({ source: httpFiles(…) })`. */
  artifacts: ArtifactLeases;
}>;

const OPTIONS = strictObject({
  directory: path,
  name: v.optional(text, 'process'),
  artifacts: v.optional(
    v.custom<ArtifactLeases>((value) => typeof value === 'object' && value !== null, 'must be an ImageCoordinator'),
  ),
});

/** A newer version may have put more into it. */
const STATE = looseObject({
  ...{ pid: v.number(), startedAt: v.number(), directory: text },
  ...{ reference: v.optional(text), artifactId: v.optional(text) },
});

/**
 * Runs tasks as OS processes (DP-10): each in a group of its own, with its output straight in files, living on when
 * this process ends. Signals go to the group, and only while its leader is the process that was started: a number that
 * the system has given to somebody else is never signalled. What is left of the group is killed by `destroy()`. Each
 * start has a mark in its environment, `HANDOVER_TASK`, by which what it started is told from others, and found after a
 * crash; off Linux marks cannot be read: there the remains of a group without its leader are left alone.
 *
 * Exit codes are known for processes that this driver started. Of one that was recovered only its end is known: `code`
 * is `null`, and `by` is `unknown` unless we ended it. For POSIX systems; without process groups it does not work.
 */
export class ProcessDriver implements TaskDriver<ProcessSpec, ProcessState, ProcessPrepared> {
  readonly name: string;
  readonly #directory: string;
  readonly #artifacts: ArtifactLeases | undefined;
  readonly #clock: Clock;
  readonly #undos: Undos;
  /** By owner: whoever recovers a task of this very process gets the handle that learns of its exit. */
  readonly #handles = new Map<string, ProcessHandle>();

  /**
   * @param o - directory, name and the coordinator of content
   * @param env - `clock`; `onEvent` is told of what could not be undone
   * @throws HandoverError `ERR_INVALID_OPTION`
   */
  constructor(o: ProcessDriverOptions, env: Env = {}) {
    const { directory, name, artifacts } = parseOptions(OPTIONS, o);
    requireMethods('artifacts', artifacts, ['acquire', 'adopt', 'release']);
    this.name = name;
    this.#directory = resolve(directory);
    this.#artifacts = artifacts;
    const ground = resolveEnv(env);
    this.#clock = ground.clock;
    this.#undos = new Undos(new Emitter(ground));
    prestartOnce(this);
  }

  /** @throws HandoverError `ERR_INVALID_OPTION` naming the field */
  parse(input: unknown): ProcessSpec {
    return parseSpec(input);
  }

  exclusive(spec: ProcessSpec): readonly ExclusiveResource[] {
    return exclusiveOf(spec);
  }

  ports({ ports = {} }: ProcessSpec): readonly string[] {
    return Object.keys(ports);
  }

  /**
   * Brings the content, makes the task's directory, and looks whether the program could be started.
   *
   * @throws HandoverError `ERR_PULL_FAILED` of the content; `ERR_DRIVER` when the task still runs, or its program is
   *   not there; `ERR_INVALID_OPTION` for an alloc id or task name that cannot be a folder
   */
  async prestart(ctx: PrestartContext<ProcessSpec>): Promise<ProcessPrepared> {
    ctx.signal?.throwIfAborted();
    const spec = parseSpec(ctx.spec);
    const folder = new TaskFolder(this.#directory, ctx.allocId, ctx.task);
    const content = ctx.content === undefined ? undefined : contentOf(ctx.content);
    return this.#undos.guard(ctx, async (undo) => {
      const work = { driver: this.name, artifacts: this.#artifacts, folder, spec, ctx, content, undo };
      const record = await prepare(work);
      return new PreparedProcess(folder, record, spec, undo.move());
    });
  }

  /**
   * Starts the process.
   *
   * @throws HandoverError `ERR_START_FAILED`, or the signal's reason; then nothing of it runs
   */
  async start(prepared: ProcessPrepared, call: Call): Promise<ProcessHandle> {
    checkCall(call);
    const { signal } = call;
    signal?.throwIfAborted();
    const own = await ready(prepared);
    const { folder, record } = own;
    const intent: Run = { mark: randomUUID(), boot: bootId() };
    const { identity, exit } = await this.#launch(own, intent);
    const run = { ...intent, process: identity };
    try {
      const started = { ...record, run };
      await folder.write(started);
      signal?.throwIfAborted();
      own.started = true;
      return this.#handle(folder, started, run, exit);
    } catch (error) {
      killSurvivors(run);
      await exit.wait(undefined);
      throw error;
    }
  }

  /**
   * Finds a task again; `undefined` = it is gone, or has been started anew.
   *
   * @throws HandoverError `ERR_INVALID_OPTION` for what is no state of a handle of this driver
   */
  async recover(state: ProcessState, call: Call & { readonly owner: string }): Promise<ProcessHandle | undefined> {
    parseOptions(STATE, state, 'state');
    checkOwnedCall(call);
    call.signal?.throwIfAborted();
    const [allocId = '', task = ''] = call.owner.split('/');
    const folder = new TaskFolder(this.#directory, allocId, task);
    const record = await folder.find();
    if (record?.run?.process === undefined || !isDeepStrictEqual(stateOf(folder, record), state)) return undefined;
    const known = this.#handles.get(call.owner);
    if (known !== undefined && isDeepStrictEqual(known.state, state)) return known;
    const { content, run } = record;
    if (content !== undefined) {
      await this.#artifacts?.adopt(
        { owner: call.owner, reference: content.reference, imageId: content.id },
        { signal: call.signal },
      );
    }
    if ((await folder.read())?.run?.process === undefined) await folder.write(record);
    return this.#handle(folder, record, run, new StrangerExit(run, this.#clock));
  }

  async list(call: Call): Promise<readonly ListedTask<ProcessState>[]> {
    checkCall(call);
    call.signal?.throwIfAborted();
    const folders = await taskFolders(this.#directory);
    const listed = await Promise.all(folders.map(async (folder) => ({ folder, record: await folder.find() })));
    return listed.flatMap(({ folder, record }) => {
      if (record === undefined) return [];
      const { allocId, task, specHash, run, labels } = record;
      return [{ allocId, task, specHash, state: stateOf(folder, record), started: run?.process !== undefined, labels }];
    });
  }

  /** The intent is on disk first: should this process be killed before the start is on record, it is found by the mark (DP-2). */
  async #launch({ folder, record, spec }: PreparedProcess, intent: Run): Promise<Launched> {
    try {
      await folder.write({ ...record, run: intent });
      return await launch(spec, folder.path, intent.mark, this.#clock);
    } catch (cause) {
      throw startFailed(record, `did not start: ${whyNot(cause)}`, cause);
    }
  }

  #handle(folder: TaskFolder, record: TaskRecord, run: Run, exit: TaskExit): ProcessHandle {
    const handle = new ProcessHandle(this.name, folder, record, this.#clock, run, exit, async () => {
      if (this.#handles.get(handle.id) === handle) this.#handles.delete(handle.id);
      await this.#artifacts?.release(handle.id);
    });
    this.#handles.set(handle.id, handle);
    return handle;
  }
}

/** @throws HandoverError `ERR_INVALID_OPTION` for what is no state of a task */
function contentOf(state: unknown): Content | undefined {
  const { reference, artifactId: id } = parseOptions(STATE, state, 'content');
  return reference === undefined || id === undefined ? undefined : { reference, id };
}

/** What `prestart()` made, if it can be started: once, and only while it is all there. */
async function ready(prepared: ProcessPrepared): Promise<PreparedProcess> {
  if (!(prepared instanceof PreparedProcess)) throw invalidOption('prepared', 'was not prepared by a ProcessDriver');
  if (await prepared.intact({})) return prepared;
  throw startFailed(
    prepared.record,
    'was started already, or what was prepared is not there any more; prepare it again',
  );
}

function startFailed(
  { allocId, task }: TaskRecord,
  problem: string,
  cause?: unknown,
): HandoverError<'ERR_START_FAILED'> {
  return new HandoverError('ERR_START_FAILED', `${allocId}/${task} ${problem}`, { details: { allocId, task }, cause });
}

function whyNot(cause: unknown): string {
  if (errorCode(cause) !== 'E2BIG') return messageOf(cause);
  return 'its arguments and environment are together too big for the system, which takes about a quarter of the stack limit (`ulimit -s`); put some of it into a file (E2BIG)';
}
