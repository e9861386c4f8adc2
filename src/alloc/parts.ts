import { type Ground, requireMethods, resolveEnv } from '../env.js';
import type { Progress } from '../image/types.js';
import { ShutdownSequencer } from '../shutdown/sequencer.js';
import type { ShutdownBudget } from '../shutdown/types.js';
import { AllocBoard } from './board.js';
import { errorOf, inside } from './faults.js';
import { AllocLaunch } from './launch.js';
import { type AllocOptions, parseAlloc } from './options.js';
import { AllocServices } from './services.js';
import { AllocTaskRunner } from './task.js';
import type { AllocEnv, AllocSpec, AllocTask, TaskStatus } from './types.js';
import { AllocUpkeep } from './upkeep.js';

/** All that an alloc is made of. */
export interface AllocParts {
  readonly id: string;
  readonly ground: Ground;
  readonly options: AllocOptions;
  readonly board: AllocBoard;
  readonly task: AllocTaskRunner;
  readonly services: AllocServices;
  readonly sequencer: ShutdownSequencer;
  readonly launch: AllocLaunch;
  readonly upkeep: AllocUpkeep;
  /** Aborts when the alloc is let go of: everything ends and nothing is undone. */
  readonly life: AbortController;
}

/**
 * Makes the parts of an alloc; touches nothing.
 *
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function assemble(spec: AllocSpec, env: AllocEnv): AllocParts {
  const ground = resolveEnv(env);
  requireMethods('env.feed', env.feed, ['watch'], ['publish']);
  const options = parseAlloc(spec, env);
  const { id } = options;
  const life = new AbortController();
  const warn = (message: string, error: unknown): void => {
    // What goes wrong because it was let go of is what was wanted (G-4).
    if (life.signal.aborted) return;
    board.emitter.warn(`alloc ${id}`, { code: 'alloc-warning', message, ...errorOf(error) });
  };
  const shared = { id, ground, env, options, life: life.signal, warn };
  const task = makeTask(options, stopPlan(spec), {
    ...shared,
    progress: (progress) => showProgress(board, task.name, progress),
  });
  const services = new AllocServices(
    id,
    options.services,
    ground,
    () => upkeep.onRegistered(),
    () => upkeep.onRefused(),
  );
  const observed = { ...env, registrar: services.registrar };
  const sequencer = inside('shutdown', () => new ShutdownSequencer(spec.shutdown, observed));
  const stopBudget = budgetOf({ sequencer, services }).total;
  const { exclusive } = task;
  const board = new AllocBoard(ground, { id, task: task.name, exclusive, stopBudget, feed: env.feed });
  const upkeep = new AllocUpkeep({ ...shared, board, task, services });
  const launch = new AllocLaunch({ ...shared, board, task, started: (handle) => upkeep.begin(handle) });
  return { id, ground, options, board, task, services, sequencer, launch, upkeep, life };
}

/** The longest that a stop of the alloc can take. */
export function budgetOf({ sequencer, services }: Pick<AllocParts, 'sequencer' | 'services'>): ShutdownBudget {
  return sequencer.budget({ services: services.expected });
}

function makeTask(
  { id, tasks, services, health }: AllocOptions,
  labels: Readonly<Record<string, string>>,
  ports: ConstructorParameters<typeof AllocTaskRunner>[4],
): AllocTaskRunner {
  const [first] = tasks;
  const { name, driver, spec } = first as unknown as AllocTask<unknown>;
  requireMethods('tasks.0.driver', driver, METHODS, ['ports']);
  const task = inside('tasks.0.spec', () => new AllocTaskRunner(id, name, driver, spec, ports, labels));
  services.forEach(({ port }, i) => task.requirePort(`services.${i}.port`, port));
  health.checks.forEach((one, i) => {
    if (one.type !== 'custom') task.requirePort(`health.checks.${i}.port`, one.port);
  });
  return task;
}

/** For whoever finds the task and knows nothing of its alloc (DP-8). */
function stopPlan({ shutdown = {} }: AllocSpec): Readonly<Record<string, string>> {
  return { 'handover.stop': JSON.stringify(shutdown) };
}

const METHODS = ['parse', 'exclusive', 'prestart', 'start', 'recover', 'list'] as const;

/** What has not got on is no news: it must not look like progress to whoever waits for some (AL-4). */
function showProgress(board: AllocBoard, task: string, progress: Progress): void {
  const known = board.status.tasks[task]?.progress;
  if (board.state !== 'prestarting' || (known !== undefined && got(known) === got(progress))) return;
  const shown: TaskStatus = { phase: 'preparing', progress };
  board.show({ tasks: { [task]: shown } }, 'alloc:task');
}

function got({ phase, attempt, bytes, layers }: Progress): string {
  return [phase, attempt, bytes.done, layers?.done].join(' ');
}
