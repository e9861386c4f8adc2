import type { Call } from '../call.js';
import { checkCall } from '../internal/check-call.js';
import type { Artifact, AuthProvider, ImageLease } from './types.js';

/** What a lease needs of the coordinator that gave it. */
export interface LeaseKeeper<A extends Artifact> {
  /** @returns the end of the write that stores it; `undefined`: there is no store */
  release(hold: Hold): Promise<void> | undefined;
  verify(lease: Lease<A>, call: Call): Promise<void>;
}

/** A claim of an owner on one piece of content. */
export interface Hold {
  readonly owner: string;
  readonly imageId: string;
  /** Ends when its owner claims the same content in earnest: it was taken beforehand, or in an earlier process. */
  readonly provisional: boolean;
  /** As its owner wrote it. */
  readonly reference: string;
  readonly platform: string | undefined;
  /** When it ends by itself, wall time, ms. */
  readonly until?: number | undefined;
  /** It counts no more, whoever has ended it. */
  ended?(): void;
}

/** What a lease says of itself besides its content. */
export interface LeaseTerms {
  readonly owner: string;
  readonly reference: string;
  readonly platform?: string | undefined;
  readonly auth?: AuthProvider | undefined;
  readonly authScope?: string | undefined;
  readonly stale?: boolean;
  readonly provisional?: boolean;
}

/** One handle of one owner on one piece of content (IC-2). */
export class Lease<A extends Artifact> implements ImageLease<A>, Hold {
  readonly owner: string;
  readonly reference: string;
  readonly imageId: string;
  readonly digest: string | undefined;
  readonly stale: boolean;
  readonly artifact: A;
  readonly runnable: string;
  readonly provisional: boolean;
  /** As it was asked for; a repair has to ask for the same. */
  readonly platform: string | undefined;
  readonly auth: AuthProvider | undefined;
  readonly authScope: string | undefined;
  readonly #keeper: LeaseKeeper<A>;

  constructor(keeper: LeaseKeeper<A>, artifact: A, o: LeaseTerms) {
    this.#keeper = keeper;
    this.owner = o.owner;
    this.reference = o.reference;
    this.platform = o.platform;
    this.auth = o.auth;
    this.authScope = o.authScope;
    this.stale = o.stale ?? false;
    this.provisional = o.provisional ?? false;
    this.imageId = artifact.id;
    this.digest = artifact.digest;
    this.artifact = artifact;
    this.runnable = artifact.runnable ?? artifact.id;
  }

  get until(): number | undefined {
    return undefined;
  }

  ended(): void {
    // Nothing waits for it.
  }

  async verify(call: Call = {}): Promise<void> {
    checkCall(call);
    await this.#keeper.verify(this, call);
  }

  async release(): Promise<void> {
    const stored = this.#keeper.release(this);
    if (stored !== undefined) await stored;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}
