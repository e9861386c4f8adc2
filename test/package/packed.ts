import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A command's output; rejects with both streams when it fails. */
export async function command(cwd: string, file: string, ...args: string[]): Promise<string> {
  try {
    return (await run(file, args, { cwd, maxBuffer: 16 * 1024 * 1024 })).stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${file} ${args.join(' ')} failed:\n${stdout}\n${stderr}`, { cause: error });
  }
}

/** An empty project with nothing but the packed library in it. */
export interface EmptyProject {
  readonly directory: string;
  /** What is in the tarball. */
  readonly files: readonly string[];
  readonly manifest: Readonly<Record<string, unknown>>;
  write(name: string, text: string): Promise<void>;
  node(...args: string[]): Promise<string>;
  remove(): Promise<void>;
}

/** Packs the library as a release would, and installs it as a stranger would. */
export async function installPacked(): Promise<EmptyProject> {
  const directory = await mkdtemp(join(tmpdir(), 'handover-package-'));
  const [packed] = JSON.parse(
    lastJson(await command(ROOT, 'npm', 'pack', '--json', '--pack-destination', directory)),
  ) as { filename: string; files: { path: string }[] }[];
  if (packed === undefined) throw new Error('npm pack made nothing');
  await writeFile(join(directory, 'package.json'), JSON.stringify({ name: 'stranger', private: true }));
  await command(
    directory,
    'npm',
    'install',
    '--no-audit',
    '--no-fund',
    '--prefer-offline',
    join(directory, packed.filename),
  );
  const manifest = await readFile(join(directory, 'node_modules/handover/package.json'), 'utf8');
  return {
    directory,
    files: packed.files.map(({ path }) => path),
    manifest: JSON.parse(manifest) as Record<string, unknown>,
    write: (name, text) => writeFile(join(directory, name), text),
    node: (...args) => command(directory, process.execPath, ...args),
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}

/** The JSON at the end of an output that build steps have written to as well. */
function lastJson(output: string): string {
  return output.slice(output.lastIndexOf('\n[') + 1);
}

/** The TypeScript blocks of a page of the documentation. */
export async function codeBlocks(page: string): Promise<readonly string[]> {
  const text = await readFile(join(ROOT, page), 'utf8');
  return [...text.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code]) => code as string);
}

/** A source of `test/types`. */
export function typeSource(name: string): Promise<string> {
  return readFile(join(ROOT, 'test/types', name), 'utf8');
}

/** Type-checks sources in the project, by file name, against the library's own declarations and nothing else. */
export async function typeCheck(project: EmptyProject, sources: Readonly<Record<string, string>>): Promise<void> {
  const files = Object.keys(sources);
  for (const [name, text] of Object.entries(sources)) await project.write(name, text);
  const compilerOptions = {
    target: 'ES2022',
    lib: ['ES2022', 'ESNext.Disposable'],
    module: 'NodeNext',
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    // The library's declarations are checked too, without the client's types being there.
    skipLibCheck: false,
    noEmit: true,
    types: ['node'],
    typeRoots: [join(ROOT, 'node_modules/@types')],
  };
  await project.write('tsconfig.json', JSON.stringify({ compilerOptions, files }));
  await command(project.directory, process.execPath, join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', '.');
}
