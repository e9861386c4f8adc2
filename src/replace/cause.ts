import type { AllocStopReport } from '../alloc/types.js';
import { HandoverError, isHandoverError } from '../errors.js';

/** Why the previous one was kept. Of a next one that never ran, its gate knows more than its end. */
export function causeOf(error: unknown, stop: AllocStopReport): HandoverError | undefined {
  const neverRan = isHandoverError(error, 'ERR_ALLOC_ENDED') && ['discarded', 'rejected'].includes(error.details.state);
  return isHandoverError(error) && !neverRan ? error : whyKept(stop);
}

/** What the stop itself says: its gate was missed, or it was called off because nothing could be deregistered. */
export function whyKept({ gate, tasks }: AllocStopReport): HandoverError | undefined {
  const warnings = tasks.flatMap((task) => task.warnings);
  const byItself = warnings.some(({ code }) => code === 'stop-called-off');
  return gate?.cause ?? (byItself ? warnings.find(({ error }) => error !== undefined)?.error : undefined);
}

/** A gate that was missed for want of the registry says so. */
export function becauseOf(missed: HandoverError, unregistered: HandoverError | undefined): HandoverError {
  if (unregistered === undefined || !isHandoverError(missed, 'ERR_GATE_MISSED') || missed.cause !== undefined)
    return missed;
  const message = `${missed.message}. ${unregistered.message}`;
  return new HandoverError('ERR_GATE_MISSED', message, { details: missed.details, cause: unregistered });
}
