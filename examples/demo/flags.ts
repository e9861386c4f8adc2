import { parseArgs } from 'node:util';
import { UsageError } from './usage-error.js';
import { HEALTHY_DEADLINE } from './world.js';

/** What the demo was asked to do. */
export type Flags = { readonly json: boolean } & (
  | { readonly kind: 'process' }
  | {
      readonly kind: 'docker';
      readonly from: string;
      readonly to: string;
      /** The fixed host port; absent: a free one. */
      readonly port: number | undefined;
      readonly containerPort: number;
      readonly path: string;
    }
);

export const HELP = `Updates version 1 of a server to version 2 twice, on one fixed port and behind a slow download:
in the kill-first order, and with handover. Shows both outages side by side.

  npm run demo                                    two OS processes, nothing else is needed
  npm run demo -- --docker --from REF --to REF    two containers of your images

  --json                 one JSON object on standard output, and nothing else; npm run -s demo -- --json, since npm
                         prints a banner of its own without -s
  --port N               with --docker: the fixed host port (default: a free one)
  --container-port N     with --docker: where the server listens in the container (default: 8080)
  --path PATH            with --docker: what the client asks for, answered with 2xx or 3xx (default: /)
  --help

The image given by --to must not be on this machine yet, since it is pulled, and removed again, for each of the two runs.
A version that does not answer within ${HEALTHY_DEADLINE} of its start counts as failed.

A --to that cannot be pulled, or never answers, is worth a look too: kill-first has nothing to go back to.

With --json: { killFirst, handover, order }, and for each of the two outageMs, failed (requests), outcome, and cause
unless it is 'replaced'. outageMs is null when nobody served at the end: the outage was not over.

Exit codes: 0  handover replaced version 1        3  handover kept version 1, which serves on
            1  the demo could not be run          4  nobody serves after handover either
            2  a wrong flag                     130  interrupted`;

const OPTIONS = {
  docker: { type: 'boolean', default: false },
  from: { type: 'string' },
  to: { type: 'string' },
  port: { type: 'string' },
  'container-port': { type: 'string' },
  path: { type: 'string' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

/**
 * @returns `help`, or what to do
 * @throws UsageError that names the flag and says what to do
 */
export function parseFlags(argv: readonly string[]): Flags | 'help' {
  const { values } = parse(argv);
  if (values.help) return 'help';
  const { docker, json, from, to } = values;
  if (!docker) {
    const stray = (['from', 'to', 'port', 'container-port', 'path'] as const).find((name) => name in values);
    if (stray !== undefined) throw new UsageError(`--${stray} goes with --docker`);
    return { kind: 'process', json };
  }
  if (!from || !to) throw new UsageError('--docker needs --from REF and --to REF');
  const { port, 'container-port': containerPort = '8080', path = '/' } = values;
  return {
    kind: 'docker',
    ...{ json, from, to },
    port: port === undefined ? undefined : portOf('port', port),
    containerPort: portOf('container-port', containerPort),
    path: pathOf(path),
  };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: false });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message.replaceAll('\n', ' ') : String(error));
  }
}

function portOf(name: string, text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port > 0 && port < 65_536) return port;
  throw new UsageError(`--${name} must be a port from 1 to 65535, not '${text}'`);
}

/** What a client can ask for as it is: anything else would have to be encoded first. */
function pathOf(text: string): string {
  if (/^\/[\x21-\x7e]*$/.test(text)) return text;
  throw new UsageError(`--path must start with '/' and be percent-encoded, not '${text}'`);
}
