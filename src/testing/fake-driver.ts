import * as v from 'valibot';
import type { Call } from '../call.js';
import type {
  ExclusiveResource,
  ExecResult,
  ListedTask,
  LogChunk,
  LogOptions,
  PreparedTask,
  PrestartContext,
  TaskDriver,
  TaskHandle,
} from '../driver/driver.js';
import { HandoverError, invalidOption } from '../errors.js';
import { checkArgv, checkCall, checkLogs, checkOwnedCall } from '../internal/check-call.js';
import { signalNumber } from '../internal/signal-names.js';
import { looseObject, parseOptions, port, strictObject, text } from '../options.js';
import type { ExitResult } from '../shutdown/types.js';
import type { Health } from './fake-script.js';
import type { FakeSpec, FakeTask, FakeWorld } from './fake-world.js';

const STILL_RUNS = 'still runs; stop it first';

const SPEC = strictObject({
  version: text,
  port: v.optional(port),
});

/** A newer version may have put more into it. */
const STATE = looseObject({ id: text });

/** A driver whose tasks live in a {@link FakeWorld}. */
export class FakeDriver implements TaskDriver<FakeSpec, { id: string }, FakePrepared> {
  constructor(
    private readonly world: FakeWorld,
    readonly name: string,
  ) {}

  parse(input: unknown): FakeSpec {
    return parseOptions(SPEC, input);
  }

  exclusive({ port }: FakeSpec): readonly ExclusiveResource[] {
    return port === undefined ? [] : [{ kind: 'port', key: `${port}/tcp`, scope: 'host', needed: 'start' }];
  }

  /** The one that every fake task has. */
  ports(): readonly string[] {
    return ['http'];
  }

  async prestart(ctx: PrestartContext<FakeSpec>): Promise<FakePrepared> {
    const { world } = this;
    world.calls.push(`prestart ${ctx.owner}`);
    ctx.signal?.throwIfAborted();
    const leftover = world.ownedBy(ctx.owner);
    if (leftover?.state === 'running') throw this.#failed(leftover, 'prestart', STILL_RUNS);
    if (leftover?.state === 'prepared' && leftover.specHash === ctx.specHash) return new FakePrepared(world, leftover);
    if (leftover !== undefined) discard(world, leftover);
    ctx.report({ phase: 'downloading', attempt: 1, bytes: { done: 0 } });
    await world.act(world.scriptOf(ctx).prestart, ctx.signal);
    ctx.report({ phase: 'done', attempt: 1, bytes: { done: 0 } });
    return new FakePrepared(world, world.create(this.name, ctx));
  }

  async start(prepared: FakePrepared, call: Call): Promise<TaskHandle<{ id: string }>> {
    checkCall(call);
    if (!(prepared instanceof FakePrepared))
      throw invalidOption('prepared', 'must be what prestart() of a FakeHost’s driver gave');
    const { task } = prepared;
    this.world.calls.push(`start ${task.owner}`);
    await this.world.act(this.world.scriptOf(task).start, call.signal);
    this.world.begin(task);
    return this.#handle(task);
  }

  async recover(
    state: { id: string },
    call: Call & { readonly owner: string },
  ): Promise<TaskHandle<{ id: string }> | undefined> {
    const { id } = parseOptions(STATE, state, 'state');
    checkOwnedCall(call);
    call.signal?.throwIfAborted();
    const task = this.#tasks().find((one) => one.id === id && one.state !== 'prepared');
    return task && this.#handle(task);
  }

  async list(call: Call): Promise<readonly ListedTask<{ id: string }>[]> {
    checkCall(call);
    call.signal?.throwIfAborted();
    return this.#tasks().map(({ id, allocId, task, specHash, state, labels }) => ({
      ...{ allocId, task, specHash, labels, state: { id } },
      started: state !== 'prepared',
    }));
  }

  #tasks(): readonly FakeTask[] {
    return this.world.tasks.filter((task) => task.driver === this.name);
  }

  #handle(task: FakeTask): FakeHandle {
    return new FakeHandle(this.world, task, (operation, why) => this.#failed(task, operation, why));
  }

  #failed({ owner }: FakeTask, operation: string, why: string): HandoverError<'ERR_DRIVER'> {
    return new HandoverError('ERR_DRIVER', `Cannot ${operation} ${owner}: it ${why}`, {
      details: { driver: this.name, operation, owner },
    });
  }
}

/** A prepared task of a {@link FakeDriver}. */
class FakePrepared implements PreparedTask {
  readonly owner: string;
  readonly specHash: string;

  constructor(
    private readonly world: FakeWorld,
    readonly task: FakeTask,
  ) {
    this.owner = task.owner;
    this.specHash = task.specHash;
  }

  async intact(call: Call): Promise<boolean> {
    call.signal?.throwIfAborted();
    return this.world.has(this.task);
  }

  async discard(): Promise<void> {
    if (this.task.state === 'prepared') discard(this.world, this.task);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.discard();
  }
}

/** A started task of a {@link FakeDriver}. */
class FakeHandle implements TaskHandle<{ id: string }> {
  readonly id: string;
  readonly state: { readonly id: string };
  readonly startedAt: number | undefined;
  readonly endpoints: TaskHandle['endpoints'];

  constructor(
    private readonly world: FakeWorld,
    private readonly task: FakeTask,
    private readonly failed: (operation: string, why: string) => HandoverError,
  ) {
    this.id = task.owner;
    this.state = { id: task.id };
    this.startedAt = task.startedAt;
    this.endpoints = { http: { address: '127.0.0.1', port: task.port } };
  }

  async isRunning(call: Call): Promise<boolean> {
    call.signal?.throwIfAborted();
    return this.task.state === 'running';
  }

  async wait(call: Call): Promise<ExitResult> {
    return this.task.exit.until((exit) => exit, call.signal);
  }

  async signal(name: string, call: Call): Promise<void> {
    call.signal?.throwIfAborted();
    if (signalNumber(name) === undefined)
      throw invalidOption('signal', `${JSON.stringify(name)} is not a signal of Linux`);
    this.world.calls.push(`signal ${this.task.owner} ${name}`);
    this.world.signal(this.task, name);
  }

  async kill(call: Call): Promise<void> {
    call.signal?.throwIfAborted();
    this.world.calls.push(`kill ${this.task.owner}`);
    this.world.signal(this.task, 'SIGKILL');
  }

  /** What its script says that it writes, at its start. */
  logs(o: LogOptions = {}): AsyncIterable<LogChunk> {
    return this.#read(checkLogs(o));
  }

  async *#read({ follow, since = 0, signal }: ReturnType<typeof checkLogs>): AsyncGenerator<LogChunk, void> {
    const { startedAt: at = 0 } = this;
    signal?.throwIfAborted();
    const { output = {} } = this.world.scriptOf(this.task);
    for (const stream of ['stdout', 'stderr'] as const) {
      const text = at < since ? '' : (output[stream] ?? '');
      if (text !== '') yield { stream, at, chunk: Buffer.from(text) };
    }
    if (follow) await this.task.exit.until((exit) => exit, signal);
  }

  /** What its script answers. */
  async exec(argv: readonly string[], call: Call): Promise<ExecResult> {
    checkArgv(argv);
    checkCall(call);
    call.signal?.throwIfAborted();
    if (this.task.state !== 'running') throw this.failed('exec', 'does not run');
    return this.world.scriptOf(this.task).exec?.(argv) ?? { code: 0, output: '' };
  }

  /** What its script says. */
  async health(call: Call): Promise<Health> {
    call.signal?.throwIfAborted();
    return this.world.scriptOf(this.task).health ?? 'none';
  }

  async destroy(call: Call = {}): Promise<void> {
    call.signal?.throwIfAborted();
    if (this.task.state === 'running') throw this.failed('destroy', STILL_RUNS);
    if (!this.world.has(this.task)) return;
    this.world.remove(this.task);
    this.world.calls.push(`destroy ${this.task.owner}`);
  }
}

function discard(world: FakeWorld, task: FakeTask): void {
  if (!world.has(task)) return;
  world.remove(task);
  world.calls.push(`discard ${task.owner}`);
}
