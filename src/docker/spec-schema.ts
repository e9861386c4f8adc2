import * as v from 'valibot';
import { signalNumber } from '../internal/signal-names.js';
import { path, port, record, requiredDuration, strictObject, text, wholeRange } from '../options.js';
import { createOptions, isAddress, ownLabel } from './create-options.js';
import { portKey } from './published.js';
import { bytesOf } from './spec-fields.js';

/** A program is given text up to the first NUL only, or it is not started at all. */
const cString = v.pipe(v.string('must be text'), v.regex(/^[^\0]*$/, 'must not contain NUL'));
const variable = v.pipe(text, v.regex(/^[^=\0]+$/, 'must contain neither "=" nor NUL'));
const absolute = v.pipe(path, v.regex(/^\//, 'must be an absolute path'));
const address = v.pipe(v.string('must be text'), v.check(isAddress, 'must be an IP address'));
const hostAddress = v.pipe(
  v.string('must be text'),
  v.check((to) => to === 'host-gateway' || isAddress(to), 'must be an IP address, or host-gateway'),
);
const size = v.custom<number | string>(
  (value) => (typeof value === 'number' || typeof value === 'string') && bytesOf(value) !== undefined,
  'must be a whole number of bytes from 1, or text such as 512m, with one of the units b, k, m, g',
);
const span = v.pipe(requiredDuration(), v.minValue(1, 'must be 1 ms or more'));
const atLeast = (least: number) => wholeRange(least, Number.MAX_SAFE_INTEGER, `must be a whole number from ${least}`);
const yes = v.optional(v.boolean('must be true or false'));

/** The one for objects, or the other for anything else, so that what is wrong is told of the field that it is in. */
function either<W extends v.GenericSchema, O extends v.GenericSchema>(word: W, object: O) {
  return v.lazy((input): W | O => (typeof input === 'object' ? object : word));
}

/** The engine's own grammar of container names. */
const name = v.pipe(
  v.string('must be text'),
  v.regex(
    /^[a-zA-Z0-9][a-zA-Z0-9_.-]+$/,
    'must be two or more letters, digits, "_", "." or "-", and begin with a letter or digit',
  ),
);

const command = v.pipe(
  v.array(cString),
  v.check(([program = '']) => program !== '', 'must begin with a program; leave it out for the command of the image'),
);

const entrypoint = v.pipe(
  v.array(cString),
  v.check(([program]) => program !== '', 'must begin with a program; leave it empty for none'),
);

const ports = v.pipe(
  record(
    text,
    strictObject({
      container: port,
      host: v.optional(port),
      address: v.optional(address),
      protocol: v.optional(v.picklist(['tcp', 'udp', 'sctp'], 'must be one of tcp, udp, sctp')),
    }),
  ),
  v.check((all) => {
    const inside = Object.values(all).map(portKey);
    return new Set(inside).size === inside.length;
  }, 'names one container port twice; give it one name'),
);

const mount = strictObject({
  type: v.picklist(['bind', 'volume'], 'must be bind or volume'),
  source: path,
  target: absolute,
  readOnly: yes,
  exclusive: yes,
});
const mounts = v.array(
  v.pipe(
    mount,
    v.check(
      ({ type, source }) => (type === 'bind') === source.startsWith('/'),
      'must have an absolute path as its source when it is a bind, and a name when it is a volume',
    ),
  ),
  'must be an array of { type, source, target }',
);

const device = strictObject({
  host: absolute,
  container: v.optional(absolute),
  permissions: v.optional(v.pipe(text, v.regex(/^(?!.*(.).*\1)[rwm]{1,3}$/, 'must be letters of rwm, each once'))),
  exclusive: yes,
});

const whole = v.pipe(v.number('must be a number'), v.safeInteger('must be a whole number'), v.minValue(-1));
/** -1 is no limit. */
const limits = v.pipe(
  strictObject({ soft: whole, hard: whole }),
  v.check(({ soft, hard }) => hard === -1 || (soft >= 0 && soft <= hard), 'must have a soft limit up to the hard one'),
);
const ulimit = either(whole, limits);
/** Those of Linux; another is only found by a start. */
const ULIMITS = [
  ...['core', 'cpu', 'data', 'fsize', 'locks', 'memlock', 'msgqueue', 'nice', 'nofile', 'nproc', 'rss', 'rtprio'],
  ...['rttime', 'sigpending', 'stack'],
] as const;

const resources = strictObject({
  memory: v.optional(size),
  memorySwap: v.optional(size),
  cpus: v.optional(v.pipe(v.number('must be a number'), v.finite(), v.minValue(0.001, 'must be 0.001 or more'))),
  pids: v.optional(atLeast(1)),
  ulimits: v.optional(record(v.picklist(ULIMITS, `must be one of ${ULIMITS.join(', ')}`), ulimit)),
});

const MODES = /^(host|none|default|container:.*)$/;
const network = strictObject({ aliases: v.optional(v.array(text)), address: v.optional(address) });
const names = v.pipe(
  record(
    v.pipe(
      text,
      v.check((key) => !MODES.test(key), 'is no network that can be given by name here'),
    ),
    network,
  ),
  v.check((all) => Object.keys(all).length > 0, 'must name a network; leave it out for the default'),
  // The engine would say so at the start.
  v.check(
    ({ bridge: { address, aliases = [] } = {} }) => address === undefined && aliases.length === 0,
    'cannot give an address or aliases in the default network; make a network of your own',
  ),
);

const healthcheck = strictObject({
  test: v.lazy((input) => (Array.isArray(input) ? command : text)),
  interval: v.optional(span),
  timeout: v.optional(span),
  startPeriod: v.optional(span),
  retries: v.optional(atLeast(1)),
});

/** A {@link DockerSpec} field by field; what fields mean together is for `parseSpec()`. */
export const specSchema = strictObject({
  image: text,
  name: v.optional(name),
  entrypoint: v.optional(entrypoint),
  command: v.optional(command),
  env: v.optional(record(variable, cString)),
  labels: v.optional(record(ownLabel, v.string('must be text'))),
  user: v.optional(text),
  workingDir: v.optional(absolute),
  hostname: v.optional(text),
  init: yes,
  stopSignal: v.optional(
    v.pipe(
      text,
      v.check((signal) => signalNumber(signal) !== undefined, 'must be a signal of Linux, by name or number'),
    ),
  ),
  readOnly: yes,
  tmpfs: v.optional(record(absolute, v.string('must be text'))),
  mounts: v.optional(mounts),
  devices: v.optional(v.array(device)),
  capabilities: v.optional(strictObject({ add: v.optional(v.array(text)), drop: v.optional(v.array(text)) })),
  resources: v.optional(resources),
  pull: v.optional(
    v.picklist(['if-absent', 'always', 'never', 'if-stale'], 'must be one of if-absent, always, never, if-stale'),
  ),
  ports: v.optional(ports),
  networks: v.optional(either(v.picklist(['host', 'none'], 'must be host, none, or networks by name'), names)),
  extraHosts: v.optional(record(text, hostAddress)),
  healthcheck: v.optional(either(v.literal('none', 'must be none, or { test }'), healthcheck)),
  log: v.optional(strictObject({ driver: text, options: v.optional(record(text, v.string('must be text'))) })),
  create: v.optional(createOptions),
});
