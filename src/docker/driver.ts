import * as v from 'valibot';
import type { Call, Opt } from '../call.js';
import type { Clock } from '../clock.js';
import type { ExclusiveResource, ListedTask, PrestartContext, TaskDriver } from '../driver/driver.js';
import { prestartOnce } from '../driver/prestart-once.js';
import { Undos } from '../driver/undos.js';
import { type Env, requireMethods, resolveEnv } from '../env.js';
import { invalidOption } from '../errors.js';
import { Emitter } from '../events.js';
import { checkCall, checkOwnedCall } from '../internal/check-call.js';
import { KeyedLock } from '../internal/keyed-lock.js';
import { looseObject, parseOptions, strictObject, text } from '../options.js';
import { Containers } from './driver-containers.js';
import { DockerHandle, type DockerState, type HandleOptions } from './driver-handle.js';
import { LABELS, ownedBy } from './driver-labels.js';
import { type DockerPrepared, PreparedContainer } from './driver-prepared.js';
import { DockerPrestart, type ImageLeases } from './driver-prestart.js';
import { Engine } from './engine.js';
import { LateCreates } from './late-creates.js';
import { exclusiveOf, parseSpec } from './parse-spec.js';
import { portsOf } from './published.js';
import type { DockerSpec } from './spec.js';
import type { DockerLike } from './types.js';

/** What a {@link DockerDriver} is made with. */
export type DockerDriverOptions = {
  /** `new Docker()` of dockerode, or what is like it. */
  readonly docker: DockerLike;
  /** The coordinator of the same engine's images: `new ImageCoordinator({ source: dockerImages(docker) })`. */
  readonly images: ImageLeases;
} & Opt<{
  /** By which you tell the driver from others; it keeps no containers apart. Default `docker`. */
  name: string;
}>;

const schema = strictObject({
  docker: v.custom<DockerLike>(isObject, 'must be a Docker client, such as `new Docker()` of dockerode'),
  images: v.custom<ImageLeases>(isObject, 'must be an ImageCoordinator'),
  name: v.optional(text, 'docker'),
});

/** A newer version may have put more into it. */
const stateSchema = looseObject({ containerId: text, imageId: text, reference: v.string() });

/**
 * Runs tasks as containers of a Docker engine (DP-8). Containers are found again by labels, created under a name that is
 * unique to alloc, task and spec, and never restarted by the engine.
 *
 * The labels say nothing of who made a container: all drivers on one engine, of any `name` and in any program, take
 * each other's containers for their own. Programs that share an engine must keep their alloc ids apart, by a prefix of
 * their own, say. Under one alloc id and task each would adopt or remove what the other has prepared, and recover what
 * the other runs. What holds a fixed name or host port under any of our labels is expected to end before the start.
 *
 * A handle holds a connection to the engine open, on which it learns of the exit at once; it is closed at the exit,
 * and when the last caller of `wait()` has left.
 */
export class DockerDriver implements TaskDriver<DockerSpec, DockerState, DockerPrepared> {
  readonly name: string;
  readonly #images: ImageLeases;
  readonly #clock: Clock;
  readonly #containers: Containers;
  readonly #late: LateCreates;
  readonly #undos: Undos;
  /** By owner: whoever recovers a task of this very process gets the handle that holds its lease. */
  readonly #handles = new Map<string, DockerHandle>();
  readonly #recovering = new KeyedLock();

  /**
   * @param o - client, images and name
   * @param env - `clock`; `onEvent` is told of what could not be undone
   * @throws HandoverError `ERR_INVALID_OPTION`
   */
  constructor(o: DockerDriverOptions, env: Env = {}) {
    const { docker, images, name } = parseOptions(schema, o);
    requireMethods('images', images, ['acquire', 'adopt']);
    const ground = resolveEnv(env);
    this.name = name;
    this.#images = images;
    this.#clock = ground.clock;
    this.#containers = new Containers(new Engine(docker, ground.clock), ground.clock);
    const warnings = new Emitter<never>(ground);
    this.#undos = new Undos(warnings);
    this.#late = new LateCreates(this.#containers, this.#clock, (owner, name) => {
      const message = `Nobody answered for the create of container ${name}; should it still appear within a quarter of an hour, it is removed`;
      warnings.warn(owner, { code: 'create-unknown', message });
    });
    prestartOnce(this);
  }

  /**
   * Checks a spec from a wire or a literal; unknown fields are refused, except inside `create`, which is the engine's.
   *
   * @throws HandoverError `ERR_INVALID_OPTION` naming the field
   */
  parse(input: unknown): DockerSpec {
    return parseSpec(input);
  }

  /** Fixed ports of the host, the fixed name, fixed addresses, and the mounts and devices that are declared exclusive. */
  exclusive(spec: DockerSpec): readonly ExclusiveResource[] {
    return exclusiveOf(spec);
  }

  ports(spec: DockerSpec): readonly string[] {
    return Object.keys(portsOf(spec));
  }

  /**
   * Leases the image and creates the container. With the state of a handle as `content` it is made from that very image,
   * and no registry is asked.
   *
   * @throws HandoverError `ERR_PULL_FAILED`, `ERR_IMAGE_ABSENT`, `ERR_INVALID_REFERENCE` from the image; `ERR_NAME_TAKEN`
   *   when a stranger holds the fixed name; `ERR_DRIVER` when a network is not there, a foreign container publishes a
   *   fixed port, the engine refuses, or a container of this very owner runs; `ERR_INVALID_OPTION` for a bad spec
   */
  async prestart(ctx: PrestartContext<DockerSpec>): Promise<DockerPrepared> {
    ctx.signal?.throwIfAborted();
    const spec = parseSpec(ctx.spec);
    const content = ctx.content === undefined ? undefined : parseOptions(stateSchema, ctx.content, 'content');
    return this.#undos.guard(ctx, async (undo) => {
      const work = new DockerPrestart(this.#containers, this.#late, this.#images, { ...ctx, spec, content }, undo);
      const { lease, containerId, ranAt } = await work.run();
      const { allocId, task, owner, specHash } = ctx;
      return new PreparedContainer(this.#containers, (o) => this.#handle(o), {
        who: { allocId, task, owner, specHash },
        lease,
        state: { containerId, imageId: lease.imageId, reference: spec.image },
        name: spec.name,
        ports: portsOf(spec),
        ranAt,
      });
    });
  }

  /**
   * Takes the fixed name and starts the container. May be repeated after it failed.
   *
   * @throws HandoverError `ERR_START_FAILED` with the engine's words: a port that is taken, a command that is not there;
   *   `ERR_NAME_TAKEN`. What was prepared is still prepared, or `discard()` clears it away
   */
  async start(prepared: DockerPrepared, call: Call): Promise<DockerHandle> {
    checkCall(call);
    if (prepared instanceof PreparedContainer) return prepared.start(call);
    throw invalidOption('prepared', 'must be what prestart() of a DockerDriver gave');
  }

  /**
   * Finds a container again and leases its image anew, without asking a registry; `undefined` = it is gone. One that this
   * driver has a handle of already is that handle. One that was prepared and never started is found too: `destroy()` of
   * its handle removes it.
   *
   * @throws HandoverError `ERR_INVALID_OPTION` for what is no state of a handle of this driver
   */
  async recover(state: DockerState, o: Call & { readonly owner: string }): Promise<DockerHandle | undefined> {
    parseOptions(stateSchema, state, 'state');
    checkOwnedCall(o);
    return this.#recovering.run(o.owner, () => this.#recover(state, o), o.signal);
  }

  async #recover(state: DockerState, o: Call & { readonly owner: string }): Promise<DockerHandle | undefined> {
    const { containerId, imageId, reference } = state;
    const { owner } = o;
    const info = await this.#containers.inspect(containerId, o);
    if (info === undefined) return undefined;
    const known = this.#handles.get(owner);
    if (known?.state.containerId === containerId) return known;
    const lease = await this.#images.adopt({ owner, reference, imageId }, { signal: o.signal });
    return this.#handle({ owner, state, info, ports: ownedBy(info.labels)?.ports ?? {}, lease });
  }

  /** Every container with our labels, in any state, whoever made it. */
  async list(call: Call): Promise<readonly ListedTask<DockerState>[]> {
    checkCall(call);
    const found = await this.#containers.list([LABELS.alloc], call);
    return found.flatMap(({ id, imageId, status, labels }) => {
      const owned = ownedBy(labels);
      if (owned === undefined) return [];
      const { allocId, task, specHash, reference, labels: given } = owned;
      const state = { containerId: id, imageId, reference };
      return [{ allocId, task, specHash, state, started: status !== 'created', labels: given }];
    });
  }

  #handle(o: HandleOptions): DockerHandle {
    const handle = new DockerHandle(this.#containers, this.#clock, o, () => {
      if (this.#handles.get(o.owner) === handle) this.#handles.delete(o.owner);
    });
    this.#handles.set(o.owner, handle);
    return handle;
  }
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}
