import { AllocLifecycle } from '../alloc/lifecycle.js';
import { isServing, isTerminal } from '../alloc/states.js';
import { invalidOption } from '../errors.js';
import { parseReplace } from './options.js';
import { planReplace } from './plan.js';
import { Replacement } from './replacement.js';
import type { ReplaceOptions, ReplaceResult } from './types.js';

/**
 * Replaces one alloc by its successor without losing service (RO-1).
 *
 * `stop-first` prepares the next, stops the previous, starts the next. `start-first` starts the next, waits until it is
 * healthy and registered, and stops the previous. Until the *commit point* anything that goes wrong, a cancel
 * included, leaves the previous alloc as it was: same container, still registered. The commit point of `stop-first` is
 * the previous alloc's first signal (or its exit once it drains), of `start-first` the moment in which the next is healthy and
 * registered.
 *
 * @param current - a running alloc; `undefined`, one that nobody has touched, or one that has ended: the next is just
 *   started. Once it is replaced, what is left of it is removed, also what an earlier process only prepared; when the
 *   next fails, that stays
 * @param next - a new alloc, which nobody has started
 * @param options.signal - before the commit point: calls it off. After it: nothing is left to call off. While the
 *   previous alloc cannot be killed: ends `failed`, without the next
 * @returns what came of it, as a value, also when it failed or was cancelled
 * @throws HandoverError before anything is touched: `ERR_INVALID_OPTION`; `ERR_GATE_DEADLOCK` for a gate that would
 *   wait on itself; `ERR_OVERLAP_IMPOSSIBLE` for `start-first` with a shared exclusive resource
 */
export async function replace(
  current: AllocLifecycle | undefined,
  next: AllocLifecycle,
  options: ReplaceOptions = {},
): Promise<ReplaceResult> {
  const settings = parseReplace(options);
  if ((current as unknown) !== undefined) requireAlloc('current', current);
  requireAlloc('next', next);
  if (current?.id === next.id) throw invalidOption('next.id', `is also the id of the previous alloc (${next.id})`);
  // Nobody has touched it: there is nothing to replace yet, as at the first run of a deploy script.
  const previous = current?.state === 'pending' ? undefined : current;
  const plan = planReplace(previous?.status(), next.status(), settings);
  if (!isFresh(next)) refuse('next', next, 'give one that has not been started');
  if (previous !== undefined && !isTerminal(previous.state)) {
    if (!isServing(previous.state)) refuse('current', previous, 'give one that is running or has ended');
    if (previous.stopping !== undefined) {
      refuse('current', previous, 'it is being stopped or replaced already: wait for that, or cancel it');
    }
  }
  if (taken.has(next)) refuse('next', next, 'another replacement brings it up already');
  taken.add(next);
  return new Replacement(previous, next, { ...settings, ...plan, untouched: previous ? undefined : current }).run();
}

/** The successors of all replacements: one cannot be the successor in two. */
const taken = new WeakSet<AllocLifecycle>();

function requireAlloc(path: string, alloc: unknown): void {
  if (!(alloc instanceof AllocLifecycle)) throw invalidOption(path, 'must be an AllocLifecycle');
}

function refuse(path: string, { id, state }: AllocLifecycle, problem: string): never {
  throw invalidOption(path, `alloc ${id} is ${state}: ${problem}`);
}

function isFresh({ state }: AllocLifecycle): boolean {
  return state === 'pending' || state === 'prestarting' || state === 'prepared';
}
