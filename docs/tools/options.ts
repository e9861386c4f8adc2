/* The tables of docs/options.md. */
import { Declarations, type OptionRow } from './option-rows.js';

const ENTRIES = ['index.ts', 'docker/index.ts', 'process/index.ts', 'lmdb/index.ts'];

/** Where options are given → the types, or the parameters, that say what they are; by their place in the whole. */
const SECTIONS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'new ImageCoordinator({ source, … })': {
    '': 'ImageCoordinator()',
    'removal.': 'RemovalOptions',
    'retention.': 'RetentionOptions',
    'pull.': 'PullOptions',
  },
  'images.acquire(reference, { … })': { '': 'AcquireOptions' },
  'images.prefetch(reference, { … })': { '': 'PrefetchOptions' },
  'new AllocLifecycle({ id, tasks, … })': {
    '': 'AllocSpec',
    'tasks[].': 'AllocTask',
    'services[].': 'ServiceDefinition',
    'health.': 'HealthOptions',
    'health.checks[].': 'Check',
  },
  'shutdown of an alloc, new ShutdownSequencer({ … })': { '': 'ShutdownOptions' },
  'replace(current, next, { … })': { '': 'ReplaceOptions' },
  'new PrevAllocWatcher(previous, { … })': { '': 'PrevAllocWatcher()' },
  'new NextAllocWatcher(next, { … })': { '': 'NextAllocWatcher()' },
  'env, the last argument of every constructor': { '': 'AllocEnv', 'hooks.': 'ShutdownHooks' },
  'new DockerDriver({ … })': { '': 'DockerDriverOptions' },
  'spec of a task of DockerDriver': {
    '': 'DockerSpec',
    'ports.*.': 'DockerPort',
    'mounts[].': 'DockerMount',
    'devices[].': 'DockerDevice',
    'resources.': 'DockerResources',
    'networks.*.': 'DockerNetwork',
    'healthcheck.': 'DockerHealthcheck',
  },
  'dockerAuth({ … })': { '': 'DockerAuthOptions' },
  'new ProcessDriver({ … })': { '': 'ProcessDriverOptions' },
  'spec of a task of ProcessDriver': { '': 'ProcessSpec' },
  'httpFiles({ … })': { '': 'HttpFilesOptions' },
  'lmdbStore({ … })': { '': 'lmdbStore()' },
};

/** All options, by section; the names are paths in what is given there. */
export function optionSections(): ReadonlyMap<string, readonly OptionRow[]> {
  const declarations = new Declarations(ENTRIES);
  const rowsOf = (name: string): readonly OptionRow[] =>
    name.endsWith('()') ? declarations.ofParameters(name.slice(0, -2)) : declarations.ofType(name);
  return new Map(
    Object.entries(SECTIONS).map(([title, sources]) => [
      title,
      Object.entries(sources).flatMap(([prefix, name]) =>
        rowsOf(name).map((row) => ({ ...row, name: `${prefix}${row.name}` })),
      ),
    ]),
  );
}

/** The same as tables. */
export function optionTables(): string {
  return [...optionSections()]
    .map(([title, rows]) =>
      [
        `## \`${title}\``,
        '',
        '| option | type | meaning, unit, default |',
        '| --- | --- | --- |',
        ...rows.map(line),
      ].join('\n'),
    )
    .join('\n\n');
}

function line({ name, type, text }: OptionRow): string {
  return `| \`${name}\` | ${type === '' ? '' : `\`${cell(type)}\``} | ${cell(text)} |`;
}

/** In one line, and without what would end the cell; links of docstrings become plain code. */
function cell(text: string): string {
  return text
    .replace(/\s+/g, ' ')
    .replace(/\{@link ([^}]+)\}/g, '`$1`')
    .replaceAll('|', '\\|');
}
