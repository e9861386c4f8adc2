import type { Call } from '../call.js';
import { invalidOption } from '../errors.js';
import { linkSignals } from '../internal/signals.js';
import { ended, unhealthy } from './faults.js';
import type { AllocParts } from './parts.js';
import { isDoomed, isServing } from './states.js';
import type { AllocStatus } from './types.js';

/** A state of affairs that {@link AllocLifecycle.until} waits for. */
export type AllocGoal = 'prepared' | 'running' | 'healthy' | 'terminal';

/** Whether an alloc of this status is there. */
export type There = (status: AllocStatus) => boolean;

const GOALS: Readonly<Record<AllocGoal, There>> = {
  prepared: ({ reached }) => reached !== 'none',
  running: ({ state }) => isServing(state),
  healthy: ({ reached }) => reached === 'healthy',
  terminal: ({ terminal }) => terminal,
};

/**
 * Waits until the alloc is there, or cannot come any more.
 *
 * @param there - default: what the goal says
 */
export async function untilGoal(
  { id, board, life, options, upkeep }: AllocParts,
  goal: AllocGoal,
  call: Call,
  there?: There,
): Promise<AllocStatus> {
  if (!Object.hasOwn(GOALS, goal)) throw invalidOption('goal', `must be one of ${Object.keys(GOALS).join(', ')}`);
  const isThere = there ?? GOALS[goal];
  // An end stays true, also of an alloc that was let go of.
  const link = linkSignals(call.signal, board.status.terminal ? undefined : life.signal);
  try {
    return await board.cell.until((status) => {
      if (isThere(status)) return status;
      if (status.terminal || (goal !== 'terminal' && isDoomed(status.state))) throw ended(status);
      const { health } = upkeep;
      if (goal === 'healthy' && health.verdict === 'unhealthy') throw unhealthy(id, options.health, health);
      return undefined;
    }, link.signal);
  } finally {
    link.dispose();
  }
}
