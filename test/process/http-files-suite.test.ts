import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { httpFiles } from 'handover/process';
import { describeArtifactSource } from 'handover/testing';
import { describe, it } from 'vitest';
import { noise } from './files-bench.js';
import { Origin } from './origin.js';

let origin: Origin;
let directory: string;
const contents = new Map<string, string>();

describeArtifactSource('httpFiles', {
  runner: { describe, it },
  async make() {
    origin = await Origin.open();
    directory = await mkdtemp(join(tmpdir(), 'handover-files-'));
    return httpFiles({ directory });
  },
  async publish(name, content) {
    const url = origin.content(`/${name}`, content);
    contents.set(url, content);
    return url;
  },
  missing: () => origin.url('/missing'),
  alias: async (reference, name) => origin.content(`/${name}`, contents.get(reference) ?? ''),
  hanging: async () => origin.silent('/hanging'),
  broken: async () => {
    const [content, etag] = [noise(100_000), '"v1"'];
    const reference = origin.ranged('/broken', content, { etag, cuts: [90_000] });
    return { reference, mend: async () => void origin.ranged('/broken', content, { etag }) };
  },
  async close() {
    await origin.close();
    await rm(directory, { recursive: true });
  },
});
