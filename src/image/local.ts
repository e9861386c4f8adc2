import { HandoverError, isHandoverError } from '../errors.js';
import { messageOf } from '../internal/message-of.js';
import { abortable } from '../internal/signals.js';
import type { Sight } from './looks.js';
import { asSourceError } from './pull-failure.js';
import type { Artifact, ArtifactSource } from './types.js';

/** What is present, as the source tells it. A look ends with the coordinator. */
export class Local<A extends Artifact> {
  readonly #source: ArtifactSource<A>;
  readonly #closing: AbortSignal;

  constructor(source: ArtifactSource<A>, closing: AbortSignal) {
    this.#source = source;
    this.#closing = closing;
  }

  /** @throws HandoverError `ERR_PULL_FAILED` with the reason `engine-unavailable`; `ERR_CLOSED` */
  async find(referenceOrId: string, platform: string | undefined): Promise<A | undefined> {
    const signal = this.#closing;
    signal.throwIfAborted();
    try {
      return await abortable(this.#source.find(referenceOrId, { signal, platform }), signal);
    } catch (error) {
      signal.throwIfAborted();
      throw asSourceError(error, referenceOrId, 0, 'engine-unavailable');
    }
  }

  /** Everything that is present. */
  async list(): Promise<readonly A[]> {
    const signal = this.#closing;
    signal.throwIfAborted();
    try {
      return await abortable(this.#source.list({ signal }), signal);
    } catch (error) {
      signal.throwIfAborted();
      if (isHandoverError(error)) throw error;
      const { id } = this.#source;
      const message = `The source ${id} could not list what it has: ${messageOf(error)}`;
      const details = { driver: id, operation: 'list' };
      throw new HandoverError('ERR_DRIVER', message, { details, cause: error, retryable: true });
    }
  }

  async look(referenceOrId: string, platform: string | undefined): Promise<Sight<A> | undefined> {
    const artifact = await this.find(referenceOrId, platform);
    if (artifact !== undefined) return { artifact, fits: true };
    // What is there for another platform is no absence: it was here before us, or it is what our pull has brought.
    const misfit = platform === undefined ? undefined : await this.find(referenceOrId, undefined);
    return misfit === undefined ? undefined : { artifact: misfit, fits: false };
  }
}
