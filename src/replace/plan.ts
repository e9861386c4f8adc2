import { overlapRefused } from '../alloc/faults.js';
import type { AllocView, Gate } from '../alloc/types.js';
import { overlap } from '../driver/resources.js';
import { HandoverError, invalidOption } from '../errors.js';
import type { ReplaceOptions } from './types.js';

/** The order in which the two are started and stopped. */
export type Order = NonNullable<ReplaceOptions['order']>;

/** What is wrong with a gate in an order; `ok` is what the order is for (AL-6). */
export const ORDER_GATES: Readonly<Record<Order, Readonly<Record<Gate, 'default' | 'ok' | 'deadlock' | 'pointless'>>>> =
  {
    // The next cannot become healthy before the previous has ended, which would wait for just that.
    'stop-first': { none: 'ok', prepared: 'default', healthy: 'deadlock' },
    // The previous would be stopped before it is known that the next can serve, although nothing forces that.
    'start-first': { none: 'pointless', prepared: 'pointless', healthy: 'default' },
  };

/** What a replacement will do. */
export interface ReplacePlan {
  readonly order: Order;
  readonly gate: Gate;
}

/**
 * Decides order and gate, and refuses what would wait on itself, before anything is touched (AL-6). Pure.
 *
 * @param previous - `undefined`: there is nothing to replace; one that has ended holds nothing any more
 * @throws HandoverError `ERR_GATE_DEADLOCK`, `ERR_OVERLAP_IMPOSSIBLE`, `ERR_INVALID_OPTION`
 */
export function planReplace(
  previous: AllocView | undefined,
  next: AllocView,
  o: Pick<ReplaceOptions, 'order' | 'gate'>,
): ReplacePlan {
  const holder = previous?.terminal === false ? previous : undefined;
  const clash = overlap(holder?.exclusive ?? [], next.exclusive);
  const order = o.order ?? (clash.length > 0 ? 'stop-first' : 'start-first');
  const gate = o.gate ?? defaultGate(order);
  const verdict = ORDER_GATES[order][gate];
  if (verdict === 'deadlock') throw deadlock(previous?.id ?? '(none)', next.id);
  if (verdict === 'pointless') throw invalidOption('gate', `must be 'healthy' with order ${order}, not '${gate}'`);
  if (order === 'start-first' && holder !== undefined && clash.length > 0)
    throw overlapRefused(holder.id, next.id, clash);
  if (holder?.stopBudget === 'never') {
    throw invalidOption(
      'shutdown.killTimeout',
      `is 'never' for alloc ${holder.id}: its replacement would have no bound`,
    );
  }
  return { order, gate };
}

function defaultGate(order: Order): Gate {
  return order === 'stop-first' ? 'prepared' : 'healthy';
}

function deadlock(previous: string, next: string): HandoverError {
  const message =
    `Alloc ${next} cannot become healthy before alloc ${previous} has ended, and that would wait for it: ` +
    "use gate 'prepared', or order 'start-first'";
  return new HandoverError('ERR_GATE_DEADLOCK', message, { details: { cycle: [previous, next, previous] } });
}
