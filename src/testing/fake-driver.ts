import * as v from 'valibot';
import type { Call } from '../call.js';
import type {
  ExclusiveResource,
  ListedTask,
  PreparedTask,
  PrestartContext,
  TaskDriver,
  TaskHandle,
} from '../driver/driver.js';
import { HandoverError } from '../errors.js';
import { parseOptions, port, strictObject, text } from '../options.js';
import type { ExitResult } from '../shutdown/types.js';
import type { FakeSpec, FakeTask, FakeWorld } from './fake-world.js';

const SPEC = strictObject({
  version: text,
  port: v.optional(port),
});

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
    if (leftover?.state === 'running') throw this.#stillRuns(leftover, 'prestart');
    if (leftover?.state === 'prepared' && leftover.specHash === ctx.specHash) return new FakePrepared(world, leftover);
    if (leftover !== undefined) discard(world, leftover);
    ctx.report({ phase: 'downloading', attempt: 1, bytes: { done: 0 } });
    await world.act(world.scriptOf(ctx).prestart, ctx.signal);
    ctx.report({ phase: 'done', attempt: 1, bytes: { done: 0 } });
    return new FakePrepared(world, world.create(this.name, ctx));
  }

  async start({ task }: FakePrepared, call: Call): Promise<TaskHandle<{ id: string }>> {
    this.world.calls.push(`start ${task.owner}`);
    await this.world.act(this.world.scriptOf(task).start, call.signal);
    this.world.begin(task);
    return this.#handle(task);
  }

  async recover({ id }: { id: string }, call: Call): Promise<TaskHandle<{ id: string }> | undefined> {
    call.signal?.throwIfAborted();
    const task = this.#tasks().find((one) => one.id === id && one.state !== 'prepared');
    return task && this.#handle(task);
  }

  async list(call: Call): Promise<readonly ListedTask<{ id: string }>[]> {
    call.signal?.throwIfAborted();
    return this.#tasks().map(({ id, allocId, task, specHash, state }) => ({
      ...{ allocId, task, specHash, state: { id } },
      started: state !== 'prepared',
    }));
  }

  #tasks(): readonly FakeTask[] {
    return this.world.tasks.filter((task) => task.driver === this.name);
  }

  #handle(task: FakeTask): FakeHandle {
    return new FakeHandle(this.world, task, () => this.#stillRuns(task, 'destroy'));
  }

  #stillRuns({ owner }: FakeTask, operation: string): HandoverError<'ERR_DRIVER'> {
    return new HandoverError('ERR_DRIVER', `${owner} still runs; stop it before ${operation}`, {
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
    private readonly stillRuns: () => HandoverError,
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
    this.world.calls.push(`signal ${this.task.owner} ${name}`);
    this.world.signal(this.task, name);
  }

  async kill(call: Call): Promise<void> {
    call.signal?.throwIfAborted();
    this.world.calls.push(`kill ${this.task.owner}`);
    this.world.signal(this.task, 'SIGKILL');
  }

  async destroy(call: Call = {}): Promise<void> {
    call.signal?.throwIfAborted();
    if (this.task.state === 'running') throw this.stillRuns();
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
