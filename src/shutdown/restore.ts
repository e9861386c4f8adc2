import type { StopContext } from './context.js';
import { runHook } from './hooks.js';
import type { Cut } from './interrupts.js';
import { CALL_MS, HOOK_MS } from './plan.js';

/** What a called-off `disarm` gets to settle, so that it does not land after the rearming. */
const SETTLE_MS = 2_000;

/**
 * Undoes what a stop has done before its first signal (SS-9): rearms, tells the `cancelled` hook if `preStop` was
 * told, and registers again.
 *
 * @param registerMs - how long to wait for the registry; the registration lives on after it
 * @returns `false`: the target has exited meanwhile, or was let go of, so there is nothing to go back to
 */
export async function restore(stop: StopContext, registerMs: number): Promise<boolean> {
  const { id, interrupts, target, deregistration, done, warn } = stop;
  const ends: readonly Cut[] = ['detach', 'exit'];
  stop.waitFor(null);
  const { disarming } = target;
  if (disarming !== undefined) {
    await interrupts.span(ends, SETTLE_MS, () => disarming);
    const rearmed = await interrupts.span(ends, CALL_MS, (signal) => target.rearm(signal));
    if (rearmed.by === 'failed') warn('rearm-failed', `Whether ${id} is armed again is not known`, rearmed.error);
    if (rearmed.by === 'late') warn('rearm-late', `${id} was not rearmed in ${CALL_MS} ms`);
  }
  if (done.hooks.has('preStop')) await runHook(stop, 'cancelled', HOOK_MS, ends);
  if (deregistration?.begun === true) {
    const registered = await interrupts.span(ends, registerMs, () => deregistration.undo());
    if (registered.by === 'late') {
      warn(
        'register-late',
        `The registry has not registered ${deregistration.ids} again yet; it is asked until it does`,
      );
    }
  }
  if (!ends.some((end) => interrupts.has(end))) return true;
  interrupts.takeBack('cancel');
  return false;
}
