import { readFile, readdir } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { fill } from '../../docs/tools/tables.js';

const ROOT = new URL('../../', import.meta.url);
const PAGES = [
  'README.md',
  ...(await readdir(new URL('docs/', ROOT))).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
];

describe.each(PAGES)('%s', (name) => {
  it('AL-1, AL-6 its generated parts are those of the tables (npm run docs)', { timeout: 60_000 }, async () => {
    const page = await readFile(new URL(name, ROOT), 'utf8');
    expect(fill(page)).toBe(page);
  });

  it('links to pages that exist', async () => {
    const page = await readFile(new URL(name, ROOT), 'utf8');
    for (const [, target] of page.matchAll(/\]\((?!https?:|#)([^)#]+)/g)) {
      await expect(readFile(new URL(target!, new URL(name, ROOT)), 'utf8')).resolves.not.toBe('');
    }
  });
});
