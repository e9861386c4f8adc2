import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EmptyProject, codeBlocks, installPacked, typeCheck, typeSource } from './packed.js';

const ENTRIES = ['handover', 'handover/docker', 'handover/process', 'handover/lmdb', 'handover/testing'];

/** Prints every module that the entry loads. */
const TRACER = `
import { register } from 'node:module';
register('data:text/javascript,' + encodeURIComponent(\`
  import { writeSync } from 'node:fs';
  export async function resolve(specifier, context, next) {
    const found = await next(specifier, context);
    writeSync(1, found.url + '\\\\n');
    return found;
  }\`));
`;

describe('the packed library in an empty project', () => {
  let project: EmptyProject;
  beforeAll(async () => {
    project = await installPacked();
  });
  afterAll(() => project.remove());

  it.each(ENTRIES)('%s can be imported from an ES module', async (entry) => {
    await project.write('try.mjs', `import * as it from '${entry}'; console.log(Object.keys(it).length);`);
    expect(Number(await project.node('try.mjs'))).toBeGreaterThan(0);
  });

  it.each(ENTRIES)('%s can be required from a CommonJS module, as the same classes', async (entry) => {
    await project.write(
      'try.cjs',
      `const required = require('${entry}');
       import('${entry}').then((imported) => {
         for (const [name, value] of Object.entries(imported)) {
           if (required[name] !== value) throw new Error(name + ' exists twice');
         }
         console.log('same');
       });`,
    );
    expect((await project.node('try.cjs')).trim()).toBe('same');
  });

  it.each(['handover', 'handover/process', 'handover/lmdb'])(
    '%s loads no engine client and no store',
    async (entry) => {
      await project.write('tracer.mjs', TRACER);
      await project.write('try.mjs', `import '${entry}';`);
      const loaded = await project.node('--import', './tracer.mjs', 'try.mjs');
      expect(loaded).toContain('/node_modules/handover/dist/');
      expect(loaded).not.toMatch(/dockerode|docker-modem|ssh2|node_modules\/lmdb|vitest|dist\/docker/);
    },
  );

  it('G-6 a class is the same from every entry', async () => {
    await project.write(
      'try.mjs',
      `import { HandoverError, isHandoverError } from 'handover';
       import { httpFiles } from 'handover/process';
       try { httpFiles({ directory: 1 }); } catch (error) { console.log(error instanceof HandoverError, isHandoverError(error)); }`,
    );
    expect((await project.node('try.mjs')).trim()).toBe('true true');
  });

  it('ST-1 without its package the durable store says what to install', async () => {
    await project.write(
      'try.mjs',
      `import { lmdbStore } from 'handover/lmdb';
       await lmdbStore({ path: 'state.db' }).catch(({ code, message }) => console.log(code, message));`,
    );
    const told = await project.node('try.mjs');
    expect(told).toMatch(/^ERR_DRIVER .*npm install lmdb@3$/m);
    expect(existsSync(join(project.directory, 'state.db'))).toBe(false);
  });

  it('its types hold without skipLibCheck and without the types of the engine client', async () => {
    expect(existsSync(join(project.directory, 'node_modules/@types/dockerode'))).toBe(false);
    const names = ['claims.ts', 'image-driver.ts', 'microvm-driver.ts'];
    const sources = await Promise.all(names.map(typeSource));
    await typeCheck(project, Object.fromEntries(names.map((name, i) => [name, sources[i]!])));
  });

  it.each(['README.md', 'docs/getting-started.md', 'docs/deploying.md', 'docs/images.md'])(
    'the code in %s compiles',
    async (page) => {
      const blocks = await codeBlocks(page);
      expect(blocks.length).toBeGreaterThan(0);
      const sources = Object.fromEntries(blocks.map((code, i) => [`block-${i}.mts`, code]));
      // The client is not installed here: its types are none of ours.
      await typeCheck(project, { ...sources, 'client.d.ts': "declare module 'dockerode';\n" });
    },
  );

  it('its types show nothing that is internal', async () => {
    const types = project.files.filter((path) => path.endsWith('.d.ts'));
    for (const path of types) {
      expect(await readFile(join(project.directory, 'node_modules/handover', path), 'utf8')).not.toContain('@internal');
    }
  });

  it('holds the build and its papers, and nothing else', () => {
    const papers =
      /^(dist\/.*\.(js|d\.ts|map)|docs\/[\w-]+\.md|examples\/deploy\/deploy\.ts|README\.md|LICENSE|package\.json)$/;
    expect(project.files.filter((path) => !papers.test(path))).toEqual([]);
    expect(project.files).toContain('dist/index.d.ts');
  });

  it('has what its pages link to', async () => {
    const pages = project.files.filter((path) => path.endsWith('.md'));
    const links = await Promise.all(
      pages.map(async (page) => {
        const text = await readFile(join(project.directory, 'node_modules/handover', page), 'utf8');
        const targets = [...text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, target]) => target!);
        return targets.map((target) => join(dirname(page), target));
      }),
    );
    expect(links.flat().filter((target) => !project.files.includes(target))).toEqual([]);
    expect(links.flat()).toContain('docs/limits.md');
  });

  it('asks for nothing but what it uses', () => {
    expect(Object.keys(project.manifest['dependencies'] as object).sort()).toEqual([
      'eventemitter3',
      'p-queue',
      'tar',
      'valibot',
    ]);
  });
});
