/* An embedder's own driver that uses only the ImageCoordinator: compiled against the packed library, never run. */
import { ImageCoordinator, isHandoverError, type ImageLease, type StateStore } from 'handover';
import { dockerAuth, dockerImages, type DockerLike } from 'handover/docker';

// Stands in for dockerode, whose types are not installed where this is compiled.
declare class Docker implements DockerLike {
  readonly modem: DockerLike['modem'];
  createContainer(o: object): Promise<{ readonly id: string; start(): Promise<void> }>;
  getContainer(id: string): { remove(o: object): Promise<void> };
}

interface Row { readonly allocId: string; readonly image: string; readonly imageId: string | null; readonly tenant: string; readonly env: string[] }
declare const log: { debug(o: object): void; warn(o: object): void };

export class MyDriver {
  readonly #docker = new Docker();
  readonly #images: ImageCoordinator;
  readonly #leases = new Map<string, ImageLease>();

  constructor(store: StateStore, config: { keepImages: string | undefined }) {
    this.#images = new ImageCoordinator({
      source: dockerImages(this.#docker), auth: dockerAuth(),
      removal: { delay: config.keepImages }, // undefined is fine and means 3m (G-2), also under exactOptionalPropertyTypes
    }, { store, onEvent: (e) => { if (e.type === 'image:lost') log.warn(e); else log.debug(e); } });
    log.debug({ effectiveDelayMs: this.#images.options.removal.delay satisfies number });
  }

  async boot(rows: readonly Row[]): Promise<void> {
    for (const { allocId: owner, image: reference, imageId } of rows) {
      if (imageId === null) continue;
      const lease = await this.#images.adopt({ owner, reference, imageId });
      if (lease) this.#leases.set(owner, lease);
    }
    const { released } = await this.#images.recover((owner) => rows.some((r) => r.allocId === owner));
    log.debug({ released });
  }

  async run(row: Row, signal: AbortSignal): Promise<string> {
    const lease = await this.#images.acquire(row.image, { owner: row.allocId, authScope: row.tenant, signal });
    try {
      const create = () => this.#docker.createContainer({ Image: lease.runnable, Env: row.env, name: row.allocId });
      const container = await create().catch(async (e: { statusCode?: number }) => {
        if (e.statusCode !== 404) throw e;
        await lease.verify({ signal });
        return create();
      });
      await container.start();
      this.#leases.set(row.allocId, lease);
      return container.id;
    } catch (e) {
      await lease.release();
      throw e;
    }
  }

  async destroy(row: Row): Promise<void> {
    await this.#docker.getContainer(row.allocId).remove({ force: true, v: true });
    await this.#images.release(row.allocId); // no lease object needed, also when run() was in another life
    this.#leases.delete(row.allocId);
  }

  static shouldReschedule(e: unknown): { elsewhere: boolean; at?: number } {
    if (isHandoverError(e, 'ERR_PULL_FAILED', 'ERR_IMAGE_ABSENT')) {
      switch (e.code) {
        case 'ERR_PULL_FAILED': {
          const { reason, retryAt } = e.details; // narrowed by code
          return { elsewhere: reason === 'no-space' || reason === 'no-platform', ...(retryAt === undefined ? {} : { at: retryAt }) };
        }
        case 'ERR_IMAGE_ABSENT': return { elsewhere: true };
      }
    }
    return { elsewhere: false };
  }

  close(): Promise<void> { return this.#images.close(); }
}
