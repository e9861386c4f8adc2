import { constants } from 'node:fs';
import { copyFile, link, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Call } from '../call.js';
import type { PrestartContext } from '../driver/driver.js';
import type { UndoStack } from '../driver/undo-stack.js';
import { HandoverError, invalidOption } from '../errors.js';
import type { AcquireOptions, ImageLease } from '../image/types.js';
import { errorCode } from '../internal/system-error.js';
import type { FileArtifact } from './file-store.js';
import { makeFolder } from './file-system.js';
import { isRunning, killSurvivors } from './identity.js';
import type { CheckedSpec } from './spec.js';
import { startProblem } from './start-problem.js';
import { STATE_FILE, type TaskFolder, type TaskRecord, contentName } from './task-folder.js';

/** What the driver needs of an {@link ImageCoordinator}. */
export interface ArtifactLeases {
  acquire(reference: string, o: AcquireOptions): Promise<ImageLease<FileArtifact>>;
  adopt(
    held: { readonly owner: string; readonly reference: string; readonly imageId: string },
    call?: Call,
  ): Promise<ImageLease<FileArtifact> | undefined>;
  release(owner: string): Promise<void>;
}

/** What a prestart works with. */
export interface ProcessPrestart {
  readonly driver: string;
  readonly artifacts: ArtifactLeases | undefined;
  readonly folder: TaskFolder;
  readonly spec: CheckedSpec;
  readonly ctx: PrestartContext<unknown>;
  /** Gets what has to be undone. */
  readonly undo: UndoStack;
}

/** The slow work of one prestart (DP-1): leftovers, content, folder. It starts nothing. */
export async function prepare(work: ProcessPrestart): Promise<TaskRecord> {
  const { folder, spec, ctx } = work;
  const record = (await adoptLeftover(work)) ?? (await beginAnew(work));
  const content = record.content && { [record.content.file]: 'the content of the artifact' };
  const own = { [STATE_FILE]: 'the driver’s own', ...content };
  const problem = await startProblem(spec, folder.path, own);
  if (problem !== undefined) throw failed(work, `${ctx.owner} could not be started: ${problem}`);
  ctx.signal?.throwIfAborted();
  return record;
}

/** What an earlier process left of the same task is taken over when it is the same, and cleared away when not (DP-2). */
async function adoptLeftover(work: ProcessPrestart): Promise<TaskRecord | undefined> {
  const { folder, ctx, undo } = work;
  const leftover = await folder.find();
  if (leftover?.run !== undefined) {
    if (isRunning(leftover.run)) throw failed(work, `${ctx.owner} still runs; stop it before it is prepared again`);
    killSurvivors(leftover.run);
  }
  if (leftover?.specHash === ctx.specHash && (await adoptContent(work, leftover.content))) {
    undo.defer(() => folder.remove());
    const { run: _, ...record } = leftover;
    await folder.write(record);
    return record;
  }
  await folder.remove();
  return undefined;
}

/** Neither needs nor asks an origin. */
async function adoptContent(work: ProcessPrestart, content: TaskRecord['content']): Promise<boolean> {
  if (content === undefined) return true;
  const held = { owner: work.ctx.owner, reference: content.reference, imageId: content.id };
  const lease = await work.artifacts?.adopt(held, { signal: work.ctx.signal });
  if (lease === undefined) return false;
  work.undo.use(lease);
  await place(lease, join(work.folder.path, content.file), work.ctx);
  return true;
}

async function beginAnew(work: ProcessPrestart): Promise<TaskRecord> {
  const { artifacts, folder, spec, ctx, undo } = work;
  const { allocId, task, specHash } = ctx;
  const reference = spec.artifact;
  const lease =
    reference === undefined
      ? undefined
      : undo.use(
          await required(artifacts).acquire(reference, {
            owner: ctx.owner,
            signal: ctx.signal,
            onProgress: (progress) => ctx.report(progress),
          }),
        );
  undo.defer(() => folder.remove());
  await makeFolder(folder.path);
  const content =
    lease === undefined || reference === undefined
      ? undefined
      : { reference, id: lease.imageId, file: contentName(reference) };
  const record: TaskRecord = { allocId, task, specHash, ports: spec.ports, content };
  // Before the content is placed: whatever is left by a crash has to be found by list() (DP-2).
  await folder.write(record);
  if (lease !== undefined && content !== undefined) await place(lease, join(folder.path, content.file), ctx);
  return record;
}

/** Links the content to where the task expects it; what somebody deleted meanwhile is fetched again, once (DP-4). */
async function place(lease: ImageLease<FileArtifact>, target: string, { signal }: Call): Promise<void> {
  await rm(target, { force: true });
  try {
    await linkOrCopy(lease.artifact.path, target);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
    await lease.verify({ signal });
    await linkOrCopy(lease.artifact.path, target);
  }
}

async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    // Another device, a file system without links, or one that has no more of them.
    if (!['EXDEV', 'EPERM', 'ENOTSUP', 'EMLINK'].includes(errorCode(error) ?? '')) throw error;
    await copyFile(from, to, constants.COPYFILE_FICLONE);
  }
}

function required(artifacts: ArtifactLeases | undefined): ArtifactLeases {
  if (artifacts !== undefined) return artifacts;
  throw invalidOption('artifact', 'needs the option artifacts of ProcessDriver: a coordinator of httpFiles()');
}

function failed({ driver, ctx }: ProcessPrestart, message: string): HandoverError<'ERR_DRIVER'> {
  return new HandoverError('ERR_DRIVER', message, { details: { driver, operation: 'prestart', owner: ctx.owner } });
}
