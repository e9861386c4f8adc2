import type { TaskDriver } from '../driver/driver.js';
import { prestartOnce } from '../driver/prestart-once.js';
import { type Env, resolveEnv } from '../env.js';
import type { ExitResult } from '../shutdown/types.js';
import { FakeDriver } from './fake-driver.js';
import { FakeImages } from './fake-images.js';
import type { FakeScript } from './fake-script.js';
import { type FakeSpec, type FakeTask, FakeWorld } from './fake-world.js';

/**
 * The world that drivers act on, in memory: it outlives drivers, coordinators and orchestrators, so that a test can
 * let its orchestrator die and start it again on what is there. All time is `env.clock`'s.
 */
export class FakeHost {
  readonly #world: FakeWorld;
  readonly #images: FakeImages;

  /** @param env - `clock`; the rest is not used */
  constructor(env: Env = {}) {
    const { clock } = resolveEnv(env);
    this.#world = new FakeWorld(clock);
    this.#images = new FakeImages(clock);
  }

  /**
   * What was done and what happened, in order: `prestart a1/web`, `start a1/web`, `signal a1/web SIGTERM`,
   * `kill a1/web`, `exit a1/web`, `discard a1/web`, `destroy a1/web`. A discard or destroy that found nothing to remove
   * is not in it.
   */
  get calls(): readonly string[] {
    return [...this.#world.calls];
  }

  /** The owners of what runs, oldest first. */
  running(): readonly string[] {
    return this.#world.tasks.filter((task) => task.state === 'running').map((task) => task.owner);
  }

  /** The owners of all that exists, oldest first: prepared, running, or ended and not destroyed. */
  remains(): readonly string[] {
    return this.#world.tasks.map((task) => task.owner);
  }

  /**
   * Says how tasks behave from now on, also those that do not exist yet. A second script of the same name takes the
   * place of the first.
   *
   * @param allocIdOrOwner - all tasks of an alloc (`a1`), or one (`a1/web`), which goes before its alloc's
   * @throws HandoverError `ERR_INVALID_OPTION` for what is not in {@link FakeScript}
   */
  script(allocIdOrOwner: string, script: FakeScript): void {
    this.#world.script(allocIdOrOwner, script);
  }

  /**
   * The task ends by itself, now.
   *
   * @param exit - how. Default: code 1
   * @throws Error when nothing of that owner runs
   */
  die(owner: string, exit: Partial<ExitResult> = {}): void {
    this.#world.end(this.#existing(owner, 'running'), { code: 1, ...exit });
  }

  /**
   * Somebody else removes what was prepared.
   *
   * @throws Error when nothing of that owner is prepared
   */
  prune(owner: string): void {
    this.#world.remove(this.#existing(owner, 'prepared'));
  }

  /**
   * A driver on this host. Several of one name see the same tasks, as after a restart of the orchestrator.
   *
   * @param name - default `fake`
   */
  driver(name = 'fake'): TaskDriver<FakeSpec, { id: string }> {
    return prestartOnce(new FakeDriver(this.#world, name));
  }

  /** The host's images; always the same object. */
  images(): FakeImages {
    return this.#images;
  }

  #existing(owner: string, state: FakeTask['state']): FakeTask {
    const task = this.#world.ownedBy(owner);
    if (task?.state === state) return task;
    throw new Error(`FakeHost: ${owner} is not ${state}; it is ${task?.state ?? 'not there'}`);
  }
}
