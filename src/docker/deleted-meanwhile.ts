import type { Clock } from '../clock.js';
import { backoff, type BackoffOptions } from '../internal/backoff.js';
import { sleep } from '../internal/signals.js';
import { isEngineFault } from './engine-fault.js';

/**
 * With these words, and HTTP 500, an engine (20.10) answers who looks while it deletes an image: it knew the image when
 * the call came, and did not find the rest of it a moment later.
 */
const TEXTS = [/layer does not exist/i, /unrecognized image ID/i, /failed to get digest/i];

/** Each deletion meets a call at most once, so a few looks do; a store that is damaged says the same for ever. */
const LOOKS = 6;
const AGAIN: BackoffOptions = { first: 50, max: 1_000, jitter: 'none' };

/**
 * Looks again, for about 1.5 s, while a deletion gets in the way: this answer is no absence, only a 404 is.
 *
 * @throws what the last look throws, or the signal's reason
 */
export async function settledLook<T>(
  clock: Clock,
  look: () => Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  for (let looks = 1; ; looks++) {
    try {
      return await look();
    } catch (error) {
      if (looks >= LOOKS || !isDeletedMeanwhile(error)) throw error;
      await sleep(clock, backoff(AGAIN, looks, clock), { signal });
    }
  }
}

function isDeletedMeanwhile(error: unknown): boolean {
  return isEngineFault(error, 500) && TEXTS.some((text) => text.test(error.text));
}
