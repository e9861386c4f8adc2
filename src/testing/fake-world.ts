import type { Clock } from '../clock.js';
import type { PrestartContext } from '../driver/driver.js';
import { HandoverError } from '../errors.js';
import { Cell } from '../internal/cell.js';
import { sleep } from '../internal/signals.js';
import type { ExitResult } from '../shutdown/types.js';
import { type FakeScript, type ParsedScript, parseScript } from './fake-script.js';

/** What a fake task is made from. */
export interface FakeSpec {
  /** Any text that is not empty; specs of different versions are different. */
  readonly version: string;
  /** A fixed host port, from 1 to 65535, that only one running task can hold. Default: a free one each time. */
  readonly port?: number | undefined;
}

/** A task of a {@link FakeWorld}: what a container is to its engine. */
export interface FakeTask {
  readonly id: string;
  readonly driver: string;
  readonly owner: string;
  readonly allocId: string;
  readonly task: string;
  readonly specHash: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: FakeSpec;
  /** Where its `http` port is reached. */
  readonly port: number;
  readonly exit: Cell<ExitResult | undefined>;
  state: 'prepared' | 'running' | 'exited';
  /** Wall time, ms. */
  startedAt?: number | undefined;
  /** Its end, while one is on its way; `at` is monotonic time. */
  ending?: { readonly at: number; readonly cancel: () => void } | undefined;
}

/** The first port that is given to tasks which ask for none: where IANA's dynamic ports begin. */
const FIRST_FREE_PORT = 49_152;

/** What a {@link FakeHost} and its drivers share, as an engine is shared by its clients. */
export class FakeWorld {
  readonly calls: string[] = [];
  readonly #tasks = new Map<string, FakeTask>();
  readonly #scripts = new Map<string, ParsedScript>();
  #made = 0;

  constructor(readonly clock: Clock) {}

  get tasks(): readonly FakeTask[] {
    return [...this.#tasks.values()];
  }

  script(allocIdOrOwner: string, script: FakeScript): void {
    this.#scripts.set(allocIdOrOwner, parseScript(script));
  }

  scriptOf(of: Pick<FakeTask, 'allocId' | 'owner'>): ParsedScript {
    return { ...this.#scripts.get(of.allocId), ...this.#scripts.get(of.owner) };
  }

  /** Whether the task was not removed. */
  has(task: FakeTask): boolean {
    return this.#tasks.has(task.id);
  }

  ownedBy(owner: string): FakeTask | undefined {
    return this.tasks.find((task) => task.owner === owner);
  }

  /** Lets a scripted step take its time, or fail. */
  async act(step: number | HandoverError | undefined, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (step instanceof Error) throw step;
    if (step !== undefined) await sleep(this.clock, step, { signal });
  }

  create(driver: string, ctx: PrestartContext<FakeSpec>): FakeTask {
    const { owner, allocId, task, specHash, spec, labels = {} } = ctx;
    const nth = this.#made++;
    const made: FakeTask = {
      ...{ id: `${owner}#${nth}`, driver, owner, allocId, task, specHash, spec, labels },
      port: spec.port ?? FIRST_FREE_PORT + nth,
      exit: new Cell<ExitResult | undefined>(undefined),
      state: 'prepared',
    };
    this.#tasks.set(made.id, made);
    return made;
  }

  remove(task: FakeTask): void {
    this.#tasks.delete(task.id);
  }

  /** @throws HandoverError `ERR_START_FAILED` when it was started before, was removed, or its port is taken */
  begin(task: FakeTask): void {
    const holder = this.tasks.find((other) => other.state === 'running' && other.port === task.port);
    if (!this.has(task)) throw startFailed(task, 'what was prepared is not there any more; prepare it again');
    if (task.state !== 'prepared') throw startFailed(task, 'it was started before; prepare it again');
    if (holder !== undefined) {
      throw startFailed(task, `port ${task.port}/tcp is held by ${holder.owner}; stop that one first`);
    }
    task.state = 'running';
    task.startedAt = this.clock.wall();
    const { exitAfter, exit } = this.scriptOf(task);
    if (exitAfter !== undefined) this.#endIn(task, exitAfter, { by: 'self', ...exit });
  }

  /** Sends a signal; to a task that has ended it changes nothing. */
  signal(task: FakeTask, name: string): void {
    const { ignores, exitDelay, exit } = this.scriptOf(task);
    if (ignores?.includes(name) === true) return;
    if (name === 'SIGKILL') this.#endIn(task, 0, { code: null, signal: name, by: 'kill' });
    else this.#endIn(task, exitDelay ?? 0, { by: 'signal', ...exit });
  }

  end(task: FakeTask, facts: Partial<ExitResult>): void {
    task.ending?.cancel();
    task.ending = undefined;
    task.state = 'exited';
    this.calls.push(`exit ${task.owner}`);
    task.exit.set({ code: 0, signal: null, oom: false, by: 'self', at: this.clock.wall(), ...facts });
  }

  /** The earliest end counts: a later signal does not put it off. */
  #endIn(task: FakeTask, ms: number, facts: Partial<ExitResult>): void {
    const at = this.clock.now() + ms;
    if (task.state !== 'running' || (task.ending !== undefined && task.ending.at <= at)) return;
    task.ending?.cancel();
    task.ending = { at, cancel: this.clock.timer(ms, () => this.end(task, facts), { keepAlive: false }) };
  }
}

function startFailed({ owner, allocId, task }: FakeTask, why: string): HandoverError<'ERR_START_FAILED'> {
  return new HandoverError('ERR_START_FAILED', `${owner} did not start: ${why}`, { details: { allocId, task } });
}
