import type { AllocLifecycle } from 'handover';
import { replace } from 'handover';

/**
 * The least that an engine has to be asked on the happy path (B12); docs/drivers.md says what each is for. An image that
 * is present is looked at once, by its reference.
 */
export const LEAST_CALLS = {
  prestart: ['GET /images/{ref}/json', 'GET /containers/json', 'POST /containers/create'],
  start: ['POST /containers/{id}/wait', 'POST /containers/{id}/start', 'GET /containers/{id}/json'],
  stop: ['GET /containers/{id}/json', 'POST /containers/{id}/kill', 'GET /containers/{id}/json'],
  destroy: ['DELETE /containers/{id}'],
} as const;

const LOOK = 'GET /containers/{id}/json';

/**
 * Those of a whole replacement, in whatever order: some of them may go on side by side. Besides the steps these are looks:
 * at what is prepared, when it is and once more before the point of no return (AL-3); at the previous task, whether there
 * is somebody to stop, and whether it has ended indeed.
 */
export const LEAST_OF_REPLACE = [
  ...[LOOK, LOOK, LOOK, LOOK],
  ...LEAST_CALLS.prestart,
  ...LEAST_CALLS.stop,
  ...LEAST_CALLS.start,
  ...LEAST_CALLS.destroy,
].sort();

/** Calls without names, versions and queries. */
export function plain(calls: readonly string[], reference: string): readonly string[] {
  return calls.map((call) =>
    call
      .split('?')[0]!
      .replace(/ \/v\d+\.\d+\//, ' /')
      .replace(encodeURIComponent(reference), '{ref}')
      .replace(reference, '{ref}')
      .replace(/\/containers\/[0-9a-f]{64}/, '/containers/{id}'),
  );
}

/** Replaces one by another, and looks at what was asked for it. */
export async function callsOfReplace(
  current: AllocLifecycle,
  next: AllocLifecycle,
  calls: () => readonly string[],
  reference: string,
): Promise<readonly string[]> {
  const before = calls().length;
  const result = await replace(current, next, { order: 'stop-first' });
  if (result.outcome !== 'replaced') throw new Error(`it was ${result.outcome}`);
  return [...plain(calls().slice(before), reference)].sort();
}
