import { HandoverError, prestartOnce, UndoStack } from 'handover';
import type { Call, ExitResult, ListedTask, PreparedTask, PrestartContext, TaskDriver, TaskHandle } from 'handover';

export type JobSpec = { readonly job: string };
type State = { readonly owner: string; readonly nth: number };
type Job = { prepare(call: Call): Promise<AsyncDisposable>; run(stop: AbortSignal): Promise<void> };
type Task = { ctx: PrestartContext<JobSpec>; state: State; prepared: Prepared; running?: Running };
type Running = { stop: AbortController; by: ExitResult['by']; ended: Promise<ExitResult>; exit?: ExitResult };
type Prepared = PreparedTask & { readonly task?: Task };

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGKILL'];

/** Runs functions of this process as tasks. */
export class JobDriver implements TaskDriver<JobSpec, State, Prepared> {
  readonly name = 'jobs';
  readonly #tasks = new Map<string, Task>();
  #made = 0;

  constructor(private readonly jobs: Readonly<Record<string, Job>>) {
    prestartOnce(this); // the same spec joins, another one discards first; each caller has its own abort
  }

  parse(input: unknown): JobSpec {
    const { job, ...others } = Object(input) as Partial<JobSpec>;
    for (const path of Object.keys(others)) throw refused(path, 'is not an option');
    if (job === undefined || this.jobs[job] === undefined) throw refused('job', 'must be the name of a job');
    return { job };
  }

  exclusive(): [] {
    return [];
  }

  async prestart(ctx: PrestartContext<JobSpec>): Promise<Prepared> {
    const { owner, specHash, spec } = ctx;
    const before = this.#tasks.get(owner);
    if (before?.running?.exit === undefined && before?.running) throw failed('prestart', `${owner} still runs`);
    const undo = new UndoStack();
    try {
      undo.use(await this.jobs[spec.job]!.prepare(ctx)); // all that is slow, and needs nothing of the previous task
      undo.defer(async () => void this.#tasks.delete(owner));
      ctx.signal?.throwIfAborted();
    } catch (error) {
      await undo[Symbol.asyncDispose](); // aborted or failed, it leaves nothing
      throw error;
    }
    const discard = async (): Promise<void> => {
      if (this.#tasks.get(owner) === task && !task.running) await undo[Symbol.asyncDispose]();
    };
    const intact = async (): Promise<boolean> => this.#tasks.get(owner) === task && !task.running;
    const prepared: Prepared = { owner, specHash, intact, discard, [Symbol.asyncDispose]: discard };
    const task: Task = { ctx, prepared, state: { owner, nth: this.#made++ } };
    this.#tasks.set(owner, task);
    return prepared;
  }

  async start(prepared: Prepared, call: Call): Promise<TaskHandle<State>> {
    call.signal?.throwIfAborted();
    const task = [...this.#tasks.values()].find((one) => one.prepared === prepared);
    if (task === undefined) throw refused('prepared', 'must be what prestart() gave, and not discarded');
    if (task.running) throw failed('start', `${prepared.owner} was started before`);
    const stop = new AbortController();
    const exit = (code: number): ExitResult => ({ code, signal: null, oom: false, by: running.by, at: Date.now() });
    const ended = this.jobs[task.ctx.spec.job]!.run(stop.signal).then(
      () => exit(0),
      () => exit(1),
    );
    const running: Running = { stop, by: 'self', ended };
    void ended.then((result) => (running.exit = result));
    task.running = running;
    return this.#handle(task, running);
  }

  async recover(state: State, call: Call & { readonly owner: string }): Promise<TaskHandle<State> | undefined> {
    call.signal?.throwIfAborted();
    if (typeof (state as State | null)?.nth !== 'number') throw refused('state', 'must be the state of a handle');
    const task = this.#tasks.get(call.owner);
    return task?.state.nth === state.nth && task.running ? this.#handle(task, task.running) : undefined;
  }

  async list(call: Call): Promise<readonly ListedTask<State>[]> {
    if ((call as Call | null) === null) throw refused('(options)', 'must be a call');
    call.signal?.throwIfAborted();
    return [...this.#tasks.values()].map(({ ctx: { allocId, task, specHash, labels }, state, running }) => {
      return { allocId, task, specHash, labels, state, started: running !== undefined };
    });
  }

  #handle({ state, ctx: { owner } }: Task, running: Running): TaskHandle<State> {
    const send = async (name: string, { signal }: Call): Promise<void> => {
      if (!SIGNALS.includes(name)) throw refused('signal', `must be one of ${SIGNALS.join(', ')}`);
      signal?.throwIfAborted();
      if (running.exit === undefined) running.by = name === 'SIGKILL' ? 'kill' : 'signal';
      running.stop.abort();
    };
    return {
      ...{ id: owner, state, endpoints: {} },
      isRunning: async ({ signal }) => (signal?.throwIfAborted(), running.exit === undefined),
      wait: ({ signal }) => unlessAborted(running.ended, signal),
      signal: send,
      kill: (call) => send('SIGKILL', call),
      destroy: async () => {
        if (running.exit === undefined) throw failed('destroy', `${owner} still runs`);
        if (this.#tasks.get(owner)?.running === running) this.#tasks.delete(owner);
      },
    };
  }
}

/** Nothing may stay on a caller's signal: it can outlive the call by years. */
async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  signal?.throwIfAborted();
  let leave = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    leave = () => reject(signal?.reason as Error);
    signal?.addEventListener('abort', leave);
  });
  return Promise.race([promise, aborted]).finally(() => signal?.removeEventListener('abort', leave));
}

function refused(path: string, problem: string): HandoverError {
  return new HandoverError('ERR_INVALID_OPTION', `Option ${path}: ${problem}`, { details: { path } });
}

function failed(operation: string, why: string): HandoverError {
  return new HandoverError('ERR_DRIVER', `Cannot ${operation}: ${why}`, { details: { driver: 'jobs', operation } });
}
