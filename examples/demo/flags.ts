import { parseArgs } from 'node:util';

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

  --json                 one JSON object on standard output, and nothing else
  --port N               with --docker: the fixed host port (default: a free one)
  --container-port N     with --docker: where the server listens in the container (default: 8080)
  --path PATH            with --docker: what the client asks for, answered with 2xx or 3xx (default: /)
  --help

The image given by --to must not be on this machine yet, since it is pulled, and removed again, for each of the two runs.`;

const OPTIONS = {
  docker: { type: 'boolean', default: false },
  from: { type: 'string' },
  to: { type: 'string' },
  port: { type: 'string' },
  'container-port': { type: 'string', default: '8080' },
  path: { type: 'string', default: '/' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

/** Something is wrong with what was typed; the message is for a person. */
export class UsageError extends Error {}

/**
 * @returns `help`, or what to do
 * @throws UsageError that names the flag and says what to do
 */
export function parseFlags(argv: readonly string[]): Flags | 'help' {
  const { values } = parse(argv);
  if (values.help) return 'help';
  const { docker, from, to, json, path } = values;
  if (!docker) {
    const stray = (['from', 'to', 'port'] as const).find((name) => values[name] !== undefined);
    if (stray !== undefined) throw new UsageError(`--${stray} goes with --docker`);
    return { kind: 'process', json };
  }
  if (from === undefined || to === undefined) throw new UsageError('--docker needs --from REF and --to REF');
  if (from === to) throw new UsageError('--from and --to must be two images');
  if (!path.startsWith('/')) throw new UsageError(`--path must start with '/', not '${path}'`);
  const port = values.port === undefined ? undefined : portOf('port', values.port);
  return {
    kind: 'docker',
    from,
    to,
    port,
    containerPort: portOf('container-port', values['container-port']),
    path,
    json,
  };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: false });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function portOf(name: string, text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port > 0 && port < 65_536) return port;
  throw new UsageError(`--${name} must be a port from 1 to 65535, not '${text}'`);
}
