import { createTypeScriptImportResolver } from 'eslint-import-resolver-typescript';
import importX from 'eslint-plugin-import-x';
import tseslint from 'typescript-eslint';

/**
 * The layers of `src`, from the ground up. A folder may import values only from the layers below it;
 * types may cross, because they leave nothing at run time. Adapters never reach into a primitive's insides:
 * they take what the core entry exports and the ground floor.
 */
const GROUND = ['call', 'clock', 'duration', 'errors', 'events', 'options', 'env'];
const PRIMITIVES = ['store', 'image', 'driver', 'shutdown', 'alloc'];
const ADAPTERS = ['docker', 'process', 'lmdb'];
const ALL = [...PRIMITIVES, 'replace', ...ADAPTERS, 'testing'];

const mayUse = {
  internal: [],
  store: [],
  image: [],
  driver: [],
  shutdown: [],
  alloc: ['driver', 'shutdown'],
  replace: ['alloc', 'driver', 'shutdown'],
  docker: ['driver'],
  process: ['driver'],
  lmdb: ['store'],
  testing: ['store', 'image', 'driver', 'shutdown', 'alloc', 'replace', 'docker', 'process'],
};

/** @param clients - packages of engines and stores that may not be imported, not even for their types */
const forbid = (folders, clients = ['dockerode', 'lmdb']) => ({
  '@typescript-eslint/no-restricted-imports': [
    'error',
    {
      patterns: [
        {
          regex: `^(\\.\\./)+(${folders.join('|')})/`,
          allowTypeImports: true,
          message: 'This layer may not import that one (docs/architecture.md); types may cross.',
        },
        { regex: `^(${clients.join('|')})`, message: 'The client is the embedder’s: adapters take it as an argument.' },
      ],
    },
  ],
});

const layers = Object.entries(mayUse).map(([folder, allowed]) => ({
  files: [`src/${folder}/**/*.ts`],
  rules: forbid(
    ALL.filter((other) => other !== folder && !allowed.includes(other)),
    // It loads its client itself, when it is used: a missing one is then a clear error.
    folder === 'lmdb' ? ['dockerode'] : undefined,
  ),
}));

const TIMERS = ['setTimeout', 'setInterval', 'setImmediate', 'clearTimeout', 'clearInterval', 'performance'];

export default tseslint.config(
  { ignores: ['dist/', 'coverage/', '.cache/', 'node_modules/', 'test/types/', 'test/package/fixtures/'] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: { allowDefaultProject: ['*.js'] } } },
    plugins: { 'import-x': importX },
    settings: { 'import-x/resolver-next': [createTypeScriptImportResolver()] },
    rules: {
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: false, requireDefaultForNonUnion: true },
      ],
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      // Ports are async by contract; an in-process implementation may have nothing to await.
      '@typescript-eslint/require-await': 'off',
      'import-x/no-cycle': ['error', { ignoreExternal: true }],
      'import-x/no-default-export': 'error',
      eqeqeq: 'error',
      'no-console': 'error',
    },
  },
  {
    files: ['src/**/*.ts'],
    rules: {
      'max-lines': ['error', { max: 300, skipBlankLines: true, skipComments: true }],
      'max-lines-per-function': ['error', { max: 60, skipBlankLines: true, skipComments: true }],
      'no-restricted-globals': [
        'error',
        ...TIMERS.map((name) => ({ name, message: 'All time goes through the injected Clock (G-5).' })),
      ],
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now', message: 'Use Clock.wall() (G-5).' },
        { object: 'Math', property: 'random', message: 'Use Clock.random() (G-5).' },
        {
          object: 'AbortSignal',
          property: 'any',
          message: 'It leaks on a long-lived signal (G-4): use internal/signals.',
        },
        { object: 'AbortSignal', property: 'timeout', message: 'All time goes through the injected Clock (G-5).' },
        { object: 'console', property: 'log', message: 'The library prints nothing of its own.' },
        ...['strictObject', 'looseObject'].map((property) => ({
          object: 'v',
          property,
          message: 'It takes [] for an object: use the one of src/options.ts (G-2).',
        })),
      ],
      'no-restricted-syntax': [
        'error',
        { selector: 'TSEnumDeclaration', message: 'Use a union of strings.' },
        { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: 'Use Clock.wall() (G-5).' },
      ],
    },
  },
  ...layers,
  { files: GROUND.map((file) => `src/${file}.ts`), rules: forbid(ALL) },
  { files: ['src/options.ts'], rules: { 'no-restricted-properties': 'off' } },
  {
    files: ['src/clock.ts', 'src/testing/fake-clock.ts'],
    rules: { 'no-restricted-globals': 'off', 'no-restricted-properties': 'off' },
  },
  {
    files: ['test/**/*.ts', 'bench/**/*.ts', 'examples/**/*.ts'],
    rules: {
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/no-empty-function': 'off',
      '@typescript-eslint/unbound-method': 'off',
    },
  },
  { files: ['*.config.{ts,js}'], rules: { 'import-x/no-default-export': 'off' } },
  { files: ['examples/**/*.ts', 'bench/**/*.ts'], rules: { 'no-console': 'off' } },
  { files: ['**/*.js'], ...tseslint.configs.disableTypeChecked },
);
