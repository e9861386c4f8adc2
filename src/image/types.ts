import type { Call, Duration, Opt } from '../call.js';
import type { Reason } from '../env.js';
import type { HandoverError } from '../errors.js';

/** Why a pull failed (IC-10). Permanent ones are not tried again. */
export type PullReason =
  | 'invalid-reference'
  | 'not-found-or-denied'
  | 'unauthorized'
  | 'rate-limited'
  | 'no-space'
  | 'no-platform'
  | 'registry-unavailable'
  | 'stalled'
  | 'timed-out'
  | 'aborted'
  | 'engine-unavailable'
  | 'corrupt-stream'
  | 'unknown';

/** Which bound ended a pull (IC-8). */
export type PullLimit = 'timeout' | 'beginTimeout' | 'stallTimeout';

/**
 * When to ask the registry (IC-6): only if the content is absent; always; never; or always, but with the local copy
 * when the registry cannot be reached.
 */
export type PullPolicy = 'if-absent' | 'always' | 'never' | 'if-stale';

/**
 * How far a flight is; monotonic within one attempt (IC-12), but that `downloading` may come back after `extracting`: the
 * parts of some content come in and are unpacked side by side.
 */
export interface Progress {
  readonly phase: 'queued' | 'resolving' | 'downloading' | 'extracting' | 'retrying' | 'done';
  /** From 1. */
  readonly attempt: number;
  readonly bytes: { readonly done: number; readonly total?: number };
  readonly layers?: { readonly done: number; readonly total?: number };
  /** Bytes per second. */
  readonly rate?: number;
  /** Milliseconds until done at the present rate. */
  readonly eta?: number;
  /** How many pulls are before this one, from 0. */
  readonly queuePosition?: number;
  /** Why the last attempt failed; with `phase: 'retrying'`. */
  readonly lastError?: Reason;
  /** Wall time of the next attempt, ms; with `phase: 'retrying'`. */
  readonly retryAt?: number;
  /** The last words of whoever does the work, such as a line of the engine. */
  readonly note?: string;
}

/** A piece of content that is present locally. */
export interface Artifact {
  /** The content's identity; leases are counted by it. */
  readonly id: string;
  readonly digest?: string;
  /** `os/arch[/variant]`, where the content has one. */
  readonly platform?: string;
  readonly bytes?: number;
  /** The names it goes by now, as `normalise().key` writes them. */
  readonly references: readonly string[];
  /** What to run the content by so that a moving name changes nothing (DP-6). Default: the id. */
  readonly runnable?: string;
}

/** A reference taken apart by its source. */
export interface NormalisedReference {
  /** The one spelling of the reference; equal keys mean the same content. */
  readonly key: string;
  /** The key without what picks a version: references of one repository are kin. */
  readonly repository: string;
  /** Where it is fetched from; the default credential scope. */
  readonly host: string;
  /** `false`: can be looked up locally but never fetched (an image id). */
  readonly pullable: boolean;
  /** Whether it may come to mean other content: a tag floats, a digest does not. */
  readonly floating: boolean;
  /** Whether it names no version, or the one that means "newest": such a reference is asked for again each time (IC-6). */
  readonly latest: boolean;
}

/**
 * What proves to a registry who asks (IC-14): a name with its password, a token that stands for a login, or what the
 * registry's client takes, encoded already (for Docker the value of `X-Registry-Auth`), which is handed on as it is.
 */
export type Credentials =
  | { readonly username: string; readonly password: string }
  | { readonly identityToken: string }
  | { readonly encoded: string };

/**
 * Gives the credentials of a registry (IC-14). It is asked before each attempt of a pull, at most once at a time for the
 * same host and scope, and has 30 s to answer.
 *
 * One that throws, or is late, fails the attempt as `unauthorized`, which is tried again unless it threw a
 * {@link HandoverError} that is not retryable. An answer that has no known form, or that the source cannot use, is
 * `unauthorized` as well. Only the words of a `HandoverError` are passed on: those of other errors
 * may hold a secret.
 *
 * @param host - the registry, as {@link NormalisedReference.host} writes it
 * @param ask.scope - whose credentials; `undefined` = those of everybody
 * @param ask.refused - the registry refused the last answer: give another one, not one that was kept
 * @returns `undefined` = none, ask anonymously; `expiresAt` is wall time in ms, until which the answer may be kept;
 *   without it every attempt asks again
 */
export type AuthProvider = (
  host: string,
  ask: Call & { readonly scope: string | undefined; readonly refused: boolean },
) => Promise<(Credentials & { readonly expiresAt?: number }) | undefined>;

/**
 * Where content comes from and where it is kept: a container engine, a folder of files, … (IC-24). The port of
 * {@link ImageCoordinator}. Every method resolves when the thing is done ("was already so" included) and rejects when
 * its outcome is unknown (G-8).
 */
export interface ArtifactSource<A extends Artifact = Artifact> {
  /** Stable name of the source; keeps its records apart from those of others. */
  readonly id: string;
  /**
   * Takes a reference apart by the source's own grammar (IC-13); no I/O.
   *
   * @throws HandoverError `ERR_INVALID_REFERENCE`
   */
  normalise(reference: string): NormalisedReference;
  /** Looks locally, never on the network. Takes a reference or an id; with a platform, finds only what fits it. */
  find(referenceOrId: string, call: Call & Opt<{ platform: string }>): Promise<A | undefined>;
  /**
   * Fetches once, without retries; progress is told as it comes, at least one call per sign of life. Without
   * credentials it is fetched anonymously.
   *
   * @throws HandoverError `ERR_PULL_FAILED` with the class of the failure
   */
  fetch(
    reference: string,
    call: Call &
      Opt<{ platform: string; credentials: Credentials }> & { onProgress(progress: Omit<Progress, 'attempt'>): void },
  ): Promise<void>;
  /** Whoever uses the content right now, strangers too; names for people. */
  users(id: string, call: Call): Promise<readonly string[]>;
  /** Takes away one name (or the content, if an id), never by force. */
  remove(referenceOrId: string, call: Call): Promise<'removed' | 'untagged' | 'absent' | 'in-use'>;
  /** Everything that is present; the newest first, where the source knows. */
  list(call: Call): Promise<readonly A[]>;
}

/** What to acquire, for whom, and how. */
export type AcquireOptions = Call & {
  /** Who holds the lease: shown in snapshots, and `release(owner)` drops all of its leases. */
  readonly owner: string;
} & Opt<{
    /** When to ask the registry. Default: the coordinator's `pull.policy`; `always` for a reference without a version. */
    policy: PullPolicy;
    /** `os/arch[/variant]`. Default: the source's own. */
    platform: string;
    /**
     * Who gives the credentials for this pull. Default: the coordinator's `auth`.
     *
     * Without an `authScope` the pull is shared only with callers who give the very same function. Content that is
     * present is shared by all, whoever brought it: whoever wants access proven uses the policy `always`.
     */
    auth: AuthProvider;
    /**
     * Whose credentials these are: a tenant, say. The provider is told, and pulls are shared within one scope only, with
     * the credentials of whoever of it came first (IC-3). Default: one scope for all who use the coordinator's `auth`.
     */
    authScope: string;
    /** `start` goes before `prefetch` in the queue, and promotes a queued prefetch it joins. Default `start`. */
    priority: 'start' | 'prefetch';
    /** How long this caller waits; the pull itself goes on for others. Default: never. */
    timeout: Duration;
    /** Told of the flight's progress; the latest at once when joining late. */
    onProgress: (progress: Progress) => void;
  }>;

/** What to prefetch, for whom, and for how long. */
export type PrefetchOptions = Omit<AcquireOptions, 'priority'> & {
  /** How long the lease holds once it is given, whether its owner lives or not; finite. */
  readonly ttl: Duration;
};

/** One holder's claim on a piece of content: while it is held the content is not removed by the coordinator (IC-1). */
export interface ImageLease<A extends Artifact = Artifact> {
  readonly owner: string;
  /** As the caller gave it. */
  readonly reference: string;
  readonly imageId: string;
  readonly digest: string | undefined;
  /** `if-stale` was asked and the registry could not be reached: this is the local copy. */
  readonly stale: boolean;
  readonly artifact: A;
  /** What to create from so that a moving tag changes nothing (DP-6). */
  readonly runnable: string;
  /**
   * Looks whether the content is still there and fetches it again when somebody else deleted it (DP-4). Of a lease that
   * has ended it only looks.
   *
   * @throws HandoverError `ERR_PULL_FAILED` or `ERR_IMAGE_ABSENT` when it cannot be brought back as the same content;
   *   `ERR_IMAGE_ABSENT` when it is gone and the lease has ended; `ERR_CLOSED`
   */
  verify(call?: Call): Promise<void>;
  /**
   * Lets go, at once; idempotent. With a store it resolves when that is stored: a write that fails is made later, and one
   * that does not end is waited for 30 s.
   */
  release(): Promise<void>;
  /** Same as {@link ImageLease.release}. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * A lease that ends by itself (IC-19). It is there for an acquire to come: once its owner acquires the same content, that
 * lease takes its place, and this one has ended.
 */
export interface PrefetchLease<A extends Artifact = Artifact> extends ImageLease<A> {
  /** When it ends, wall time, ms. */
  readonly expiresAt: number;
  /**
   * Lets it end `ttl` from now, be that later or earlier than before.
   *
   * @throws HandoverError `ERR_INVALID_OPTION`; `ERR_IMAGE_ABSENT` when it has ended; `ERR_CLOSED`
   */
  renew(ttl: Duration): void;
}

/** What is known of one piece of content, and why it is still here (IC-20). */
export interface ImageStatus {
  readonly reference: string;
  readonly imageId?: string;
  readonly state: 'absent' | 'pulling' | 'held' | 'idle' | 'removing';
  /** Wall time, ms. */
  readonly since: number;
  /** Who holds it, since when, and until when if that ends by itself (a prefetch); wall times, ms. */
  readonly holders: readonly { readonly owner: string; readonly since: number; readonly until?: number }[];
  /** Owners that wait for a pull of it. */
  readonly waiters: readonly string[];
  readonly progress?: Progress;
  /** Wall time at which it will be removed, ms. */
  readonly removeAt?: number;
  /** Why the last removal left it here. */
  readonly kept?: Reason;
  readonly lastError?: Reason;
}

/** What happens to content that nobody holds any more (IC-15). */
export type RemovalOptions = Opt<{
  /** `false`: nothing is ever deleted. Default `true`. */
  enabled: boolean;
  /** How long content stays after its last release. 0 = at once, `'never'` allowed. Default 3 minutes. */
  delay: Duration;
  /** `pulled`: only references that this coordinator brought; `any`: also those it found there. Default `pulled`. */
  scope: 'pulled' | 'any';
}>;

/**
 * What stays although nobody holds it (IC-18). Pinned content stays for ever; the `keepLast` that were used last of each
 * repository stay for `maxAge`; all other content stays for `removal.delay`, or `maxAge` if that is shorter. Both count
 * from the last release; content of which that is not known counts as used when it was first seen here.
 */
export type RetentionOptions = Opt<{
  /**
   * What is never removed: a reference (in any spelling of the source's grammar), an id, or an expression that is tested
   * against each reference of the content as the source spells it (`docker.io/library/redis:7`). Default: nothing.
   */
  pin: readonly (string | RegExp)[];
  /**
   * How many pieces of content of each repository stay: those that were used last, where being held is being used. Of two
   * that were used last at the same time the one seen later counts as the later one. From 0. Default 0: none.
   */
  keepLast: number;
  /** The longest that content stays after its last use, unless it is pinned. Default `'never'`: no limit. */
  maxAge: Duration;
}>;

/** What {@link ImageCoordinator.collect} did, or would do. */
export interface Collected {
  /** Ids of what is gone, also of what somebody else has deleted. */
  readonly removed: readonly string[];
  /**
   * What stays, and why: `held`, `pinned`, `keep-last`, `image-in-use`, `not-ours`, `pull-in-progress`,
   * `removal-disabled`, `not-recovered`, or the code of an error.
   */
  readonly kept: readonly { readonly imageId: string; readonly reason: Reason }[];
}

/** How content is fetched (IC-6 to IC-9). */
export type PullOptions = Opt<{
  /** When to ask the registry. Default `if-absent`, but `always` for a reference without a version or `latest`. */
  policy: PullPolicy;
  /** Pulls at once, from 1. Default 3. */
  concurrency: number;
  /** Tries for a transient failure, from 1. Default 5. */
  attempts: number;
  /** How long a pull goes on after its last caller has left. Default 30 s. */
  linger: Duration;
  /** How long an aborted pull may keep its place in the queue. Default 30 s. */
  abortGrace: Duration;
  /** The whole pull, retries and queueing included. Default: never. */
  timeout: Duration;
  /** Until the first sign of life of an attempt. Default 5 minutes. */
  beginTimeout: Duration;
  /** Silence while downloading; extracting, verifying and queueing do not count. Default 5 minutes. */
  stallTimeout: Duration;
}>;

/** Events of an {@link ImageCoordinator}. */
export interface ImageEvents {
  /** The state of one piece of content, or of its pull, moved. */
  readonly 'image:changed': { readonly image: ImageStatus };
  /** A pull moved on; throttled. */
  readonly 'image:progress': {
    readonly reference: string;
    readonly owners: readonly string[];
    readonly progress: Progress;
  };
  /** A removal was tried and left the content here, with the reason. */
  readonly 'image:kept': { readonly imageId: string; readonly reason: Reason };
  /** Somebody else deleted content that was held. */
  readonly 'image:lost': { readonly imageId: string; readonly owners: readonly string[] };
}

/** The error type of a failed pull. */
export type PullError = HandoverError<'ERR_PULL_FAILED'>;
