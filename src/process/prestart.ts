import { constants } from 'node:fs';
import { copyFile, link, rm } from 'node:fs/promises';
import { join, normalize, resolve } from 'node:path';
import type { Call } from '../call.js';
import type { PrestartContext } from '../driver/driver.js';
import type { UndoStack } from '../driver/undo-stack.js';
import { HandoverError, invalidOption } from '../errors.js';
import type { AcquireOptions, ImageLease, Progress } from '../image/types.js';
import { messageOf } from '../internal/message-of.js';
import { errorCode } from '../internal/system-error.js';
import type { FileArtifact } from './file-store.js';
import { makeFolder } from './file-system.js';
import { isRunning, killSurvivors } from './identity.js';
import type { CheckedSpec } from './spec.js';
import { startProblem } from './start-problem.js';
import { STATE_FILE, type Place, type TaskFolder, type TaskRecord, contentName } from './task-folder.js';
import { unpack } from './unpack.js';

/** What the driver needs of an {@link ImageCoordinator}. */
export interface ArtifactLeases {
  acquire(reference: string, o: AcquireOptions): Promise<ImageLease<FileArtifact>>;
  adopt(
    held: { readonly owner: string; readonly reference: string; readonly imageId: string },
    call?: Call,
  ): Promise<ImageLease<FileArtifact> | undefined>;
  release(owner: string): Promise<void>;
}

/** Content of an artifact. */
export type Content = Pick<NonNullable<TaskRecord['content']>, 'reference' | 'id'>;

/** What a prestart works with. */
export interface ProcessPrestart {
  readonly driver: string;
  readonly artifacts: ArtifactLeases | undefined;
  readonly folder: TaskFolder;
  readonly spec: CheckedSpec;
  readonly ctx: PrestartContext<unknown>;
  /** What its artifact has to be, whatever the reference means now. */
  readonly content: Content | undefined;
  /** Gets what has to be undone. */
  readonly undo: UndoStack;
}

/** The slow work of one prestart (DP-1): leftovers, content, folder. It starts nothing. */
export async function prepare(work: ProcessPrestart): Promise<TaskRecord> {
  const { folder, spec, ctx } = work;
  refuseUser(work);
  const leftover = await clearProcesses(work);
  const record = (await adoptFolder(work, leftover)) ?? (await beginAnew(work, leftover));
  const file = record.content?.file;
  const own = { [STATE_FILE]: 'the driver’s own', ...(file && { [file]: 'the content of the artifact' }) };
  const problem = await startProblem(spec, folder.path, own);
  if (problem !== undefined) throw failed(work, `${ctx.owner} could not be started: ${problem}`);
  ctx.signal?.throwIfAborted();
  return record;
}

/** Found at the start, it would be found when the previous task has been stopped (DP-1). */
function refuseUser(work: ProcessPrestart): void {
  const { uid, gid } = work.spec;
  const own = [process.getuid?.(), process.getgid?.()];
  if (uid === undefined || own[0] === 0 || (uid === own[0] && gid === own[1])) return;
  throw failed(
    work,
    `${work.ctx.owner} cannot run as ${uid}:${gid}: only root may start it as somebody else, and this process is ${own.join(':')}`,
  );
}

/** What an earlier process left of the same task, with nothing of it running. */
async function clearProcesses(work: ProcessPrestart): Promise<TaskRecord | undefined> {
  const { folder, ctx } = work;
  const leftover = await folder.find();
  if (leftover?.run === undefined) return leftover;
  if (isRunning(leftover.run)) throw failed(work, `${ctx.owner} still runs; stop it before it is prepared again`);
  killSurvivors(leftover.run);
  return leftover;
}

/**
 * A folder is taken over with what is in it when it is of the same spec and content (DP-2): not one of an archive, which
 * may be unpacked by half, nor one that somebody else could write to.
 */
async function adoptFolder(work: ProcessPrestart, leftover: TaskRecord | undefined): Promise<TaskRecord | undefined> {
  const { folder, ctx, spec, undo } = work;
  if (leftover === undefined || spec.unpack || spec.uid !== undefined || !isSame(work, leftover)) return undefined;
  const { run: _, content, ...rest } = leftover;
  const lease = content && (await adopt(work, content));
  if (content !== undefined && lease === undefined) return undefined;
  undo.defer(() => folder.remove());
  const record = { ...rest, content, labels: { ...ctx.labels } };
  await folder.write(record);
  if (lease !== undefined && content?.file !== undefined) await place(lease, join(folder.path, content.file), ctx);
  return record;
}

function isSame({ ctx, content }: ProcessPrestart, leftover: TaskRecord): boolean {
  return leftover.specHash === ctx.specHash && (content === undefined || content.id === leftover.content?.id);
}

/** Neither needs nor asks an origin. */
async function adopt(work: ProcessPrestart, { reference, id }: Content): Promise<ImageLease<FileArtifact> | undefined> {
  const held = { owner: work.ctx.owner, reference, imageId: id };
  const lease = await work.artifacts?.adopt(held, { signal: work.ctx.signal });
  return lease && work.undo.use(lease);
}

async function beginAnew(work: ProcessPrestart, leftover: TaskRecord | undefined): Promise<TaskRecord> {
  const { folder, spec, ctx, undo } = work;
  const { allocId, task, specHash, labels = {} } = ctx;
  await folder.remove();
  const lease = await leaseContent(work, leftover);
  undo.defer(() => folder.remove());
  await makeFolder(folder.path);
  const { artifact: reference } = spec;
  const file = reference === undefined || spec.unpack ? undefined : contentName(reference);
  const record: TaskRecord = {
    ...{ allocId, task, specHash, ports: spec.ports, labels: { ...labels }, place: placeOf(spec, folder.path) },
    content: lease === undefined || reference === undefined ? undefined : { reference, id: lease.imageId, file },
  };
  // Before the content is placed: whatever is left by a crash has to be found by list() (DP-2).
  await folder.write(record);
  if (lease !== undefined && file !== undefined) await place(lease, join(folder.path, file), ctx);
  if (lease !== undefined && spec.unpack) await unpackTo(work, lease);
  await folder.giveTo(record.place.user);
  return record;
}

/** The content that the caller wants, the one that was there for this very spec, or what the reference means now (DP-2). */
async function leaseContent(
  work: ProcessPrestart,
  leftover: TaskRecord | undefined,
): Promise<ImageLease<FileArtifact> | undefined> {
  const { artifacts, spec, ctx, undo, content } = work;
  if (spec.artifact === undefined) return undefined;
  const coordinator = required(artifacts);
  const before = leftover !== undefined && isSame(work, leftover) ? leftover.content : undefined;
  const known = content ?? before;
  const adopted = known && (await adopt(work, known));
  if (adopted !== undefined) return adopted;
  if (content !== undefined) throw gone(ctx.owner, content);
  const onProgress = (progress: Progress): void => ctx.report(progress);
  return undo.use(await coordinator.acquire(spec.artifact, { owner: ctx.owner, signal: ctx.signal, onProgress }));
}

async function unpackTo(work: ProcessPrestart, lease: ImageLease<FileArtifact>): Promise<void> {
  const { folder, spec, ctx } = work;
  const own = [STATE_FILE, spec.stdout, spec.stderr].map(
    (name) => [normalize(name), 'a file of the task’s own'] as const,
  );
  try {
    await unpack(lease.artifact.path, folder.path, new Map(own), ctx);
  } catch (cause) {
    ctx.signal?.throwIfAborted();
    throw failed(work, `${lease.reference} could not be unpacked for ${ctx.owner}: ${messageOf(cause)}`, cause);
  }
}

function placeOf(spec: CheckedSpec, folder: string): Place {
  const { uid, gid } = spec;
  const [cwd, stdout, stderr] = [spec.cwd, spec.stdout, spec.stderr].map((path) => resolve(folder, path)) as [
    string,
    string,
    string,
  ];
  return { cwd, stdout, stderr, user: uid === undefined || gid === undefined ? undefined : { uid, gid } };
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

function gone(owner: string, { reference, id }: Content): HandoverError<'ERR_IMAGE_ABSENT'> {
  const message = `${reference} was ${id}, which ${owner} is to have again and which is not there any more; prepare without \`content\` to have what the reference means now`;
  return new HandoverError('ERR_IMAGE_ABSENT', message, { details: { reference } });
}

function failed({ driver, ctx }: ProcessPrestart, message: string, cause?: unknown): HandoverError<'ERR_DRIVER'> {
  const details = { driver, operation: 'prestart', owner: ctx.owner };
  return new HandoverError('ERR_DRIVER', message, { details, cause });
}
