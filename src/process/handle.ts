import { constants } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import type { Call } from '../call.js';
import type { Clock } from '../clock.js';
import type { ExecResult, LogChunk, LogOptions, TaskHandle } from '../driver/driver.js';
import { HandoverError, invalidOption } from '../errors.js';
import { checkArgv, checkCall, checkLogs } from '../internal/check-call.js';
import { messageOf } from '../internal/message-of.js';
import { signalName, signalNumber } from '../internal/signal-names.js';
import type { ExitResult } from '../shutdown/types.js';
import { type Run, killSurvivors, signalGroup } from './identity.js';
import { environmentOf, execIn } from './exec.js';
import { outputOf } from './output.js';
import type { TaskExit } from './task-exit.js';
import type { Place, TaskFolder, TaskRecord } from './task-folder.js';

/** By what a process is found again; JSON. */
export interface ProcessState {
  /** 0: prepared, and not started. */
  readonly pid: number;
  /** When the process started, in the system's own unit (on Linux clock ticks since boot): tells apart who got the same pid. */
  readonly startedAt: number;
  /** The task's directory. */
  readonly directory: string;
  readonly reference?: string;
  readonly artifactId?: string;
}

/** The state of what a folder holds. */
export function stateOf(folder: TaskFolder, { run, content }: TaskRecord): ProcessState {
  const { pid, startedAt } = run?.process ?? { pid: 0, startedAt: 0 };
  const artifact = content === undefined ? {} : { reference: content.reference, artifactId: content.id };
  return { pid, startedAt, directory: folder.path, ...artifact };
}

/** A started process and its group. */
export class ProcessHandle implements TaskHandle<ProcessState> {
  readonly id: string;
  readonly state: ProcessState;
  readonly endpoints: TaskHandle['endpoints'];
  private readonly place: Place;
  /** The strongest that we have sent. */
  #sent: 'signal' | 'kill' | undefined;
  /** Later the number may be somebody else's. */
  #destroyed = false;

  /**
   * @param letGo - releases the lease on the content, and forgets the handle
   */
  constructor(
    private readonly driver: string,
    private readonly folder: TaskFolder,
    record: TaskRecord,
    private readonly clock: Clock,
    private readonly run: Run,
    private readonly exit: TaskExit,
    private readonly letGo: () => Promise<void>,
  ) {
    this.id = `${record.allocId}/${record.task}`;
    this.state = stateOf(folder, record);
    this.place = record.place;
    this.endpoints = Object.fromEntries(
      Object.entries(record.ports).map(([name, port]) => [name, { address: '127.0.0.1', port }]),
    );
  }

  async isRunning(call: Call): Promise<boolean> {
    call.signal?.throwIfAborted();
    return this.exit.running;
  }

  async wait(call: Call): Promise<ExitResult> {
    const exit = await this.exit.wait(call.signal);
    return { ...exit, oom: false, by: this.#by(exit) };
  }

  async signal(name: string, call: Call): Promise<void> {
    call.signal?.throwIfAborted();
    const number = numberHere(name);
    if (number === undefined) throw invalidOption('signal', `${JSON.stringify(name)} is not a signal of this system`);
    this.#send(number, 'signal');
  }

  async kill(call: Call): Promise<void> {
    call.signal?.throwIfAborted();
    this.#send('SIGKILL', 'kill');
  }

  /**
   * What the task has written to its files, as far as they are files: each from its beginning, also what earlier runs of
   * the folder wrote; of one file for both all of it is `stdout`. Nobody records times: `at` is unknown, and `since` gives
   * all. While it is followed the files are looked at four times a second; one that was cut short is read from its new
   * beginning.
   *
   * @throws HandoverError `ERR_INVALID_OPTION` at once
   */
  logs(o: LogOptions = {}): AsyncIterable<LogChunk> {
    const { follow, signal } = checkLogs(o);
    return outputOf(this.place, { follow, signal, running: () => this.exit.running }, this.clock);
  }

  /**
   * Runs a command where the task was started, as its user, with the environment that its process was started with. A
   * program that cannot be run gives code 126 or 127, one that ended by a signal 128 and its number. An abort ends it with
   * all that it has started. On Linux only: elsewhere nobody can tell the environment of a process.
   *
   * @throws HandoverError `ERR_INVALID_OPTION`; `ERR_DRIVER` when the task does not run
   */
  async exec(argv: readonly string[], call: Call): Promise<ExecResult> {
    checkArgv(argv);
    checkCall(call);
    call.signal?.throwIfAborted();
    const env = this.exit.running ? environmentOf(this.state.pid) : undefined;
    if (env === undefined) throw this.#failed('exec', `${this.id} does not run; a command needs a task that does`);
    return execIn(this.place, env, argv, call);
  }

  async destroy(call: Call = {}): Promise<void> {
    call.signal?.throwIfAborted();
    if (this.#destroyed) return;
    if (this.exit.running) throw this.#failed('destroy', `${this.id} still runs; stop it before it is destroyed`);
    this.#guard('destroy', () => killSurvivors(this.run));
    // The owner may have been prepared anew in the meantime: then the folder and the lease are the new one's.
    const record = await this.folder.read();
    if (record === undefined || isDeepStrictEqual(stateOf(this.folder, record), this.state)) {
      await this.folder.remove();
      await this.letGo();
    }
    this.#destroyed = true;
  }

  #send(signal: NodeJS.Signals | number, kind: 'signal' | 'kill'): void {
    if (!this.exit.running) return;
    const sent = this.#guard('signal', () => signalGroup(this.run, signal));
    if (sent && this.#sent !== 'kill') this.#sent = kind;
  }

  #guard<T>(operation: string, call: () => T): T {
    try {
      return call();
    } catch (cause) {
      const why = messageOf(cause);
      throw this.#failed(operation, `The processes of ${this.id} could not be signalled: ${why}`, cause);
    }
  }

  /** An end by a signal that we did not send is nobody's that we know; the out-of-memory killer's, for one. */
  #by({ code, signal }: Pick<ExitResult, 'code' | 'signal'>): ExitResult['by'] {
    if (this.#sent !== undefined) return this.#sent;
    return code === null || signal !== null ? 'unknown' : 'self';
  }

  #failed(operation: string, message: string, cause?: unknown): HandoverError<'ERR_DRIVER'> {
    return new HandoverError('ERR_DRIVER', message, {
      details: { driver: this.driver, operation, owner: this.id, pid: this.state.pid },
      cause,
    });
  }
}

/** Other systems than Linux number some signals in another way, and name no real-time ones. */
function numberHere(word: string): number | undefined {
  const here: Readonly<Partial<Record<string, number>>> = constants.signals;
  return here[signalName(word)] ?? (process.platform === 'linux' ? signalNumber(word) : undefined);
}
