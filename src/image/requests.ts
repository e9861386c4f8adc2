import type { Logins } from './auth.js';
import { type AcquireSettings, type ImageSettings, parseText } from './options.js';
import { flightKey, type Request, requestKey } from './request.js';
import type { Artifact, ArtifactSource, AuthProvider, NormalisedReference, PullPolicy } from './types.js';

/** What requests need of the coordinator. */
export interface RequestDeck<A extends Artifact> {
  readonly source: ArtifactSource<A>;
  readonly settings: ImageSettings;
  /** The coordinator's own provider. */
  readonly auth: AuthProvider | undefined;
  readonly logins: Logins;
}

/** Makes requests of what callers ask for: fills in what only the coordinator knows. */
export class Requests<A extends Artifact> {
  readonly #deck: RequestDeck<A>;

  constructor(deck: RequestDeck<A>) {
    this.#deck = deck;
  }

  /** @throws HandoverError `ERR_INVALID_OPTION`, `ERR_INVALID_REFERENCE` */
  of(reference: string, asked: AcquireSettings): Request {
    const { source, auth } = this.#deck;
    const name = source.normalise(parseText(reference, 'reference'));
    const key = requestKey(name, asked.platform);
    // Key by key: there are thousands of these, and spreading the options costs more than all the rest here.
    return {
      owner: asked.owner,
      platform: asked.platform,
      priority: asked.priority,
      onProgress: asked.onProgress,
      auth: asked.auth ?? auth,
      authScope: asked.authScope,
      ttl: asked.ttl,
      key,
      flightKey: flightKey(key, this.#scopeOf(name, asked)),
      name,
      reference,
      policy: asked.policy ?? this.#policyOf(name),
    };
  }

  /** A reference without a version, or with the one that means "newest", is asked for again each time (IC-6). */
  #policyOf(name: NormalisedReference): PullPolicy {
    const { policyStated, pull } = this.#deck.settings;
    return name.latest && !policyStated ? 'always' : pull.policy;
  }

  /** Whose credentials: as the caller says, or of his provider; everybody else is one (IC-3). */
  #scopeOf(name: NormalisedReference, { auth, authScope }: AcquireSettings): string | number {
    if (authScope !== undefined) return authScope;
    return auth === undefined || auth === this.#deck.auth ? name.host : this.#deck.logins.numberOf(auth);
  }
}
