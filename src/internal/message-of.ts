import { errorCode } from './system-error.js';

/** What to say of anything that was caught. Some of Node's errors have no words of their own, only a code. */
export function messageOf(error: unknown): string {
  if (error instanceof Error) return error.message || (errorCode(error) ?? error.name);
  try {
    return String(error);
  } catch {
    return `a thrown ${typeof error} that cannot be shown`;
  }
}
