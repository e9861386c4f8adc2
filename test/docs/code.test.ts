import { readFile, readdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { beforeAll, describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PAGES = [
  'README.md',
  ...(await readdir(`${ROOT}docs`)).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
];

/** Each TypeScript block of the pages as a module of its own, by a file name that does not exist. */
async function blocks(): Promise<ReadonlyMap<string, string>> {
  const pages = await Promise.all(
    PAGES.map(async (page) => {
      const text = await readFile(`${ROOT}${page}`, 'utf8');
      const found = [...text.matchAll(/^```ts\n([^]*?)^```$/gm)];
      return found.map(([, code], i) => [`${ROOT}${page}.block-${i + 1}.mts`, code!] as const);
    }),
  );
  return new Map(pages.flat());
}

/** What the compiler says of files that are only in memory, as `page.block-1.mts(3): …`. */
function problems(sources: ReadonlyMap<string, string>): string[] {
  const { config } = ts.readConfigFile(`${ROOT}tsconfig.json`, (path) => ts.sys.readFile(path)) as { config: unknown };
  const parsed = ts.parseJsonConfigFileContent(config, ts.sys, ROOT).options;
  // A reader's example may declare what it does not use.
  const options = { ...parsed, noUnusedLocals: false, noUnusedParameters: false };
  const host = ts.createCompilerHost(options);
  const real = { readFile: host.readFile.bind(host), fileExists: host.fileExists.bind(host) };
  host.readFile = (path) => sources.get(path) ?? real.readFile(path);
  host.fileExists = (path) => sources.has(path) || real.fileExists(path);
  const getSourceFile = host.getSourceFile.bind(host);
  host.getSourceFile = (path, version, ...rest) => {
    const text = sources.get(path);
    return text === undefined ? getSourceFile(path, version, ...rest) : ts.createSourceFile(path, text, version);
  };
  const program = ts.createProgram([...sources.keys()], options, host);
  return [...sources.keys()].flatMap((path) => {
    const file = program.getSourceFile(path);
    const found = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
    return found.map(({ start = 0, messageText }) => {
      const line = (file?.getLineAndCharacterOfPosition(start).line ?? 0) + 1;
      return `${path.slice(ROOT.length)}(${line}): ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
    });
  });
}

describe('the code in README and docs', () => {
  let found: readonly string[];
  let sources: ReadonlyMap<string, string>;
  beforeAll(async () => {
    sources = await blocks();
    const wrong = `import { replace } from 'handover';\nvoid replace({});\n`;
    found = problems(new Map([...sources, [`${ROOT}wrong.mts`, wrong]]));
  }, 120_000);

  it('compiles against the library as it is', () => {
    expect(sources.size).toBeGreaterThan(5);
    expect(found.filter((problem) => !problem.startsWith('wrong.mts'))).toEqual([]);
  });

  it('is really looked at: what is wrong is found', () => {
    expect(found.filter((problem) => problem.startsWith('wrong.mts(2)'))).toHaveLength(1);
  });
});
