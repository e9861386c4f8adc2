import type { StopContext } from './context.js';
import type { Cut, Ending } from './interrupts.js';
import type { ShutdownHooks } from './types.js';

/** The hooks that a stop calls. */
export type HookName = Exclude<keyof ShutdownHooks, 'preStopFirst'>;

/**
 * Runs a hook of the embedder's: bounded, and never in the way (SS-10). One that throws or is late is a warning; late,
 * its signal aborts and the stop goes on without it.
 */
export async function runHook(stop: StopContext, name: HookName, ms: number, ends: readonly Cut[]): Promise<Ending> {
  const ending = await stop.interrupts.span(ends, ms, async (signal) => {
    stop.done.hooks.add(name);
    await stop.hooks[name]?.(stop.id, { signal });
  });
  if (ending.by === 'failed') stop.warn('hook-failed', `The ${name} hook of ${stop.id} failed`, ending.error);
  if (ending.by === 'late')
    stop.warn('hook-late', `The ${name} hook of ${stop.id} was not done in ${ms} ms; it was left`);
  return ending;
}
