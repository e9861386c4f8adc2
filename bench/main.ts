/* `npm run bench -- [--quick] [B1 …]`: prints one table, and writes the raw figures as JSON. */
import { mkdir, writeFile } from 'node:fs/promises';
import { arch, cpus, platform } from 'node:os';
import { parseArgs } from 'node:util';
import { b1 } from './b1/b1.js';
import { b3 } from './b3/b3.js';
import { b4 } from './b4/b4.js';
import { b5 } from './b5/b5.js';
import { b7 } from './b7/b7.js';
import { b8 } from './b8.js';
import type { Bench, BenchResult } from './bench.js';

const BENCHES: readonly Bench[] = [b1, b3, b4, b5, b7, b8];
const OUTPUT = '.cache/bench.json';

const { values, positionals } = parseArgs({
  options: { quick: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const unknown = positionals.filter((id) => !BENCHES.some((bench) => bench.id === id));
if (unknown.length > 0) {
  console.error(`No benchmark is named ${unknown.join(', ')}; there are ${BENCHES.map(({ id }) => id).join(', ')}`);
  process.exit(2);
}

const chosen = BENCHES.filter(({ id }) => positionals.length === 0 || positionals.includes(id));
const results: Record<string, BenchResult> = {};
for (const bench of chosen) {
  console.error(`${bench.id} ${bench.title}`);
  results[bench.id] = await bench.run({ quick: values.quick, log: (line) => console.error(`  ${line}`) });
}

const machine = `Node ${process.version}, ${cpus().length} cores, ${platform()} ${arch()}`;
console.log(
  `\n${machine}, ${new Date().toISOString().slice(0, 10)}${values.quick ? ', quick: the figures mean nothing' : ''}\n`,
);
for (const { id, title } of chosen) {
  console.log(`${id}  ${title}`);
  const result = results[id];
  if (result === undefined || 'skipped' in result) {
    console.log(`    skipped: ${result?.skipped ?? ''}`);
    continue;
  }
  for (const { what, value, ratio, target } of result.rows) {
    const times = ratio === undefined ? '' : `  × ${ratio.toFixed(2)}`;
    const verdict = target === undefined ? '' : `  ${target.met ? 'met' : 'MISSED'}: ${target.text}`;
    console.log(`    ${what.padEnd(66)} ${value}${times}${verdict}`);
  }
}
await mkdir('.cache', { recursive: true });
await writeFile(OUTPUT, `${JSON.stringify({ machine, quick: values.quick, results }, null, 2)}\n`);
