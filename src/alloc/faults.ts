import type { ExclusiveResource } from '../driver/driver.js';
import { formatDuration } from '../duration.js';
import { HandoverError, isHandoverError } from '../errors.js';
import { messageOf } from '../internal/message-of.js';
import { WHOLE } from '../options.js';
import type { HealthReading } from './health.js';
import type { AllocOptions } from './options.js';
import { isBeforeStart, isTerminal } from './states.js';
import type { AllocStatus } from './types.js';

/** The alloc has ended, or is about to. */
export function ended({ id, state, reason }: AllocStatus): HandoverError<'ERR_ALLOC_ENDED'> {
  const early = isBeforeStart(state);
  const ending = early ? 'is being discarded' : 'is being stopped';
  const how = isTerminal(state) ? `has ended (${state}: ${reason.message})` : ending;
  const message = `Alloc ${id} ${how}; make a new one under another id`;
  return new HandoverError('ERR_ALLOC_ENDED', message, {
    details: { allocId: id, state: early ? 'discarded' : state },
    cause: reason.error,
  });
}

/** The code of a health reason: what asks for a port that the task does not have can never pass, or be registered. */
export const NO_SUCH_PORT = 'no-such-port';

/** Health was not reached in time, or cannot be. */
export function unhealthy(
  id: string,
  { checks, healthyDeadline }: AllocOptions['health'],
  reading: HealthReading,
): HandoverError<'ERR_UNHEALTHY'> {
  const names = [...new Set([...checks.map(({ name }) => name), ...Object.keys(reading.checks)])];
  const failing = names.filter((name) => reading.checks[name]?.code !== 'check-passing');
  const words = failing.map((name) => reading.checks[name]?.message ?? `Check ${name} has given no result`);
  const why = words.length === 0 ? 'its checks did not pass for long enough' : words.join('; ');
  const never = Object.values(reading.checks).some(({ code }) => code === NO_SUCH_PORT);
  const how = never
    ? 'cannot become healthy'
    : `did not become healthy within ${formatDuration(healthyDeadline)} of its start`;
  const message = `Alloc ${id} ${how}: ${why}`;
  return new HandoverError('ERR_UNHEALTHY', message, { details: { allocId: id, checks: failing } });
}

/** It runs, and the registry does not have what it was asked to register. */
export function unregistered(id: string, { ids, error }: { ids: readonly string[]; error: unknown }) {
  const said = error === undefined ? 'it has not answered' : messageOf(error);
  const message = `The registry has not taken ${ids.join(', ')} of alloc ${id}, and is asked until it does: ${said}`;
  return new HandoverError('ERR_UNHEALTHY', message, { details: { allocId: id, checks: [] }, cause: error });
}

/** Something was asked that only an alloc which does not run can do. */
export function stillThere({ id, state }: AllocStatus, instead: string): HandoverError<'ERR_PREVIOUS_RUNNING'> {
  return new HandoverError('ERR_PREVIOUS_RUNNING', `Alloc ${id} is ${state}: ${instead}`, {
    details: { allocId: id, state },
  });
}

/** Two allocs were to run side by side, and both need something that only one can hold. */
export function overlapRefused(
  previous: string,
  next: string,
  resources: readonly ExclusiveResource[],
): HandoverError<'ERR_OVERLAP_IMPOSSIBLE'> {
  const names = resources.map(({ kind, key }) => `${kind} ${key}`).join(', ');
  const message = `Allocs ${previous} and ${next} cannot run side by side, both need ${names}: let one end before the other starts (order 'stop-first')`;
  return new HandoverError('ERR_OVERLAP_IMPOSSIBLE', message, { details: { resources } });
}

/** Names an invalid option of a part by its place in the whole; other errors stay as they are. */
export function inside<T>(prefix: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!isHandoverError(error, 'ERR_INVALID_OPTION')) throw error;
    const path = error.details.path === WHOLE ? prefix : `${prefix}.${error.details.path}`;
    throw new HandoverError('ERR_INVALID_OPTION', error.message.replace(error.details.path, path), {
      details: { path },
      cause: error,
    });
  }
}

/** The part of a reason that carries the error, if it is one of ours. */
export function errorOf(error: unknown): { readonly error?: HandoverError } {
  return isHandoverError(error) ? { error } : {};
}
