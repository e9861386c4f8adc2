import Docker from 'dockerode';
import { type ArtifactSource, findError, type Progress, type PullReason } from 'handover';
import { type DockerImage, dockerImages } from 'handover/docker';
import { describeArtifactSource } from 'handover/testing';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type BuiltImage, engineSuite, freePort, type RealEngine, uniqueName } from './harness/index.js';

type Told = Omit<Progress, 'attempt'>;

/** Fetches; whatever of it is there is removed after the test, by id, with all that uses it. */
async function fetch(
  engine: RealEngine,
  reference: string,
  o: { platform?: string; signal?: AbortSignal; onProgress?: (told: Told) => void } = {},
): Promise<DockerImage> {
  const source = dockerImages(engine.docker);
  await source.fetch(reference, { ...o, onProgress: o.onProgress ?? (() => {}) });
  const image = await source.find(reference, {});
  if (image === undefined) throw new Error(`${reference} was fetched and is not there`);
  onTestFinished(() => forget(engine, image.id));
  return image;
}

async function forget({ docker }: RealEngine, id: string): Promise<void> {
  const containers = await docker.listContainers({ all: true });
  for (const { Id, ImageID } of containers) {
    if (ImageID === id) await docker.getContainer(Id).remove({ force: true });
  }
  await docker
    .getImage(id)
    .remove({ force: true })
    .catch(() => {});
}

async function failure(engine: RealEngine, reference: string, platform?: string): Promise<unknown> {
  return fetch(engine, reference, platform === undefined ? {} : { platform }).then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** The class of a failure, and whether it is worth trying again. */
function classOf(error: unknown): { reason: PullReason; retryable: boolean } | undefined {
  const found = findError(error, 'ERR_PULL_FAILED');
  return found && { reason: found.details.reason, retryable: found.retryable };
}

async function push(
  engine: RealEngine,
  o: { tag?: string; version?: string; name?: string } = {},
): Promise<BuiltImage> {
  const { tag = 'v1', name = uniqueName('images'), version = tag } = o;
  return engine.pushImage({ name, tag, version });
}

/** Gives what one tag means in the registry a second tag. */
engineSuite('dockerImages on a real engine: failures of pulls', (engine) => {
  const ref = (name: string, tag = 'v1'): string => `127.0.0.1:${engine.registry.port}/${name}:${tag}`;

  it('case C13 an unknown name and an unknown tag: permanent', async () => {
    const permanent = { reason: 'not-found-or-denied', retryable: false };
    expect(classOf(await failure(engine, ref(uniqueName('missing'))))).toEqual(permanent);
    const image = await push(engine);
    expect(classOf(await failure(engine, ref(image.name, 'v2')))).toEqual(permanent);
  });

  it('a registry that refuses connections: retryable', async () => {
    const error = await failure(engine, `127.0.0.1:${await freePort()}/app:v1`);
    expect(classOf(error)).toEqual({ reason: 'registry-unavailable', retryable: true });
  });

  it.each([
    { status: 401, body: '', reason: 'unauthorized', retryable: false },
    { status: 403, body: '', reason: 'not-found-or-denied', retryable: false },
    { status: 429, body: '', reason: 'rate-limited', retryable: true },
    {
      status: 429,
      body: '{"errors":[{"code":"TOOMANYREQUESTS","message":"You have reached your pull rate limit."}]}',
      reason: 'rate-limited',
      retryable: true,
    },
    { status: 500, body: '', reason: 'registry-unavailable', retryable: true },
    { status: 503, body: '', reason: 'registry-unavailable', retryable: true },
  ])('case C12, C14 a registry that answers $status "$body" → $reason', async ({ status, body, reason, retryable }) => {
    const image = await push(engine);
    const registry = await engine.registryProxy({
      answer: { status, body, headers: { 'content-type': 'application/json' }, path: /manifests/ },
    });
    const error = await failure(engine, registry.ref(image.name, 'v1'));
    expect(classOf(error), (error as Error).message).toEqual({ reason, retryable });
  });

  it('case C15 a registry that dies at half: the error in the stream, nothing is there, and the next try brings it', async () => {
    const image = await engine.pushImage({ name: uniqueName('cut'), tag: 'v1', paddingMb: 2 });
    const registry = await engine.registryProxy({ cutAfterBytes: 1_000_000 });
    const reference = registry.ref(image.name, 'v1');
    const error = await failure(engine, reference);
    expect(classOf(error), (error as Error).message).toEqual({ reason: 'registry-unavailable', retryable: true });
    expect(await dockerImages(engine.docker).find(reference, {})).toBeUndefined();
    registry.set({});
    expect((await fetch(engine, reference)).id).toBe(image.id);
  });

  it('case C9 a registry that goes silent: the pull goes on until it is aborted, then nothing is there', async () => {
    const image = await engine.pushImage({ name: uniqueName('silent'), tag: 'v1', paddingMb: 2 });
    const registry = await engine.registryProxy({ silentAfterBytes: 1_000_000 });
    const reference = registry.ref(image.name, 'v1');
    const controller = new AbortController();
    const phases = new Set<string>();
    const fetching = fetch(engine, reference, {
      signal: controller.signal,
      onProgress: ({ phase }) => phases.add(phase),
    });
    const settled = fetching.then(
      () => 'fetched',
      () => 'failed',
    );
    await expect
      .poll(() => [registry.blobBytes, phases.has('downloading')], { timeout: 60_000 })
      .toEqual([1_000_000, true]);
    const reason = new Error('too long');
    expect(await Promise.race([settled, Promise.resolve('going on')])).toBe('going on');
    controller.abort(reason);
    await expect(fetching).rejects.toBe(reason);
    expect(await dockerImages(engine.docker).find(reference, {})).toBeUndefined();
  });

  it('case C17 an image of another platform comes without an error of the engine: no-platform', async () => {
    const image = await push(engine);
    const other = process.arch === 'arm64' ? 'linux/amd64' : 'linux/arm64';
    onTestFinished(() => forget(engine, image.id));
    const error = await failure(engine, ref(image.name), other);
    expect(classOf(error), (error as Error).message).toEqual({ reason: 'no-platform', retryable: false });
    expect(await dockerImages(engine.docker).find(ref(image.name), { platform: other })).toBeUndefined();
  });

  it('case C8, S15 the connection to the engine is cut in the middle: retryable', async () => {
    const image = await engine.pushImage({ name: uniqueName('reset'), tag: 'v1', paddingMb: 2 });
    const registry = await engine.registryProxy({ bytesPerSecond: 1_000_000 });
    const proxy = await engine.engineProxy();
    proxy.on('POST /images/create', { cutAfterBytes: 1_000 });
    const source = dockerImages(new Docker({ socketPath: proxy.socketPath }));
    const error = await source.fetch(registry.ref(image.name, 'v1'), { onProgress: () => {} }).then(
      () => undefined,
      (cause: unknown) => cause,
    );
    expect(classOf(error)).toEqual({ reason: 'engine-unavailable', retryable: true });
  });
});

engineSuite('dockerImages on a real engine: what is there', (engine) => {
  const source: ArtifactSource<DockerImage> = dockerImages(engine.docker);
  const ref = (name: string, tag = 'v1'): string => `127.0.0.1:${engine.registry.port}/${name}:${tag}`;

  it('IC-12 a pull tells bytes and layers, up to all of them', async () => {
    const image = await engine.pushImage({ name: uniqueName('padded'), tag: 'v1', paddingMb: 2 });
    const registry = await engine.registryProxy({ bytesPerSecond: 4_000_000 });
    const told: Told[] = [];
    await fetch(engine, registry.ref(image.name, 'v1'), { onProgress: (each) => told.push(each) });
    // Told once for each piece of the stream: what an engine says before the first bytes may come in one piece with them.
    const phases = new Set(told.map(({ phase }) => phase));
    phases.delete('resolving');
    expect(phases).toEqual(new Set(['downloading', 'extracting']));
    const last = told.at(-1)!;
    expect(last.layers).toEqual({ done: 2, total: 2 });
    expect(last.bytes.done).toBe(last.bytes.total);
    expect(last.bytes.done).toBeGreaterThan(2_000_000);
  });

  it('IC-11 the found image is the one that was pushed: id, digest, platform, names', async () => {
    const pushed = await push(engine);
    const found = await fetch(engine, ref(pushed.name));
    const name = `127.0.0.1:${engine.registry.port}/${pushed.name}`;
    expect(found).toMatchObject({
      id: pushed.id,
      digest: pushed.digest,
      platform: process.arch === 'arm64' ? 'linux/arm64' : 'linux/amd64',
      references: [`${name}:v1`, `${name}@${pushed.digest}`],
      runnable: `${name}:v1@${pushed.digest}`,
    });
    expect((await source.find(pushed.id, {}))?.references).toEqual(found.references);
    expect((await source.list({})).filter(({ id }) => id === pushed.id)).toHaveLength(1);
  });

  it('case C20 a digest beside a tag: the digest is pulled, whatever the tag means', async () => {
    const old = await push(engine);
    const name = old.name;
    await push(engine, { name, version: 'v2' });
    const found = await fetch(engine, `${ref(name)}@${old.digest}`);
    expect(found.id).toBe(old.id);
    expect(found.references).toEqual([`127.0.0.1:${engine.registry.port}/${name}@${old.digest}`]);
  });

  it('DP-6, S28 a tag that moves changes nothing for what is run by `runnable`, and ps stays readable', async () => {
    const old = await push(engine);
    const { runnable } = await fetch(engine, ref(old.name));
    const moved = await push(engine, { name: old.name, version: 'v2' });
    expect((await fetch(engine, ref(old.name))).id).toBe(moved.id);
    const { id } = await engine.docker.createContainer({ name: uniqueName('pinned'), Image: runnable! });
    const inspected = await engine.docker.getContainer(id).inspect();
    expect(inspected.Image).toBe(old.id);
    expect(inspected.Config.Image).toBe(runnable);
    expect(runnable).toContain(':v1@');
    expect(await source.users(old.id, {})).toEqual([inspected.Name.slice(1)]);
    expect(await source.users(moved.id, {})).toEqual([]);
  });

  it('S27 two tags of one image: removing the first untags, removing the second removes; then both are absent', async () => {
    const { name } = await push(engine, { tag: 'a' });
    await engine.tagInRegistry(name, 'a', 'b');
    const first = await fetch(engine, ref(name, 'a'));
    expect((await fetch(engine, ref(name, 'b'))).id).toBe(first.id);
    expect(await source.remove(ref(name, 'a'), {})).toBe('untagged');
    expect(await source.find(ref(name, 'a'), {})).toBeUndefined();
    expect((await source.find(ref(name, 'b'), {}))?.id).toBe(first.id);
    expect(await source.remove(ref(name, 'b'), {})).toBe('removed');
    expect(await source.remove(ref(name, 'b'), {})).toBe('absent');
    expect(await source.find(first.id, {})).toBeUndefined();
  });

  it('IC-17 a name that somebody else gave stays, and so does the image', async () => {
    const pushed = await push(engine);
    await fetch(engine, ref(pushed.name));
    await engine.docker.getImage(ref(pushed.name)).tag({ repo: pushed.name, tag: 'mine' });
    expect(await source.remove(ref(pushed.name), {})).toBe('untagged');
    expect(await source.find(`${pushed.name}:mine`, {})).toMatchObject({ id: pushed.id, runnable: pushed.id });
  });

  it.each(['created', 'running', 'exited'])(
    'case C25, S29, S30 a container that is %s protects its image',
    async (state) => {
      const pushed = await push(engine);
      const { runnable } = await fetch(engine, ref(pushed.name));
      const name = uniqueName('user');
      const container = await engine.docker.createContainer({ name, Image: runnable! });
      if (state !== 'created') await container.start();
      if (state === 'exited') await container.kill();
      await expect.poll(async () => (await container.inspect()).State.Status).toBe(state);
      expect(await source.users(pushed.id, {})).toEqual([name]);
      expect(await source.remove(ref(pushed.name), {})).toBe('in-use');
      expect((await source.find(ref(pushed.name), {}))?.id).toBe(pushed.id);
      await container.remove({ force: true });
      expect(await source.users(pushed.id, {})).toEqual([]);
      expect(await source.remove(ref(pushed.name), {})).toBe('removed');
    },
  );

  it('IC-17 the digest that is left after a tag moved can be removed without touching the tag', async () => {
    const old = await push(engine);
    const before = await fetch(engine, ref(old.name));
    const moved = await push(engine, { name: old.name, version: 'v2' });
    await fetch(engine, ref(old.name));
    const left = (await source.find(before.id, {}))!.references;
    expect(left).toEqual([`127.0.0.1:${engine.registry.port}/${old.name}@${old.digest}`]);
    expect(await source.remove(left[0]!, {})).toBe('removed');
    expect((await source.find(ref(old.name), {}))?.id).toBe(moved.id);
  });
});

engineSuite('dockerImages on a real engine: conformance', (engine) => {
  const host = `127.0.0.1:${engine.registry.port}`;
  describeArtifactSource('docker', {
    runner: { describe, it },
    make: async () => dockerImages(engine.docker),
    publish: async (name, content) => {
      await engine.pushImage({ name, tag: 'v1', version: content });
      return `${host}/${name}:v1`;
    },
    missing: () => `${host}/nowhere/to-be-found:v1`,
    alias: async (reference, name) => {
      const [repository = ''] = reference.slice(host.length + 1).split(':');
      await engine.tagInRegistry(repository, 'v1', name);
      return `${host}/${repository}:${name}`;
    },
    hanging: async () => {
      const image = await engine.pushImage({ name: uniqueName('hanging'), tag: 'v1', paddingMb: 1 });
      const registry = await engine.registryProxy({ silentAfterBytes: 300_000 });
      return registry.ref(image.name, 'v1');
    },
    broken: async () => {
      const image = await engine.pushImage({ name: uniqueName('broken'), tag: 'v1', paddingMb: 1 });
      const registry = await engine.registryProxy({ cutAfterBytes: 300_000 });
      return { reference: registry.ref(image.name, 'v1'), mend: async () => registry.set({}) };
    },
  });
});
