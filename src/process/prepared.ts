import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { Call } from '../call.js';
import type { PreparedTask } from '../driver/driver.js';
import type { UndoStack } from '../driver/undo-stack.js';
import { ifThere } from './file-system.js';
import type { CheckedSpec } from './spec.js';
import type { TaskFolder, TaskRecord } from './task-folder.js';

/** A process that is ready to be started. */
export interface ProcessPrepared extends PreparedTask {
  /** The task's directory. */
  readonly directory: string;
}

/** What a prestart has made: a folder, and the lease on its content. */
export class PreparedProcess implements ProcessPrepared {
  readonly owner: string;
  readonly specHash: string;
  readonly directory: string;
  /** From then on everything is the handle's, and there is nothing to discard (DP-1). */
  started = false;

  constructor(
    readonly folder: TaskFolder,
    readonly record: TaskRecord,
    readonly spec: CheckedSpec,
    private readonly undo: UndoStack,
  ) {
    this.owner = `${record.allocId}/${record.task}`;
    this.specHash = record.specHash;
    this.directory = folder.path;
  }

  async intact(call: Call): Promise<boolean> {
    call.signal?.throwIfAborted();
    const record = await this.folder.find();
    if (this.started || record?.specHash !== this.specHash || record.run?.process !== undefined) return false;
    return record.content?.file === undefined || this.#has(record.content.file);
  }

  async discard(call: Call = {}): Promise<void> {
    call.signal?.throwIfAborted();
    if (!this.started) await this.undo[Symbol.asyncDispose]();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.discard();
  }

  async #has(file: string): Promise<boolean> {
    const found = access(join(this.directory, file)).then(() => true);
    return (await ifThere(found)) ?? false;
  }
}
