import type { Clock } from '../clock.js';
import { onAbort } from '../internal/signals.js';

/**
 * Runs `work`, which may go on for a while after `stop` has aborted, and no longer.
 *
 * @param grace - for how long, ms
 * @param work - gets a signal that aborts then, with the reason of `stop`
 */
export async function withGrace<T>(
  { clock, stop, grace }: { readonly clock: Clock; readonly stop: AbortSignal; readonly grace: number },
  work: (late: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = new AbortController();
  let cancel = (): void => undefined;
  const dispose = onAbort(stop, (reason) => {
    cancel = clock.timer(grace, () => late.abort(reason));
  });
  try {
    return await work(late.signal);
  } finally {
    dispose();
    cancel();
  }
}
