import type { Call } from '../call.js';
import type { PrestartContext } from '../driver/driver.js';
import type { UndoStack } from '../driver/undo-stack.js';
import { HandoverError } from '../errors.js';
import type { ImageCoordinator } from '../image/coordinator.js';
import type { ImageLease, Progress } from '../image/types.js';
import { createBody } from './driver-body.js';
import type { ListedContainer } from './container-info.js';
import type { Containers } from './driver-containers.js';
import type { DockerState } from './driver-handle.js';
import { type Labels, LABELS, labelsFor, ownedBy, uniqueName } from './driver-labels.js';
import { nameTaken } from './driver-name.js';
import { isEngineFault } from './engine-fault.js';
import type { LateCreates } from './late-creates.js';
import { furtherNetworks } from './spec-fields.js';
import type { DockerSpec } from './spec.js';
import { cannotPrepare, checkStart } from './start-checks.js';
import type { DockerImage } from './types.js';

/** What the driver needs of an {@link ImageCoordinator}. */
export type ImageLeases = Pick<ImageCoordinator<DockerImage>, 'acquire' | 'adopt'>;

/** A container that is ready to be started, and its image. */
export interface Made {
  readonly containerId: string;
  readonly lease: ImageLease<DockerImage>;
  /** When it ran last, if it is a leftover that had run. */
  readonly ranAt: number | undefined;
}

type Ask = PrestartContext<unknown> & { readonly spec: DockerSpec; readonly content: DockerState | undefined };

const ADOPTABLE = ['created', 'exited'];
const RUNNING = ['running', 'paused', 'restarting'];
const NO_SUCH_IMAGE = /no such image/i;

/** The slow work of one prestart (DP-1): leftovers, image, container. What it takes it puts on `undo`. */
export class DockerPrestart {
  readonly #name: string;
  readonly #labels: Labels;
  /** A create is out of which nobody knows whether it landed, or will. */
  #unsure = false;

  constructor(
    private readonly containers: Containers,
    private readonly late: LateCreates,
    private readonly images: ImageLeases,
    private readonly ctx: Ask,
    private readonly undo: UndoStack,
  ) {
    this.#name = uniqueName(ctx);
    this.#labels = labelsFor(ctx, ctx.spec);
  }

  async run(): Promise<Made> {
    await checkStart(this.containers, this.ctx);
    if (await this.late.take(this.#name)) {
      this.#unsure = true;
      this.undo.defer(() => this.#settle());
    }
    const made = (await this.#adopt()) ?? (await this.#make());
    await this.#connect(made.containerId);
    this.ctx.signal?.throwIfAborted();
    return made;
  }

  /** A leftover of an earlier process is taken over if it is the same, and cleared away if not (DP-2). */
  async #adopt(): Promise<Made | undefined> {
    const leftovers = await this.#leftovers(this.ctx);
    const running = leftovers.find(({ status }) => RUNNING.includes(status));
    if (running !== undefined) throw this.#runsAlready(running.id);
    let adopted: Made | undefined;
    for (const leftover of leftovers) {
      if (adopted === undefined && this.#isSame(leftover)) adopted = await this.#take(leftover);
      if (adopted?.containerId !== leftover.id) await this.containers.remove(leftover.id, false, this.ctx);
    }
    return adopted;
  }

  /** Asks no registry; `undefined` when its image was deleted by force, so that it could not be started. */
  async #take({ id, imageId }: ListedContainer): Promise<Made | undefined> {
    const { owner, spec, signal } = this.ctx;
    const lease = await this.images.adopt({ owner, reference: spec.image, imageId }, { signal });
    if (lease === undefined) return undefined;
    this.undo.use(lease);
    this.undo.defer(() => this.containers.remove(id, false, {}));
    this.#unsure = false;
    const info = await this.containers.inspect(id, this.ctx);
    return { containerId: id, lease, ranAt: info?.startedAt };
  }

  async #make(): Promise<Made> {
    const lease = this.undo.use(await this.#lease());
    return { containerId: await this.#create(lease), lease, ranAt: undefined };
  }

  /** A restart and a way back get the content they had, and no other; they ask no registry (DP-2). */
  async #lease(): Promise<ImageLease<DockerImage>> {
    const { spec, owner, signal, content } = this.ctx;
    if (content === undefined) {
      const onProgress = (progress: Progress): void => this.ctx.report(progress);
      return this.images.acquire(spec.image, { owner, policy: spec.pull, signal, onProgress });
    }
    const { reference, imageId } = content;
    const lease = await this.images.adopt({ owner, reference, imageId }, { signal });
    if (lease !== undefined) return lease;
    throw new HandoverError(
      'ERR_IMAGE_ABSENT',
      `${reference} was ${imageId}, which ${owner} is to have again and which is not there any more; prepare without \`content\` to have what the reference means now`,
      { details: { reference } },
    );
  }

  /**
   * Creates the container. The call is not aborted once it is on its way: an abort would leave behind what lands
   * afterwards; so the abort is obeyed when its outcome is known. Each cause gets one remedy.
   */
  async #create(lease: ImageLease): Promise<string> {
    let created: string | undefined;
    this.undo.defer(() => (created === undefined ? this.#settle() : this.containers.remove(created, false, {})));
    const body = createBody(this.ctx.spec, lease.runnable, this.#labels);
    for (const tried = new Set<Remedy>(); ;) {
      this.ctx.signal?.throwIfAborted();
      try {
        created = await this.containers.create(this.#name, body);
        this.#unsure = false;
        return created;
      } catch (error) {
        const remedy = remedyFor(error);
        this.#unsure ||= remedy === 'again';
        if (remedy === undefined || tried.has(remedy)) throw error;
        tried.add(remedy);
        if (remedy === 'verify') await lease.verify({ signal: this.ctx.signal });
        if (remedy === 'adopt') created = await this.#holder(error);
        if (created === undefined) continue;
        this.#unsure = false;
        return created;
      }
    }
  }

  /** A create takes one network, up to API 1.43. A leftover may come from a crash in between. */
  async #connect(containerId: string): Promise<void> {
    for (const [network, endpoint] of furtherNetworks(this.ctx.spec)) {
      await this.containers.connect(network, containerId, endpoint, this.ctx);
    }
  }

  /** Whoever has our unique name is our own earlier attempt (C43); `undefined` when it is gone again. */
  async #holder(error: unknown): Promise<string | undefined> {
    const holder = await this.containers.inspect(this.#name, this.ctx);
    if (holder === undefined) return undefined;
    const owned = ownedBy(holder.labels);
    if (owned === undefined || uniqueName(owned) !== this.#name) throw nameTaken(this.#name, holder, error);
    if (holder.running) throw this.#runsAlready(holder.id);
    return holder.id;
  }

  /** After a create that nobody answered for. */
  async #settle(): Promise<void> {
    if (this.#unsure) await this.late.settle(this.#name, this.ctx.owner);
    this.#unsure = false;
  }

  #leftovers(call: Call): Promise<readonly ListedContainer[]> {
    const { allocId, task } = this.ctx;
    return this.containers.list([`${LABELS.alloc}=${allocId}`, `${LABELS.task}=${task}`], call);
  }

  #isSame({ status, labels, imageId }: ListedContainer): boolean {
    const { content, specHash } = this.ctx;
    const fits = content === undefined || content.imageId === imageId;
    return fits && ADOPTABLE.includes(status) && labels[LABELS.hash] === specHash;
  }

  #runsAlready(containerId: string): HandoverError {
    const why = `its container ${containerId.slice(0, 12)} runs; recover it, or stop it, or use another alloc id`;
    return cannotPrepare(this.ctx.owner, why, { containerId });
  }
}

/**
 * `verify`: the image went between pull and create (DP-4). `adopt`: the name is taken, by our own earlier attempt if
 * all is well. `again`: nobody knows whether the create landed; the same name makes the second of two fail.
 */
type Remedy = 'verify' | 'adopt' | 'again';

function remedyFor(error: unknown): Remedy | undefined {
  if (!isEngineFault(error)) return undefined;
  if (error.status === 404 && NO_SUCH_IMAGE.test(error.text)) return 'verify';
  if (error.status === 409) return 'adopt';
  return error.kind === 'lost' || error.kind === 'late' ? 'again' : undefined;
}
