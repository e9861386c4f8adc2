import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ImageCoordinator, type TaskHandle } from 'handover';
import { type FileArtifact, ProcessDriver, type ProcessState, httpFiles } from 'handover/process';
import { expect } from 'vitest';
import type { Run } from '../../src/process/identity.js';
import { Origin } from './origin.js';

export { context, shell } from './fixtures/task.js';

/** A host of tasks in a temporary folder: an origin, a coordinator of its files, and drivers over one directory. */
export class TaskHost {
  readonly #coordinators: ImageCoordinator<FileArtifact>[] = [];

  private constructor(
    readonly origin: Origin,
    readonly root: string,
  ) {}

  static async open(): Promise<TaskHost> {
    return new TaskHost(await Origin.open(), await mkdtemp(join(tmpdir(), 'handover-tasks-')));
  }

  get tasks(): string {
    return join(this.root, 'tasks');
  }

  coordinator(): ImageCoordinator<FileArtifact> {
    const coordinator = new ImageCoordinator({
      source: httpFiles({ directory: join(this.root, 'files') }),
      pull: { attempts: 1 },
      removal: { delay: 0 },
    });
    this.#coordinators.push(coordinator);
    return coordinator;
  }

  /** Each call is as a new process of the embedder: nothing is remembered but what is on disk. */
  driver(artifacts: ImageCoordinator<FileArtifact> = this.coordinator()): ProcessDriver {
    return new ProcessDriver({ directory: this.tasks, artifacts });
  }

  async close(): Promise<void> {
    for (const coordinator of this.#coordinators) await coordinator.close();
    await this.origin.close();
    await rm(this.root, { recursive: true });
  }
}

/** Waits until the task has written the text. */
export async function written(handle: TaskHandle<ProcessState>, text: string, file = 'stdout.log'): Promise<string> {
  const path = join(handle.state.directory, file);
  await expect.poll(() => readFile(path, 'utf8'), { timeout: 10_000, interval: 10 }).toContain(text);
  return readFile(path, 'utf8');
}

/** A container may have nobody who takes the exit of orphans: a zombie does not run. */
export const runs = (pid: number): boolean =>
  /^[^Z\s]/.test(spawnSync('ps', ['-o', 'state=', '-p', String(pid)]).stdout.toString());

/** The file of a task in which its state is kept. */
export const stateFile = (state: ProcessState): string => join(state.directory, '.handover.json');

/** What is on record of a start. */
export async function runOf(state: ProcessState): Promise<Run & Required<Pick<Run, 'process'>>> {
  return (JSON.parse(await readFile(stateFile(state), 'utf8')) as { run: Run & Required<Pick<Run, 'process'>> }).run;
}

/** Puts a start on record as an earlier process would have left it. */
export async function record(directory: string, run: Run, specHash = 'h'): Promise<void> {
  await mkdir(directory, { recursive: true });
  const place = { cwd: directory, stdout: join(directory, 'stdout.log'), stderr: join(directory, 'stderr.log') };
  const kept = { allocId: 'web-1', task: 'main', specHash, ports: {}, place, run };
  await writeFile(join(directory, '.handover.json'), JSON.stringify(kept));
}
