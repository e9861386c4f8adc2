import { HandoverError } from '../errors.js';

/**
 * How a call to the engine failed (G-8). `status`: the engine answered, and refused. `not-sent`: nobody took the
 * connection, so nothing happened. `lost`: the connection ended after the request was sent, or the answer could not
 * be read: what came of it is unknown. `late`: our own deadline for the call; equally unknown.
 */
export type FaultKind = 'status' | 'not-sent' | 'lost' | 'late';

/** A call to the engine that failed: an `ERR_DRIVER` that also says whether the engine may have acted. */
export class EngineFault extends HandoverError<'ERR_DRIVER'> {
  readonly kind: FaultKind;
  readonly operation: string;
  /** HTTP status; only with `kind: 'status'`. */
  readonly status: number | undefined;
  /** The words of the engine, or of the system, alone. */
  readonly text: string;

  constructor(kind: FaultKind, operation: string, text: string, o: { status?: number; cause?: unknown } = {}) {
    super('ERR_DRIVER', sentence(kind, operation, text, o.status), {
      details: { driver: 'docker', operation, kind, ...(o.status === undefined ? {} : { status: o.status }) },
      retryable: kind !== 'status' || (o.status ?? 0) >= 500,
      cause: o.cause,
    });
    this.kind = kind;
    this.operation = operation;
    this.status = o.status;
    this.text = text;
  }
}

/** Whether a value is an {@link EngineFault}; with `statuses`, one in which the engine answered with one of them. */
export function isEngineFault(error: unknown, ...statuses: readonly number[]): error is EngineFault {
  if (!(error instanceof EngineFault)) return false;
  return statuses.length === 0 || (error.status !== undefined && statuses.includes(error.status));
}

function sentence(kind: FaultKind, operation: string, text: string, status = 0): string {
  switch (kind) {
    case 'status':
      return `The Docker engine refused to ${operation}: ${text} (HTTP ${status})`;
    case 'not-sent':
      return `Cannot ${operation}: no Docker engine takes the connection (${text}); check that it runs, and the client's address`;
    case 'lost':
    case 'late':
      return `No usable answer of the Docker engine to "${operation}": ${text}; whether it acted is unknown, so look again first`;
  }
}
