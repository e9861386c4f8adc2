import { createHash } from 'node:crypto';
import type { Clock } from '../../clock.js';
import { EngineProblem } from './answer.js';
import { type FakeContainer, type FakeHostConfig, isUp } from './container.js';
import type { EngineImages } from './images.js';
import { Lifecycle } from './lifecycle.js';
import { OutputLog } from './output.js';
import type { EngineNetworks } from './networks.js';

const NAME = /^\/?[a-zA-Z0-9][a-zA-Z0-9_.-]+$/;

/** The containers of a fake engine. */
export class EngineContainers {
  readonly #containers = new Map<string, FakeContainer>();
  #made = 0;
  readonly life: Lifecycle;

  constructor(
    private readonly clock: Clock,
    private readonly images: EngineImages,
    networks: EngineNetworks,
  ) {
    this.life = new Lifecycle(
      clock,
      networks,
      () => this.list(),
      (container) => this.#containers.delete(container.id),
    );
  }

  list(): readonly FakeContainer[] {
    return [...this.#containers.values()];
  }

  /** By id, the beginning of an id, or name. */
  find(idOrName: string): FakeContainer | undefined {
    return this.list().find(
      (c) => c.name === idOrName.replace(/^\//, '') || (idOrName.length >= 4 && c.id.startsWith(idOrName)),
    );
  }

  /** As {@link find}, but absence is the engine's 404. */
  get(idOrName: string): FakeContainer {
    const container = this.find(idOrName);
    if (container === undefined) throw new EngineProblem(404, `No such container: ${idOrName}`);
    return container;
  }

  create(name: string | null, body: Readonly<Record<string, unknown>>): FakeContainer {
    const { Image: imageName } = body as { readonly Image: string };
    this.#made += 1;
    const id = createHash('sha256').update(`container ${this.#made}`).digest('hex');
    const chosen = this.#freeName(name ?? `unnamed_${this.#made}`, '');
    const container: FakeContainer = {
      id,
      name: chosen,
      image: this.images.get(imageName),
      imageName,
      body,
      labels: (body['Labels'] as Readonly<Record<string, string>> | undefined) ?? {},
      hostConfig: (body['HostConfig'] as FakeHostConfig | undefined) ?? {},
      state: 'created',
      exitCode: 0,
      oom: false,
      startedAt: 0,
      finishedAt: 0,
      signals: [],
      ports: new Map(),
      networks: new Map(),
      output: new OutputLog(this.clock),
      health: hasCheck(body) ? 'starting' : 'none',
    };
    this.#containers.set(id, container);
    return container;
  }

  rename(container: FakeContainer, name: string): void {
    if (container.name === name) {
      throw new EngineProblem(400, 'Renaming a container with the same name as its current name');
    }
    container.name = this.#freeName(name, 'Error when allocating new name: ');
  }

  update(container: FakeContainer, body: Readonly<Record<string, unknown>>): void {
    if (container.state === 'dead' || container.state === 'removing') {
      throw new EngineProblem(409, 'Container is marked for removal and cannot be "update".');
    }
    container.hostConfig = { ...container.hostConfig, ...(body as FakeHostConfig) };
  }

  /** Freezes or thaws. */
  freeze(container: FakeContainer, frozen: boolean): void {
    const wanted = frozen ? 'running' : 'paused';
    if (container.state !== wanted) {
      throw new EngineProblem(409, `Container ${container.id} is not ${wanted}`);
    }
    container.state = frozen ? 'paused' : 'running';
    if (!frozen) this.life.deliver(container, container.signals);
  }

  remove(container: FakeContainer, force: boolean): void {
    if (container.state === 'removing') {
      throw new EngineProblem(409, `removal of container ${container.id} is already in progress`);
    }
    if (isUp(container) && !force) {
      throw new EngineProblem(
        409,
        `You cannot remove a running container ${container.id}. Stop the container before attempting removal or force remove`,
      );
    }
    container.hostConfig = { ...container.hostConfig, RestartPolicy: { Name: 'no' } };
    this.life.exit(container, 137);
    this.life.remove(container);
  }

  /** Short ids of the containers that use an image. */
  usersOf(imageId: string): readonly string[] {
    return this.list()
      .filter((c) => c.image.id === imageId)
      .map((c) => c.id.slice(0, 12));
  }

  #freeName(name: string, prefix: string): string {
    if (!NAME.test(name)) {
      throw new EngineProblem(
        400,
        `${prefix}Invalid container name (${name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed`,
      );
    }
    const holder = this.list().find((c) => c.name === name);
    if (holder === undefined) return name;
    throw new EngineProblem(
      409,
      `${prefix}Conflict. The container name "/${name}" is already in use by container "${holder.id}". You have to remove (or rename) that container to be able to reuse that name.`,
    );
  }
}

function hasCheck(body: Readonly<Record<string, unknown>>): boolean {
  const [kind = 'NONE'] = (body['Healthcheck'] as { readonly Test?: readonly string[] } | undefined)?.Test ?? [];
  return kind !== 'NONE';
}
