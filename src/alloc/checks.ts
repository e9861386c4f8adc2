import { get } from 'node:http';
import { connect } from 'node:net';
import type { Call } from '../call.js';
import { HandoverError } from '../errors.js';
import { deferred } from '../internal/deferred.js';
import { onAbort } from '../internal/signals.js';
import type { CheckOptions } from './options.js';
import type { AllocEnv, AllocStatus } from './types.js';

/** Where a named port of the task answers. */
export type Endpoint = { readonly address: string; readonly port: number };

/** What a check is tried on. */
export interface CheckSubject {
  endpoint(port: string): Endpoint | undefined;
  status(): AllocStatus;
}

/** Resolves when the check passes; rejects with the reason when it does not. */
type Probe<C extends CheckOptions> = (check: C, subject: CheckSubject, call: Required<Call>) => Promise<void>;

type Probes = { readonly [T in CheckOptions['type']]: Probe<Extract<CheckOptions, { type: T }>> };

/** One way to try each type of check; a missing one does not compile. */
export function probes(env: AllocEnv): Probes {
  return {
    http: async (check, subject, call) => httpGet(endpointOf(check, subject), check.path, call),
    tcp: async (check, subject, call) => tcpConnect(endpointOf(check, subject), call),
    custom: async (check, subject, call) => {
      const passes = await env.checks?.[check.name]?.(subject.status(), call);
      if (passes !== true) throw new Error('it said no');
    },
  };
}

function endpointOf(check: { readonly name: string; readonly port: string }, subject: CheckSubject): Endpoint {
  const endpoint = subject.endpoint(check.port);
  if (endpoint !== undefined) return endpoint;
  throw new HandoverError(
    'ERR_INVALID_OPTION',
    `Check ${check.name} asks for port ${check.port}, which the task does not have: name one of its ports`,
    { details: { path: `health.checks.${check.name}.port` } },
  );
}

async function httpGet({ address, port }: Endpoint, path: string, call: Required<Call>): Promise<void> {
  const done = deferred<number | undefined>();
  const request = get({ host: address, port, path, agent: false }, (response) => {
    response.resume();
    done.resolve(response.statusCode);
  });
  request.on('error', done.reject);
  const dispose = onAbort(call.signal, (reason) => request.destroy(reason as Error));
  try {
    const status = await done.promise;
    if (status === undefined || status < 200 || status > 399) throw new Error(`it answered ${status ?? 'nothing'}`);
  } finally {
    dispose();
    request.destroy();
  }
}

async function tcpConnect({ address, port }: Endpoint, call: Required<Call>): Promise<void> {
  const done = deferred();
  const socket = connect({ host: address, port }, () => done.resolve());
  socket.on('error', done.reject);
  const dispose = onAbort(call.signal, (reason) => socket.destroy(reason as Error));
  try {
    await done.promise;
  } finally {
    dispose();
    socket.destroy();
  }
}
