/* The parts of the documentation that are made from the very tables that the code runs. */
import { readFileSync } from 'node:fs';
import { ALLOC_TABLE, isTerminal } from '../../src/alloc/states.js';
import type { AllocState } from '../../src/alloc/types.js';
import { ORDER_GATES } from '../../src/replace/plan.js';
import { optionTables } from './options.js';

const VERDICTS = {
  default: '**default**',
  ok: 'allowed',
  deadlock: 'refused: `ERR_GATE_DEADLOCK`, each would wait for the other',
  pointless: 'refused: `ERR_INVALID_OPTION`, the old one would be stopped before the new one is known to serve',
} as const;

function arrows(): { readonly from: AllocState; readonly event: string; readonly to: AllocState }[] {
  return (Object.keys(ALLOC_TABLE) as AllocState[]).flatMap((from) =>
    Object.entries(ALLOC_TABLE[from]).flatMap(([event, to]) => (to === from ? [] : [{ from, event, to }])),
  );
}

/** The lifecycle as a mermaid state diagram; arrows between the same two states are drawn once. */
export function lifecycleDiagram(): string {
  const between = new Map<string, string[]>();
  for (const { from, event, to } of arrows()) {
    const key = `${from} --> ${to}`;
    between.set(key, [...(between.get(key) ?? []), event]);
  }
  const lines = [...between].map(([arrow, events]) => `  ${arrow}: ${events.join(', ')}`);
  const ends = (Object.keys(ALLOC_TABLE) as AllocState[]).filter(isTerminal).map((state) => `  ${state} --> [*]`);
  return ['```mermaid', 'stateDiagram-v2', '  [*] --> pending', ...lines, ...ends, '```'].join('\n');
}

/** Which gate goes with which order. */
export function orderGateTable(): string {
  const gates = ['none', 'prepared', 'healthy'] as const;
  const rows = Object.entries(ORDER_GATES).map(
    ([order, verdicts]) => `| \`${order}\` | ${gates.map((gate) => VERDICTS[verdicts[gate]]).join(' | ')} |`,
  );
  return [
    `| order | gate ${gates.map((gate) => `\`${gate}\``).join(' | gate ')} |`,
    '| --- | --- | --- | --- |',
    ...rows,
  ].join('\n');
}

/** The script that docs/deploying.md explains, as it can be run. */
function deployScript(): string {
  const script = readFileSync(new URL('../../examples/deploy/deploy.ts', import.meta.url), 'utf8');
  return `\`\`\`ts\n${script}\`\`\``;
}

/** Marked places in the documentation → what stands there. */
export const GENERATED: Readonly<Record<string, () => string>> = {
  lifecycle: lifecycleDiagram,
  'order-gate': orderGateTable,
  options: optionTables,
  'deploy-script': deployScript,
};

/** The page with every marked place brought up to date. */
export function fill(page: string): string {
  return page.replace(
    /(<!-- generated: ([\w-]+) -->\n)[^]*?(\n<!-- end -->)/g,
    (whole, start: string, name: string, end: string) => {
      const make = GENERATED[name];
      return make === undefined ? whole : `${start}\n${make()}\n${end}`;
    },
  );
}
