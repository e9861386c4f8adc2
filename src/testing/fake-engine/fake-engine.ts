import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Clock, systemClock } from '../../clock.js';
import { Cell } from '../../internal/cell.js';
import type { FakeContainer } from './container.js';
import { EngineContainers } from './containers.js';
import { EngineExecs } from './execs.js';
import { type FakeFault, type FakeFaultMatch, Faults } from './faults.js';
import { type FakeImage, type FakeImageOptions, EngineImages } from './images.js';
import { EngineNetworks } from './networks.js';
import { answer } from './routes.js';
import { EngineServer } from './server.js';

/**
 * A Docker engine that runs nothing: it speaks the engine's HTTP API on a unix socket, so that a real client is
 * exercised, keeps images and containers as an engine does, refuses with an engine's words, and fails as it is told.
 *
 * Containers behave as their environment says: `EXIT_MS` (between SIGTERM and the exit, which has code 0),
 * `IGNORE_TERM=1`, `EXIT_AFTER_MS` with `EXIT_CODE` (ends by itself). Other signals than SIGTERM, SIGINT, the stop
 * signal and SIGKILL change nothing, as with the first process of a container. As the test program of the engine suites
 * they take arguments too, as a command and in an exec: `/bin/app do OUT ERR CODE MS` and `/bin/app fill BYTES`.
 *
 * ```ts
 * const engine = await FakeEngine.start();
 * engine.publish('app:v1');
 * const docker = new Docker({ socketPath: engine.socketPath });
 * ```
 */
export class FakeEngine {
  /** Every call, in order, as `POST /containers/create?name=web`. */
  readonly #log = new Cell<readonly string[]>([]);
  readonly #faults = new Faults();
  readonly #images = new EngineImages();
  readonly #networks = new EngineNetworks();
  readonly #containers: EngineContainers;
  readonly #execs: EngineExecs;
  #server: EngineServer | undefined;

  private constructor(
    private readonly clock: Clock,
    private readonly directory: string,
  ) {
    this.#execs = new EngineExecs(clock);
    this.#containers = new EngineContainers(clock, this.#images, this.#networks);
  }

  /**
   * Starts one, on a socket in a temporary folder of its own.
   *
   * @param o.clock - times the delays of containers and faults. Default: the system's clock
   */
  static async start(o: { readonly clock?: Clock | undefined } = {}): Promise<FakeEngine> {
    const directory = await mkdtemp(join(tmpdir(), 'handover-fake-engine-'));
    const engine = new FakeEngine(o.clock ?? systemClock, directory);
    await engine.up();
    return engine;
  }

  /** For `new Docker({ socketPath })`. */
  get socketPath(): string {
    return join(this.directory, 'docker.sock');
  }

  /** Every call so far, in order, as `POST /containers/create?name=web`; queries are decoded, the version left out. */
  get calls(): readonly string[] {
    return this.#log.value;
  }

  /** All containers in all states. */
  get containers(): readonly FakeContainer[] {
    return this.#containers.list();
  }

  /** All images that are present. */
  get images(): readonly FakeImage[] {
    return this.#images.list();
  }

  /** Names of the containers that run. */
  running(): readonly string[] {
    return this.containers.filter((c) => c.state === 'running').map((c) => c.name);
  }

  /** Resolves once `times` calls that match have come in. */
  async called(pattern: RegExp, times = 1): Promise<void> {
    await this.#log.until((calls) => (calls.filter((c) => pattern.test(c)).length >= times ? true : undefined));
  }

  /** Resolves once no call is open: each was answered, or its client went away. Waits of a container are calls too. */
  async idle(): Promise<void> {
    await this.#server?.open.until((open) => (open === 0 ? true : undefined));
  }

  /** Makes calls fail; each call uses up at most one fault, the oldest that matches. */
  fault(match: FakeFaultMatch, fault: FakeFault): void {
    this.#faults.add(match, fault);
  }

  /** Makes the registry serve content under a reference. */
  publish(reference: string, image: FakeImageOptions = {}): FakeImage {
    return this.#images.publish(reference, image);
  }

  /** Puts an image there as if it had been pulled. */
  put(reference: string, image: FakeImageOptions = {}): FakeImage {
    return this.#images.put(reference, image);
  }

  /** Somebody removes an image by force. */
  loseImage(reference: string): void {
    this.#images.lose(reference);
  }

  /** Somebody creates a container; its image must be present. */
  create(name: string, body: Readonly<Record<string, unknown>>): FakeContainer {
    return this.#containers.create(name, body);
  }

  /** Somebody starts a container. */
  startContainer(idOrName: string): void {
    this.#containers.life.start(this.#containers.get(idOrName));
  }

  /** Somebody restarts a container: it ends by a signal of theirs, and serves again at once. */
  restart(idOrName: string): void {
    this.#containers.life.restart(this.#containers.get(idOrName));
  }

  /** Somebody makes a network; `bridge`, `host` and `none` are there from the start. */
  network(name: string): void {
    this.#networks.add(name);
  }

  /** The process of a container ends by itself. */
  exit(idOrName: string, code: number, o: { readonly oom?: boolean } = {}): void {
    this.#containers.life.exit(this.#containers.get(idOrName), code, o.oom);
  }

  /** The program of a container writes. */
  write(idOrName: string, stream: 'stdout' | 'stderr', text: string): void {
    this.#containers.get(idOrName).output.write(stream, text);
  }

  /** Somebody removes a container by force. */
  remove(idOrName: string): void {
    this.#containers.life.remove(this.#containers.get(idOrName));
  }

  /** Cuts every open connection. */
  disconnect(): void {
    this.#server?.disconnect();
  }

  /** Stops answering: connections are refused until {@link FakeEngine.up}; containers go on running. */
  async down(): Promise<void> {
    await this.#server?.close();
    this.#server = undefined;
  }

  /** Answers again after {@link FakeEngine.down}. */
  async up(): Promise<void> {
    const world = { images: this.#images, containers: this.#containers, networks: this.#networks, execs: this.#execs };
    const server = new EngineServer(
      {
        begin: (method, url) => {
          this.#log.set([...this.#log.value, `${method} ${url}`]);
          return this.#faults.take(method, url);
        },
        answer: (request) => answer(world, request),
      },
      this.clock,
    );
    await server.listen(this.socketPath);
    this.#server = server;
  }

  /** Ends it, with its timers, connections and folder. */
  async close(): Promise<void> {
    this.#containers.life.close();
    await this.down();
    await rm(this.directory, { recursive: true, force: true });
  }
}
