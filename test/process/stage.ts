import { text } from 'node:stream/consumers';
import type { ProcessDriver, ProcessHandle } from 'handover/process';
import { afterEach, beforeEach, vi } from 'vitest';
import { type Run, killSurvivors } from '../../src/process/identity.js';
import { type Fixture, fixture } from './fixtures/run.js';
import { TaskHost, context, runOf, runs, shell } from './tasks.js';

/** Where the tests of a file run tasks: a host and a driver of its own for each test, nothing left running after it. */
export class Stage {
  host!: TaskHost;
  driver!: ProcessDriver;
  readonly #runs: Run[] = [];
  readonly #fixtures: Fixture[] = [];
  readonly #strangers: number[] = [];

  async open(): Promise<void> {
    this.host = await TaskHost.open();
    this.driver = this.host.driver();
  }

  async close(): Promise<void> {
    vi.restoreAllMocks();
    for (const child of this.#fixtures.splice(0)) child.kill('SIGKILL');
    for (const { state, started } of await this.driver.list({})) {
      if (started) this.#runs.push(await runOf(state));
    }
    for (const run of this.#runs.splice(0)) killSurvivors(run);
    for (const pid of this.#strangers.splice(0)) if (runs(pid)) process.kill(pid, 'SIGKILL');
    await this.host.close();
  }

  async run(script: string, more: Parameters<typeof shell>[1] = {}, using = this.driver): Promise<ProcessHandle> {
    return this.mind(await using.start(await using.prestart(context(shell(script, more))), {}));
  }

  /** It ends with the test, also when its record says something else by then. */
  async mind(handle: ProcessHandle): Promise<ProcessHandle> {
    this.#runs.push(await runOf(handle.state));
    return handle;
  }

  /** The same for a process that is no task. */
  mindStranger(pid: number): void {
    this.#strangers.push(pid);
  }

  fixture(...args: Parameters<typeof fixture>): Fixture {
    const child = fixture(...args);
    this.#fixtures.push(child);
    return child;
  }

  /** What a fixture has written by its end. */
  output(name: 'starter' | 'waiter'): Promise<string> {
    return text(this.fixture(name, [this.host.tasks]).stdout);
  }
}

/** A stage for the tests of the file that calls it. */
export function useStage(): Stage {
  const stage = new Stage();
  beforeEach(() => stage.open());
  afterEach(() => stage.close());
  return stage;
}
