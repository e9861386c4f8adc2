import type { Readable } from 'node:stream';
import * as v from 'valibot';
import type { Call, Opt } from '../call.js';
import type { Clock } from '../clock.js';
import { type Env, resolveEnv } from '../env.js';
import { HandoverError } from '../errors.js';
import type { ArtifactSource, Credentials, NormalisedReference, Progress, PullError } from '../image/types.js';
import { parseOptions, strictObject, text } from '../options.js';
import { registryAuth } from './auth/registry-auth.js';
import { settledLook } from './deleted-meanwhile.js';
import { Engine, type EngineAnswer, type EngineRequest } from './engine.js';
import { isEngineFault } from './engine-fault.js';
import { type ImageJson, toDockerImage } from './image-json.js';
import { CorruptStream, type JsonObject, JsonLines } from './json-lines.js';
import { fitsPlatform } from './platform.js';
import { classifyPull, pullError } from './pull-errors.js';
import { PullProgress } from './pull-progress.js';
import { type DockerReference, familiarName, isImageId, normaliseReference, parseReference } from './reference.js';
import type { DockerImage, DockerLike } from './types.js';

const OPTIONS = strictObject({ id: v.optional(text, 'docker') });

/** Deleting the layers of a large image from a slow disk takes minutes. */
const REMOVE_DEADLINE_MS = 5 * 60_000;

/** What the engine said inside of a stream that had begun well. */
class StreamedError extends Error {
  constructor(
    message: string,
    readonly code: number | undefined,
  ) {
    super(message);
  }
}

/**
 * The images of a Docker engine, as the source of an {@link ImageCoordinator}.
 *
 * References are those of `docker pull`, in every spelling (IC-13). An image is removed by its names only, never by
 * force (IC-17). No pull is tried twice here, and none has a limit of its own: both are the coordinator's.
 *
 * @param docker - the client, such as `new Docker()` of dockerode 4 or 5; its own timeouts do not apply
 * @param env - `clock` is used
 * @param o.id - keeps the records of several engines apart that share a state store; the same in every run. Default
 *   `docker`
 * @throws HandoverError `ERR_INVALID_OPTION` for something that is no client, or no id
 */
export function dockerImages(docker: DockerLike, env?: Env, o: Opt<{ id: string }> = {}): ArtifactSource<DockerImage> {
  const { id } = parseOptions(OPTIONS, o);
  const { clock } = resolveEnv(env);
  return new DockerImages(new Engine(docker, clock), clock, id);
}

class DockerImages implements ArtifactSource<DockerImage> {
  readonly id: string;
  readonly #engine: Engine;
  readonly #clock: Clock;

  constructor(engine: Engine, clock: Clock, id: string) {
    this.id = id;
    this.#engine = engine;
    this.#clock = clock;
  }

  normalise(reference: string): NormalisedReference {
    return normaliseReference(reference);
  }

  async find(text: string, call: Call & Opt<{ platform: string }>): Promise<DockerImage | undefined> {
    const reference = isImageId(text) ? undefined : parseReference(text);
    const name = reference === undefined ? text : engineName(reference);
    const { status, body } = await this.#look<ImageJson>(
      { operation: `inspect image ${text}`, method: 'GET', path: `/images/${name}/json`, accept: [200, 404] },
      call,
    );
    if (status === 404 || body === undefined) return undefined;
    const image = toDockerImage(body, reference);
    // Content for another platform is not what was asked for, whatever its name.
    return call.platform === undefined || fitsPlatform(image.platform, call.platform) ? image : undefined;
  }

  async fetch(
    text: string,
    call: Call &
      Opt<{ platform: string; credentials: Credentials }> & { onProgress(progress: Omit<Progress, 'attempt'>): void },
  ): Promise<void> {
    const { tag, digest, ...name } = pullable(text);
    const { signal, platform, credentials } = call;
    const progress = new PullProgress();
    const query = {
      fromImage: familiarName(name),
      // Without one the engine would pull every tag.
      tag: digest ?? tag ?? 'latest',
      ...(platform !== undefined && { platform }),
    };
    const request: EngineRequest = {
      ...{ operation: `pull ${text}`, method: 'POST', path: '/images/create', query, accept: [200] },
      // The engine sends its headers with the first line; how long that may take is the coordinator's to say.
      deadline: Infinity,
      ...(credentials !== undefined && { registryAuth: registryAuth(credentials, name.host) }),
    };
    try {
      const body = await this.#engine.stream(request, { signal });
      await follow(
        body,
        (line) => progress.read(line),
        () => call.onProgress(progress.now),
      );
      if (platform !== undefined) await this.#checkPlatform(text, platform, signal);
    } catch (error) {
      signal?.throwIfAborted();
      throw toPullError(text, error, progress.last);
    }
  }

  /** The engine takes an image of another platform for the one that was asked for, without an error (C17). */
  async #checkPlatform(text: string, platform: string, signal: AbortSignal | undefined): Promise<void> {
    const image = await this.find(text, { signal });
    if (image === undefined || fitsPlatform(image.platform, platform)) return;
    throw pullError(text, 'no-platform', `the registry has it for ${image.platform}, not for ${platform}`);
  }

  async users(id: string, call: Call): Promise<readonly string[]> {
    // The engine's own filter by image, `ancestor`, finds containers of images built on this one too.
    const containers = await this.#list<ContainerJson>('containers', { all: true }, call);
    return containers.filter(({ ImageID }) => ImageID === id).map(nameOf);
  }

  async remove(text: string, call: Call): Promise<'removed' | 'untagged' | 'absent' | 'in-use'> {
    if (isImageId(text)) {
      throw invalidReference(text, 'to delete by id would take away names that others gave it; remove it by its names');
    }
    const { status, body } = await this.#engine.call<readonly { readonly Deleted?: string }[]>(
      {
        operation: `remove image ${text}`,
        method: 'DELETE',
        path: `/images/${engineName(parseReference(text))}`,
        accept: [200, 404, 409],
        deadline: REMOVE_DEADLINE_MS,
      },
      call,
    );
    if (status === 404) return 'absent';
    if (status === 409) return 'in-use';
    return (body ?? []).some(({ Deleted }) => Deleted !== undefined) ? 'removed' : 'untagged';
  }

  async list(call: Call): Promise<readonly DockerImage[]> {
    const found: DockerImage[] = [];
    // The list itself does not tell platforms.
    for (const { Id } of await this.#list<ImageJson>('images', { all: false }, call)) {
      const image = await this.find(Id, call);
      if (image !== undefined) found.push(image);
    }
    return found;
  }

  async #list<T>(kind: 'images' | 'containers', query: Record<string, boolean>, call: Call): Promise<readonly T[]> {
    const { body } = await this.#look<readonly T[]>(
      { operation: `list ${kind}`, method: 'GET', path: `/${kind}/json`, query, accept: [200] },
      call,
    );
    return body ?? [];
  }

  #look<T>(request: EngineRequest, call: Call): Promise<EngineAnswer<T>> {
    return settledLook(this.#clock, () => this.#engine.call<T>(request, call), call.signal);
  }
}

interface ContainerJson {
  readonly Id: string;
  readonly Names?: readonly string[] | null;
  readonly ImageID: string;
}

function nameOf({ Id, Names }: ContainerJson): string {
  return Names?.[0]?.replace(/^\//, '') ?? Id.slice(0, 12);
}

/** As the engine's paths take it; always with a tag or digest, so that a short name is never read as the start of an id. */
function engineName(reference: DockerReference): string {
  const { tag, digest } = reference;
  return `${familiarName(reference)}${digest === undefined ? `:${tag ?? 'latest'}` : `@${digest}`}`;
}

function pullable(text: string): DockerReference {
  if (isImageId(text)) throw invalidReference(text, 'an image id can be looked up, not pulled; give a name (IC-13)');
  return parseReference(text);
}

function invalidReference(reference: string, problem: string): HandoverError<'ERR_INVALID_REFERENCE'> {
  return new HandoverError('ERR_INVALID_REFERENCE', `${reference}: ${problem}`, { details: { reference } });
}

interface LineJson {
  /** Of a layer; lines of the whole pull have none, but for the first. */
  readonly id?: string;
  readonly status?: string;
  readonly error?: string;
  readonly errorDetail?: { readonly message?: string; readonly code?: number };
}

/** With one of these an engine says that a pull has succeeded: `Digest: sha256:…`, `Status: Image is up to date …`. */
const SUCCESS = /^(Digest|Status): /;

/**
 * Reads a pull's stream to its end. What came in one piece is one sign of life: a stream may bring thousands of lines a
 * second, and nobody needs to be told of each. A clean end without a word of success is none: what is there under the name may be
 * an older image (IC-11).
 */
async function follow(body: Readable, onLine: (line: JsonObject) => void, onSignOfLife: () => void): Promise<void> {
  const told = { success: false };
  const lines = new JsonLines((line) => {
    const { id, status, error, errorDetail } = line as LineJson;
    const message = errorDetail?.message ?? error;
    if (message !== undefined) throw new StreamedError(message, errorDetail?.code);
    told.success ||= id === undefined && status !== undefined && SUCCESS.test(status);
    onLine(line);
  });
  for await (const chunk of body) {
    lines.push(chunk as Buffer);
    onSignOfLife();
  }
  lines.end();
  if (!told.success) throw new CorruptStream('the stream ended without a word of success');
}

function toPullError(text: string, error: unknown, lastLine: string): PullError {
  const after = lastLine === '' ? '' : ` (after "${lastLine}")`;
  if (error instanceof StreamedError) return pullError(text, classifyPull(error.message, error.code), error.message);
  if (error instanceof CorruptStream) return pullError(text, 'corrupt-stream', `${error.message}${after}`, error);
  if (isEngineFault(error) && error.kind === 'status') {
    return pullError(text, classifyPull(error.text, error.status), error.text, error);
  }
  if (isEngineFault(error)) return pullError(text, 'engine-unavailable', `${error.text}${after}`, error);
  throw error;
}
