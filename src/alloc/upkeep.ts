import { Deadline } from '../clock.js';
import type { TaskHandle } from '../driver/driver.js';
import type { Ground } from '../env.js';
import type { ExitResult } from '../shutdown/types.js';
import type { AllocBoard, Facets } from './board.js';
import { probes } from './checks.js';
import { errorOf } from './faults.js';
import { HealthMonitor, type HealthReading } from './health.js';
import type { AllocOptions } from './options.js';
import type { AllocServices } from './services.js';
import { isServing } from './states.js';
import type { AllocTaskRunner } from './task.js';
import type { AllocEnv } from './types.js';

/** The parts of an alloc that its upkeep works with. */
export interface UpkeepParts {
  readonly ground: Ground;
  readonly env: AllocEnv;
  readonly options: AllocOptions;
  readonly board: AllocBoard;
  readonly task: AllocTaskRunner;
  readonly services: AllocServices;
  /** Aborts when the alloc is let go of. */
  readonly life: AbortSignal;
}

/**
 * What goes on while a started alloc lives: its health is judged, its services are registered, its exit is watched
 * (AL-9). A held alloc is kept up as well (AL-4).
 */
export class AllocUpkeep {
  readonly #parts: UpkeepParts;
  readonly #monitor: HealthMonitor;

  constructor(parts: UpkeepParts) {
    this.#parts = parts;
    const { board, env, ground, options, task } = parts;
    const tryCheck = probes(env);
    const subject = { endpoint: (port: string) => task.handle?.endpoints[port], status: () => board.status };
    this.#monitor = new HealthMonitor(options.health, {
      clock: ground.clock,
      try: (check, call) => tryCheck[check.type](check as never, subject, call),
      changed: (reading) => this.#onHealth(reading),
    });
  }

  get health(): HealthReading {
    return this.#monitor.reading;
  }

  /** From here on it is kept up. */
  begin(handle: TaskHandle): void {
    const { ground, options, board, services } = this.#parts;
    services.locate(
      (port) => handle.endpoints[port],
      ({ service, port }) => this.#warn(`Service ${service} is not registered: the task has no port named ${port}`),
    );
    const until = new Deadline(ground.clock, options.health.healthyDeadline).wall;
    const why = 'Becomes healthy when its checks pass for long enough';
    board.show({ health: 'pending', wait: { for: 'health', since: ground.clock.wall(), until, why } }, 'alloc:health');
    void this.#watchExit(handle);
    void this.#register('started');
    this.#monitor.start();
  }

  /** Observes nothing any more. */
  end(): void {
    this.#monitor.stop();
  }

  /** The registry acknowledged something. */
  onRegistered(): void {
    const { board, services } = this.#parts;
    board.show({ registered: services.registered, ...this.#judge(this.#monitor.reading) }, 'alloc:health');
  }

  async #watchExit(handle: TaskHandle): Promise<void> {
    const { board, life, services, task } = this.#parts;
    let exit: ExitResult;
    try {
      exit = await task.exit(handle, life);
    } catch {
      return; // It was let go of.
    }
    this.end();
    const how = exit.signal === null ? `with code ${exit.code ?? 'unknown'}` : `by ${exit.signal}`;
    const byItself = isServing(board.state);
    board.send(
      howItEnded(exit),
      { code: 'exited', message: `Its task ended ${how}` },
      { tasks: { [task.name]: { phase: 'dead', exit } }, health: 'none', healthy: false },
    );
    // A stop in progress takes the services off by itself.
    if (!byItself) return;
    await services.deregister(life).catch((error: unknown) => this.#warn('A service is still registered', error));
  }

  async #register(moment: 'started' | 'healthy'): Promise<void> {
    const { life, services } = this.#parts;
    try {
      await services.register(moment, life);
    } catch (error) {
      if (!life.aborted) this.#warn('A service could not be registered yet; it is tried on', error);
    }
  }

  #onHealth(reading: HealthReading): void {
    const { board } = this.#parts;
    const was = board.status.health;
    const facets = this.#judge(reading);
    board.show({ checks: reading.checks, ...facets }, facets.health === was ? undefined : 'alloc:health');
    if (reading.passing && was !== 'passing' && isServing(board.state)) void this.#register('healthy');
  }

  #judge({ passing, verdict, checks }: HealthReading): Partial<Facets> {
    const failing = verdict === 'unhealthy' || Object.values(checks).some(({ code }) => code === 'check-failing');
    const healthy = verdict === 'healthy' && this.#parts.services.complete;
    const health = passing ? 'passing' : failing ? 'failing' : 'pending';
    return { health, healthy, ...(healthy && this.#parts.board.state === 'running' && { wait: null }) };
  }

  #warn(message: string, error?: unknown): void {
    const { board } = this.#parts;
    board.emitter.warn(`alloc ${board.status.id}`, { code: 'alloc-warning', message, ...errorOf(error) });
  }
}

/** An end of which nothing is known, because somebody removed the task, is a loss. */
function howItEnded({ code, signal }: ExitResult): 'exitedWell' | 'exitedBadly' | 'lost' {
  if (code === null && signal === null) return 'lost';
  return code === 0 ? 'exitedWell' : 'exitedBadly';
}
