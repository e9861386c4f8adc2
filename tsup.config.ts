import { defineConfig } from 'tsup';

export default defineConfig({
  entry: {
    index: 'src/index.ts',
    docker: 'src/docker/index.ts',
    process: 'src/process/index.ts',
    lmdb: 'src/lmdb/index.ts',
    testing: 'src/testing/index.ts',
  },
  format: ['esm'],
  target: 'node20',
  platform: 'node',
  dts: true,
  clean: true,
  // One copy of each class whatever entries are imported: shared code lands in common chunks.
  splitting: true,
  sourcemap: true,
  treeshake: true,
});
