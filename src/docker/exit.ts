import { signalNumber } from '../internal/signal-names.js';
import type { ExitResult } from '../shutdown/types.js';

/** What a shell, and the engine, add to the number of the signal that ended a process. */
const BY_SIGNAL = 128;
const KILLED = BY_SIGNAL + 9;

/** How a container ended, as the engine tells it. */
export interface ExitFacts {
  readonly code: number;
  readonly oom: boolean;
  /** Wall time, ms. */
  readonly at: number;
}

/**
 * Who ended it, and by what (DP-9). The engine only knows a code; 128 + n counts as a signal when we sent that signal,
 * or when the kernel ran out of memory, and as a code of the program's own otherwise. Code 137 that neither explains is
 * somebody else's kill or an engine that was restarted: nobody knows.
 *
 * @param sent - the signals that we sent, or may have sent
 */
export function exitOf({ code, oom, at }: ExitFacts, sent: ReadonlySet<string>): ExitResult {
  const ours = [...sent].find((name) => signalNumber(name) === code - BY_SIGNAL);
  const signal = ours ?? (oom && code === KILLED ? 'SIGKILL' : null);
  return { code: signal === null ? code : null, signal, oom, by: whoEnded(code, oom, ours, sent), at };
}

/** It is gone, and nobody can say how it ended. */
export function unknownExit(at: number): ExitResult {
  return { code: null, signal: null, oom: false, by: 'unknown', at };
}

function whoEnded(code: number, oom: boolean, ours: string | undefined, sent: ReadonlySet<string>): ExitResult['by'] {
  if (ours === 'SIGKILL') return 'kill';
  if (code === KILLED) return oom ? 'self' : 'unknown';
  const asked = [...sent].some((name) => name !== 'SIGKILL');
  return asked ? 'signal' : 'self';
}
