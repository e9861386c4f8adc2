import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** The tests import the library by its public names; the sources stand in for the build. */
const alias = [
  { find: /^handover$/, replacement: at('src/index.ts') },
  { find: /^handover\/(docker|process|lmdb|testing)$/, replacement: at('src/$1/index.ts') },
];

export default defineConfig({
  resolve: { alias },
  test: {
    reporters: ['default', ['json', { outputFile: process.env['HANDOVER_RESULTS'] ?? '.cache/results.json' }]],
    restoreMocks: true,
    coverage: { provider: 'v8', include: ['src/**'], reportsDirectory: '.cache/coverage' },
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: ['test/{engine,model,package,types}/**'],
        },
      },
      {
        extends: true,
        test: { name: 'model', include: ['test/model/**/*.test.ts'], testTimeout: 240_000 },
      },
      {
        extends: true,
        test: {
          name: 'engine',
          include: ['test/engine/**/*.test.ts'],
          globalSetup: ['test/engine/harness/global-setup.ts'],
          // One engine is shared by all files: what one of them lists, prunes or breaks, another would see.
          fileParallelism: false,
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        extends: true,
        test: { name: 'package', include: ['test/package/**/*.test.ts'], testTimeout: 240_000, hookTimeout: 240_000 },
      },
    ],
  },
});
