import { Deadline } from '../clock.js';
import type { TaskHandle } from '../driver/driver.js';
import type { Ground, Reason, Wait } from '../env.js';
import { linkSignals } from '../internal/signals.js';
import type { ExitResult } from '../shutdown/types.js';
import type { AllocBoard, Facets } from './board.js';
import { probes } from './checks.js';
import { NO_SUCH_PORT, unregistered } from './faults.js';
import { HealthMonitor, type HealthReading } from './health.js';
import type { AllocOptions } from './options.js';
import type { AllocServices } from './services.js';
import { isServing } from './states.js';
import type { AllocTaskRunner } from './task.js';
import type { AllocEnv } from './types.js';

/** How long the deregistration of a task that ended by itself is waited for before it is told; it is tried on after it. */
const DEREGISTER_MS = 5_000;

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
  readonly warn: (message: string, error: unknown) => void;
}

/**
 * What goes on while a started alloc lives: its health is judged, its services are registered, its exit is watched
 * (AL-9). A held alloc is kept up as well (AL-4).
 */
export class AllocUpkeep {
  readonly #parts: UpkeepParts;
  readonly #monitor: HealthMonitor;
  readonly #over = new AbortController();
  /** What asks for a port that the task does not have: it can never be registered or pass, so never be healthy. */
  #misfits: Readonly<Record<string, Reason>> = {};
  #healthy = false;
  /** When it has to be healthy. */
  #healthWait: Wait | null = null;
  /** Since when its health is good and the registry is waited for, wall time, ms. */
  #unregisteredSince: number | undefined;
  /** How many checks have passed at once, at most: only more than that is progress (AL-4). */
  #most = 0;

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
    const { passing, verdict, checks } = this.#monitor.reading;
    if (Object.keys(this.#misfits).length === 0) return { passing, verdict, checks };
    return { passing: false, verdict: 'unhealthy', checks: { ...checks, ...this.#misfits } };
  }

  /** What it waits for by itself; `null` once it is healthy. */
  get wait(): Wait | null {
    return this.#healthy ? null : (this.#registryWait() ?? this.#healthWait);
  }

  /**
   * From here on it is kept up, unless it was let go of meanwhile.
   *
   * @param deadline - in which it has to become healthy, ms. Default: it has just been started
   */
  begin(handle: TaskHandle, deadline: number = this.#parts.options.health.healthyDeadline): void {
    const { ground, board, life } = this.#parts;
    // In any case: for one that was let go of it closes what its handle holds open for us (G-4).
    void this.#watchExit(handle);
    if (life.aborted) return;
    this.#locate(handle);
    const until = new Deadline(ground.clock, deadline).wall;
    const why = 'Becomes healthy when its checks pass for long enough';
    const wait = { for: 'health', since: ground.clock.wall(), until, why } as const;
    this.#healthWait = wait;
    board.show({ health: 'pending', wait, checks: this.#misfits }, 'alloc:health');
    void this.#register('started');
    this.#monitor.start(deadline);
  }

  /** An earlier process started it. What it has registered is taken off with it; one that has ended is
   * not kept up. */
  resume(handle: TaskHandle, running: boolean): void {
    if (running) this.begin(handle, this.#timeLeft(handle));
    else this.#locate(handle);
    this.#parts.services.assumeStanding();
    if (!running) void this.#watchExit(handle);
  }

  /** It runs on after a stop that was called off: what became due meanwhile is done. */
  calledOff(): void {
    if (this.#monitor.reading.passing) void this.#register('healthy');
  }

  /** It was told to stop: its health is of no interest any more, its exit is. */
  told(): void {
    this.#monitor.stop();
  }

  /** Its task has ended. Idempotent; `undefined`: how is not known. */
  exited(exit: ExitResult | undefined): void {
    const { board, life, services, task } = this.#parts;
    this.end();
    board.send(
      howItEnded(exit),
      {
        code: 'exited',
        message: `Its task ended ${exit === undefined ? 'in a way that is not known' : inWords(exit)}`,
      },
      { tasks: { [task.name]: { phase: 'dead', ...(exit && { exit }) } }, health: 'none', healthy: false },
    );
    services.deregister(DEREGISTER_MS, life).catch((error: unknown) => {
      this.#parts.warn('It has ended, and a service is still registered', error);
    });
  }

  /** Observes nothing any more. */
  end(): void {
    this.#over.abort();
    this.#monitor.stop();
  }

  /** The registry acknowledged something. */
  onRegistered(): void {
    const { board, services } = this.#parts;
    const { registered } = services;
    if (board.status.terminal) board.show({ registered });
    else board.show({ registered, ...this.#judge() }, 'alloc:health');
  }

  /** The registry did not take something: no news to others, but the reason why nothing happens. */
  onRefused(): void {
    const { board } = this.#parts;
    if (!board.status.terminal) board.show(this.#judge(), undefined, false);
  }

  /**
   * What is left of the health deadline of a task that was started before (AL-9). How its health was judged then is not
   * known, so there is time for one judgement in any case.
   */
  #timeLeft({ startedAt }: TaskHandle): number {
    const { ground, options } = this.#parts;
    const { checks, healthyDeadline, minHealthyTime } = options.health;
    if (startedAt === undefined || healthyDeadline === Infinity) return healthyDeadline;
    const once = minHealthyTime + Math.max(0, ...checks.map(({ interval, timeout }) => interval + timeout));
    return Math.max(once, Deadline.resumed(ground.clock, startedAt + healthyDeadline, healthyDeadline).remaining());
  }

  /** Finds the ports of the task. Some drivers cannot name them before. */
  #locate(handle: TaskHandle): void {
    const { ground, options, services } = this.#parts;
    const at = ground.clock.wall();
    const misfit = (name: string, what: string, port: string): readonly [string, Reason] => {
      const message = `${what}: the task has no port ${port}`;
      return [name, { code: NO_SUCH_PORT, message, at }];
    };
    const names = new Set(options.health.checks.map(({ name }) => name));
    const unserved = services
      .locate((port) => handle.endpoints[port])
      .map(({ service, port }) => {
        let name = `service ${service}`;
        while (names.has(name)) name += ` port ${port}`;
        names.add(name);
        return misfit(name, `Service ${service} cannot be registered`, port);
      });
    const untried = options.health.checks.flatMap((check) =>
      check.type === 'custom' || handle.endpoints[check.port] !== undefined
        ? []
        : [misfit(check.name, `Check ${check.name} cannot be tried`, check.port)],
    );
    this.#misfits = Object.fromEntries([...unserved, ...untried]);
  }

  async #watchExit(handle: TaskHandle): Promise<void> {
    const link = linkSignals(this.#parts.life, this.#over.signal);
    try {
      this.exited(await this.#parts.task.exit(handle, link.signal));
    } catch {
      // It was let go of, or its end was learnt elsewhere.
    } finally {
      link.dispose();
    }
  }

  async #register(moment: 'started' | 'healthy'): Promise<void> {
    const { life, services, warn } = this.#parts;
    try {
      await services.register(moment, life);
    } catch (error) {
      warn('A service could not be registered yet; it is tried on', error);
    }
  }

  #onHealth({ passing }: HealthReading): void {
    const { board } = this.#parts;
    const { health: was } = board.status;
    const wasHealthy = this.#healthy;
    const facets = this.#judge();
    const moved = facets.health !== was || facets.healthy !== wasHealthy;
    board.show({ checks: this.health.checks, ...facets }, moved ? 'alloc:health' : undefined, this.#gotOn());
    if (passing && isServing(board.state)) void this.#register('healthy');
  }

  /** Whether more checks pass than ever before: what comes and goes again is no progress. */
  #gotOn(): boolean {
    const passing = Object.values(this.health.checks).filter(({ code }) => code === 'check-passing').length;
    const most = this.#most;
    this.#most = Math.max(most, passing);
    return passing > most;
  }

  #judge(): Pick<Facets, 'health' | 'healthy'> & Partial<Facets> {
    const { passing, verdict, checks } = this.health;
    const failing = verdict === 'unhealthy' || Object.values(checks).some(({ code }) => code === 'check-failing');
    this.#healthy = verdict === 'healthy' && this.#parts.services.complete;
    const { board, ground, services } = this.#parts;
    if (verdict !== 'healthy' || services.complete) this.#unregisteredSince = undefined;
    else this.#unregisteredSince ??= ground.clock.wall();
    const wait = this.#healthy ? null : this.#registryWait();
    return {
      health: passing ? 'passing' : failing ? 'failing' : 'pending',
      healthy: this.#healthy,
      ...(board.state === 'running' && wait !== undefined && { wait }),
    };
  }

  #registryWait(): Wait | undefined {
    const { board, services } = this.#parts;
    if (this.#unregisteredSince === undefined || services.missing === undefined) return undefined;
    const { missing } = services;
    const [on = ''] = missing.ids;
    const why = `${unregistered(board.status.id, missing).message} (so there is no deadline)`;
    return { for: 'health', since: this.#unregisteredSince, until: null, on, why };
  }
}

/** An end of which nothing is known, because somebody removed the task, is a loss. */
function howItEnded(exit: ExitResult | undefined): 'exitedWell' | 'exitedBadly' | 'lost' {
  if (exit === undefined || (exit.code === null && exit.signal === null)) return 'lost';
  return exit.code === 0 ? 'exitedWell' : 'exitedBadly';
}

function inWords({ code, signal }: ExitResult): string {
  return signal === null ? `with code ${code ?? 'unknown'}` : `by ${signal}`;
}
