/* Brings the generated parts of the documentation up to date: `npm run docs`. */
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { fill } from './tables.js';

const folder = new URL('..', import.meta.url);
for (const name of await readdir(folder)) {
  if (!name.endsWith('.md')) continue;
  const page = new URL(name, folder);
  const before = await readFile(page, 'utf8');
  const after = fill(before);
  if (after !== before) await writeFile(page, after);
}
