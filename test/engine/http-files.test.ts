import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { httpFiles } from 'handover/process';
import { expect, it, onTestFinished } from 'vitest';
import { engineSuite, uniqueName } from './harness/index.js';

const SCHEMA = 'application/vnd.docker.distribution.manifest.v2+json';

engineSuite('httpFiles on a real origin', (engine) => {
  it('IC-24 case C15 a blob of a registry, cut at 90 %: the next fetch moves the last tenth only, and it is checked', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'handover-files-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    const { name, tag } = await engine.pushImage({ name: uniqueName('files'), tag: 'v1', paddingMb: 5 });
    const origin = `http://127.0.0.1:${engine.registry.port}/v2/${name}`;
    const manifest = (await (await fetch(`${origin}/manifests/${tag}`, { headers: { accept: SCHEMA } })).json()) as {
      readonly layers: readonly { readonly digest: string; readonly size: number }[];
    };
    const { digest, size } = [...manifest.layers].sort((a, b) => b.size - a.size)[0]!;
    const registry = await engine.registryProxy({ cutAfterBytes: Math.floor(size * 0.9) });
    const hash = digest.slice('sha256:'.length);
    const reference = `http://127.0.0.1:${registry.port}/v2/${name}/blobs/${digest}#sha256=${hash}`;

    const fetchOnce = () => httpFiles({ directory }).fetch(reference, { onProgress: () => undefined });
    await expect(fetchOnce()).rejects.toMatchObject({
      code: 'ERR_PULL_FAILED',
      details: { reason: 'registry-unavailable' },
      retryable: true,
    });
    registry.set({});
    await fetchOnce();
    // What the proxy had sent, and the operating system had not handed on when the connection ended, comes again.
    expect(registry.blobBytes).toBeLessThan(size * 0.2);
    expect(registry.requests.map(({ status }) => status)).toEqual([200, 206]);
    const found = await httpFiles({ directory }).find(reference, {});
    expect(found).toMatchObject({ id: digest, bytes: size });
    expect((await stat(found!.path)).size).toBe(size);
  });
});
