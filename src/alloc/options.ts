import * as v from 'valibot';
import { invalidOption } from '../errors.js';
import { callSignal } from '../internal/check-call.js';
import {
  block,
  duration,
  flag,
  method,
  oneOf,
  parseOptions,
  record,
  requiredDuration,
  strictObject,
  text,
} from '../options.js';
import { NextAllocWatcher } from './next.js';
import { PrevAllocWatcher } from './previous.js';
import type { AllocEnv, AllocSpec } from './types.js';

const tries = {
  name: text,
  interval: v.optional(v.pipe(requiredDuration(), v.minValue(1, 'must be at least 1 ms')), 1_000),
  timeout: v.optional(v.pipe(requiredDuration(), v.minValue(1, 'must be at least 1 ms')), 1_000),
};

const check = v.variant(
  'type',
  [
    strictObject({
      ...tries,
      type: v.literal('http'),
      port: text,
      path: v.pipe(v.string('must be text'), v.startsWith('/', "must start with '/'")),
    }),
    strictObject({ ...tries, type: v.literal('tcp'), port: text }),
    strictObject({ ...tries, type: v.literal('custom') }),
  ],
  'must be one of http, tcp, custom',
);

const service = strictObject({
  service: text,
  task: text,
  port: text,
  registerWhen: oneOf(['started', 'healthy'], 'healthy'),
  meta: v.optional(record(v.string(), v.string('must be text'))),
});

const NAME = v.pipe(
  v.string('must be text'),
  v.regex(/^[A-Za-z0-9][A-Za-z0-9_.~-]*$/, 'must be letters, digits, and . _ ~ - after the first'),
  v.maxLength(128, 'must have 128 characters at most'),
);

const task = strictObject({
  name: NAME,
  driver: v.custom<object>((it) => typeof it === 'object' && it !== null, 'must be a TaskDriver'),
  spec: v.unknown(),
});

const allocSchema = strictObject({
  id: NAME,
  tasks: v.pipe(
    v.array(task, 'must be a list'),
    v.length(1, 'must have exactly one task: several tasks in one alloc are not supported yet'),
  ),
  services: v.optional(v.array(service), []),
  health: block({
    checks: v.optional(v.array(check), []),
    minHealthyTime: duration(10_000),
    healthyDeadline: duration(300_000, { never: true }),
  }),
  // Parsed by the sequencer that it is for.
  shutdown: v.optional(v.unknown()),
  prestart: block({ timeout: duration(Infinity, { never: true }) }),
});

const start = strictObject({
  signal: callSignal,
  after: v.optional(v.instance(PrevAllocWatcher, 'must be a PrevAllocWatcher')),
});

const stop = strictObject({
  reason: text,
  after: v.optional(v.instance(NextAllocWatcher, 'must be a NextAllocWatcher')),
  force: flag(false),
});

/** @throws HandoverError `ERR_INVALID_OPTION` */
export function parseStart(o: unknown): v.InferOutput<typeof start> {
  return parseOptions(start, o);
}

/** @throws HandoverError `ERR_INVALID_OPTION` */
export function parseStopRequest(o: unknown): v.InferOutput<typeof stop> {
  return parseOptions(stop, o);
}

/** An alloc's settings with their defaults filled in. */
export type AllocOptions = v.InferOutput<typeof allocSchema>;

/** A health check with its defaults filled in. */
export type CheckOptions = AllocOptions['health']['checks'][number];

/** A service with its defaults filled in. */
export type ServiceOptions = AllocOptions['services'][number];

/**
 * The one place where an alloc spec is checked and defaulted.
 *
 * @throws HandoverError `ERR_INVALID_OPTION`
 */
export function parseAlloc(spec: AllocSpec, env: AllocEnv): AllocOptions {
  parseOptions(v.optional(record(v.string(), method)), env.checks, 'env.checks');
  const options = parseOptions(allocSchema, spec);
  const names = new Set(options.tasks.map(({ name }) => name));
  options.services.forEach((one, i) => {
    if (!names.has(one.task)) throw invalidOption(`services.${i}.task`, `there is no task named ${one.task}`);
    const first = options.services.findIndex((it) => it.service === one.service && it.port === one.port);
    if (first !== i) throw invalidOption(`services.${i}`, `port ${one.port} is entered as ${one.service} twice`);
  });
  options.health.checks.forEach((one, i) => {
    if (options.health.checks.findIndex(({ name }) => name === one.name) !== i) {
      throw invalidOption(`health.checks.${i}.name`, `two checks are named ${one.name}`);
    }
    if (one.type === 'custom' && env.checks?.[one.name] === undefined) {
      throw invalidOption(`health.checks.${i}`, `env.checks has no function named ${one.name}`);
    }
  });
  const { minHealthyTime, healthyDeadline } = options.health;
  if (healthyDeadline < minHealthyTime) {
    throw invalidOption('health.healthyDeadline', 'must not be shorter than minHealthyTime: it could never be reached');
  }
  return options;
}
