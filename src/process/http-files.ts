import { resolve } from 'node:path';
import type { Call, Opt } from '../call.js';
import { type Env, resolveEnv } from '../env.js';
import { HandoverError } from '../errors.js';
import type { ArtifactSource, Credentials, NormalisedReference, Progress } from '../image/types.js';
import { parseOptions, path, strictObject, wholeNumber } from '../options.js';
import { authorizationOf } from './authorization.js';
import { download } from './download.js';
import { parseFileReference } from './file-reference.js';
import { type FileArtifact, FileStore } from './file-store.js';
import { Partials } from './partials.js';
import { toPullError } from './pull-failure.js';

/** Options of {@link httpFiles}. */
export type HttpFilesOptions = {
  /** Where files are kept; made when it is missing; a relative one is resolved now. Processes may share it. */
  readonly directory: string;
} & Opt<{
  /** The largest file that is fetched, in bytes, from 1. Default: no limit. */
  maxBytes: number;
}>;

const OPTIONS = strictObject({ directory: path, maxBytes: wholeNumber(Number.MAX_SAFE_INTEGER, 1) });

type FetchCall = Call &
  Opt<{ credentials: Credentials }> & { readonly onProgress: (progress: Omit<Progress, 'attempt'>) => void };

/**
 * Files from HTTP(S) origins as content for an {@link ImageCoordinator} (IC-24): a reference is a URL, with
 * `#sha256=<64 hex digits>` to pin and check the content. A URL without it floats: what is there is used until the
 * policy asks again. The URL, its query included, shows up in events and errors: put no secret in it.
 *
 * Credentials are sent as `Authorization`: a name with its password as `Basic`, an identity token as `Bearer`, and what is
 * encoded as it is; to the origin of the URL only, never on to where that redirects.
 *
 * Files are kept by their content and appear in one step, checked. They are read-only, and whoever runs them links or
 * copies them first, so that a removal here harms nobody: `users()` is always empty.
 *
 * A fetch that was cut or called off leaves what has come, and the next one of that URL asks for the rest only: also by
 * another process, until the host is booted, and if the origin gives a strong ETag or an old enough date of modification.
 * What nobody has gone on with for a day is removed when something else is fetched.
 *
 * @param o.directory - where files are kept
 * @param o.maxBytes - the largest file that is fetched. Default: no limit
 * @param env - `clock`: what `Retry-After` is counted by
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function httpFiles(o: HttpFilesOptions, env: Env = {}): ArtifactSource<FileArtifact> {
  const { directory, maxBytes } = parseOptions(OPTIONS, o);
  const { clock } = resolveEnv(env);
  return new HttpFiles(resolve(directory), maxBytes, () => clock.wall());
}

class HttpFiles implements ArtifactSource<FileArtifact> {
  readonly id: string;
  private readonly store: FileStore;
  private readonly partials: Partials;

  constructor(
    directory: string,
    private readonly maxBytes: number,
    private readonly wall: () => number,
  ) {
    this.id = `files:${directory}`;
    this.store = new FileStore(directory);
    this.partials = new Partials(directory);
  }

  normalise(reference: string): NormalisedReference {
    const { key, repository, host, pullable, floating, latest } = parseFileReference(reference);
    return { key, repository, host, pullable, floating, latest };
  }

  async find(referenceOrId: string, call: Call): Promise<FileArtifact | undefined> {
    call.signal?.throwIfAborted();
    return this.store.find(referenceOrId);
  }

  async fetch(reference: string, { signal, credentials, onProgress }: FetchCall): Promise<void> {
    signal?.throwIfAborted();
    const parsed = parseFileReference(reference);
    const { url } = parsed;
    if (url === undefined) throw notFetchable(reference);
    const authorization = authorizationOf(credentials);
    const { store, partials, maxBytes, wall } = this;
    try {
      await download({ reference: parsed, url, store, partials, maxBytes, authorization, wall, signal, onProgress });
    } catch (error) {
      signal?.throwIfAborted();
      throw toPullError(parsed.key, error);
    }
  }

  /** Nobody: who runs a file has linked or copied it. */
  async users(_id: string, call: Call): Promise<readonly string[]> {
    call.signal?.throwIfAborted();
    return [];
  }

  async remove(referenceOrId: string, call: Call): Promise<'removed' | 'untagged' | 'absent'> {
    call.signal?.throwIfAborted();
    return this.store.remove(referenceOrId);
  }

  async list(call: Call): Promise<readonly FileArtifact[]> {
    call.signal?.throwIfAborted();
    return this.store.list();
  }
}

function notFetchable(reference: string): HandoverError<'ERR_INVALID_REFERENCE'> {
  return new HandoverError('ERR_INVALID_REFERENCE', `${reference} is an id, which no origin knows; give the URL`, {
    details: { reference },
  });
}
