import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import Docker from 'dockerode';
import { expect, it, onTestFinished, vi } from 'vitest';
import {
  engineSuite,
  RUN_LABEL,
  uniqueName,
  type BuiltImage,
  type RealEngine,
  type RegistryFaults,
  type RegistryProxy,
} from './harness/index.js';

interface PullLine {
  readonly status?: string;
  readonly error?: string;
}

/** Pulls as a client would; the image is removed after the test. */
async function pull(engine: RealEngine, ref: string, docker = engine.docker): Promise<PullLine[]> {
  onTestFinished(async () => {
    await engine.docker
      .getImage(ref)
      .remove({ force: true })
      .catch(() => {});
  });
  const stream = (await docker.pull(ref)) as AsyncIterable<Buffer>;
  let text = '';
  for await (const chunk of stream) text += chunk.toString();
  return text
    .trim()
    .split('\r\n')
    .map((line) => JSON.parse(line) as PullLine);
}

async function slowImage(
  engine: RealEngine,
  faults: RegistryFaults,
  paddingMb = 2,
): Promise<{ image: BuiltImage; registry: RegistryProxy; ref: string }> {
  const image = await engine.pushImage({ name: uniqueName('slow'), tag: 'v1', paddingMb });
  const registry = await engine.registryProxy(faults);
  return { image, registry, ref: registry.ref(image.name, image.tag) };
}

engineSuite('harness: the registry proxy', (engine) => {
  it('passes a pull on unharmed, and the image is the one that was made', async () => {
    const { image, registry, ref } = await slowImage(engine, {});
    const lines = await pull(engine, ref);
    expect(lines.at(-1)?.status).toContain('Downloaded newer image');
    expect(registry.blobBytes).toBe(image.bytes);
    const pulled = await engine.docker.getImage(ref).inspect();
    expect(pulled.Id).toBe(image.id);
    expect(pulled.RepoDigests).toEqual([`127.0.0.1:${registry.port}/${image.name}@${image.digest}`]);
  });

  it('holds all layers together to the rate that was asked for', async () => {
    const bytesPerSecond = 2_000_000;
    const { image, ref } = await slowImage(engine, { bytesPerSecond });
    const start = performance.now();
    await pull(engine, ref);
    // The throttle may run ahead by 50 ms, no more: a machine under load makes the pull longer, never shorter.
    expect(performance.now() - start).toBeGreaterThanOrEqual((image.bytes / bytesPerSecond) * 1000 - 50);
  });

  it('cuts at half: the engine tries again, and then ends its stream with an error', async () => {
    const { registry, ref } = await slowImage(engine, { cutAfterBytes: 1_200_000 });
    const lines = await pull(engine, ref);
    expect(registry.blobBytes).toBe(1_200_000);
    expect(lines.some(({ status }) => status?.startsWith('Retrying in') === true)).toBe(true);
    expect(lines.at(-1)?.error).toMatch(/EOF/);
  });

  it('heals: what was cut goes on where it broke off when the engine tries again', async () => {
    const { image, registry, ref } = await slowImage(engine, { cutAfterBytes: 1_200_000 });
    const pulled = pull(engine, ref);
    await vi.waitUntil(() => registry.blobBytes === 1_200_000, { timeout: 10_000 });
    registry.set({});
    expect((await pulled).at(-1)?.status).toContain('Downloaded newer image');
    expect(registry.requests.map(({ status }) => status)).toContain(206);
    expect(registry.blobBytes).toBeLessThan(image.bytes);
  });

  it('goes silent: nothing more comes, no connection ends, and it can go on', async () => {
    const { image, registry, ref } = await slowImage(engine, { silentAfterBytes: 1_200_000 });
    let ended = false;
    const pulled = pull(engine, ref).finally(() => (ended = true));
    await vi.waitUntil(() => registry.blobBytes === 1_200_000, { timeout: 10_000 });
    const asked = await fetch(`http://127.0.0.1:${registry.port}/v2/${image.name}/blobs/${image.id}`);
    expect(asked.status).toBe(200);
    expect({ ended, bytes: registry.blobBytes }).toEqual({ ended: false, bytes: 1_200_000 });
    registry.set({});
    expect((await pulled).at(-1)?.status).toContain('Downloaded newer image');
    await asked.arrayBuffer();
  });

  it('close ends what is silent', async () => {
    const { registry, ref } = await slowImage(engine, { silentAfterBytes: 1_200_000 });
    const pulled = pull(engine, ref);
    await vi.waitUntil(() => registry.blobBytes === 1_200_000, { timeout: 10_000 });
    await registry.close();
    expect((await pulled).at(-1)?.error).toMatch(/EOF|connection refused|reset/);
  });

  const json = (code: string, message: string): string => JSON.stringify({ errors: [{ code, message }] });
  it.each<{ what: string; answer: RegistryFaults['answer']; status: number; message: RegExp }>([
    {
      what: '429 for the manifest',
      answer: { status: 429, headers: { 'retry-after': '7' }, body: json('TOOMANYREQUESTS', 'slow down') },
      status: 500,
      message: /toomanyrequests: slow down\s*$/, // the Retry-After header is lost on the way
    },
    {
      what: '401 with a challenge',
      answer: { status: 401, headers: { 'www-authenticate': 'Basic realm="here"' } },
      status: 500,
      message: /no basic auth credentials/,
    },
    {
      what: '403 for the manifest',
      answer: { status: 403, path: /manifests/, body: json('DENIED', 'not yours') },
      status: 404,
      message: /pull access denied .* may require 'docker login': denied: not yours/,
    },
    { what: '500', answer: { status: 500 }, status: 500, message: /unexpected HTTP status: 500 Internal Server Error/ },
  ])('answers $what: the engine says $status $message', async ({ answer, status, message }) => {
    const { ref } = await slowImage(engine, { ...(answer !== undefined && { answer }) }, 0);
    await expect(pull(engine, ref)).rejects.toMatchObject({
      statusCode: status,
      message: expect.stringMatching(message) as string,
    });
  });

  it('answers 429 for the blobs: the failure is in the stream of a pull that began with 200', async () => {
    const { ref } = await slowImage(engine, {
      answer: { status: 429, path: /blobs/, headers: { 'retry-after': '7' }, body: json('TOOMANYREQUESTS', 'slow') },
    });
    expect((await pull(engine, ref)).at(-1)?.error).toMatch(/toomanyrequests: slow/);
  });

  it('an unknown tag is a 404 of the engine', async () => {
    const { image, registry } = await slowImage(engine, {}, 0);
    await expect(pull(engine, registry.ref(image.name, 'none'))).rejects.toMatchObject({
      statusCode: 404,
      message: expect.stringMatching(/manifest for .* not found: manifest unknown/) as string,
    });
  });

  it('refuses connections, and accepts them again on the same port', async () => {
    const { registry, ref } = await slowImage(engine, {}, 0);
    await registry.refuse();
    await expect(pull(engine, ref)).rejects.toMatchObject({
      statusCode: 500,
      message: expect.stringMatching(/dial tcp 127\.0\.0\.1:\d+: connect: connection refused/) as string,
    });
    await registry.accept();
    expect((await pull(engine, ref)).at(-1)?.status).toContain('Downloaded newer image');
  });
});

engineSuite('harness: the engine proxy', (engine) => {
  async function pulledImage(): Promise<string> {
    const { registry, image, ref } = await slowImage(engine, {}, 0);
    expect(registry.blobBytes).toBe(0);
    await pull(engine, ref);
    return image.id;
  }

  /** A name for a container that is removed after the test, whoever makes it. */
  function containerName(): string {
    const name = uniqueName('proxied');
    onTestFinished(async () => {
      await engine.docker
        .getContainer(name)
        .remove({ force: true })
        .catch(() => {});
    });
    return name;
  }

  it('records the calls in their order, without the version of the API, and the body of a create', async () => {
    const proxy = await engine.engineProxy();
    const docker = new Docker({ socketPath: proxy.socketPath, version: 'v1.41' });
    const [image, name] = [await pulledImage(), containerName()];
    const container = await docker.createContainer({ name, Image: image });
    await container.start();
    await container.stop({ t: 5 });
    await container.remove();
    expect(proxy.sequence).toEqual([
      'POST /containers/create',
      `POST /containers/${container.id}/start`,
      `POST /containers/${container.id}/stop`,
      `DELETE /containers/${container.id}`,
    ]);
    expect(proxy.calls[0]?.path).toMatch(`/containers/create?name=${name}`);
    expect(proxy.calls[0]?.body).toMatchObject({ Image: image });
    expect(proxy.calls.map(({ status }) => status)).toEqual([201, 204, 204, 204]);
  });

  it('holds a call back until the test lets it go', async () => {
    const proxy = await engine.engineProxy();
    const docker = new Docker({ socketPath: proxy.socketPath });
    let letGo = (): void => {};
    proxy.on('POST /containers/create', { until: new Promise<void>((resolve) => (letGo = resolve)) });
    const [image, name] = [await pulledImage(), containerName()];
    const created = docker.createContainer({ name, Image: image });
    await proxy.called('POST /containers/create');
    await engine.docker.createContainer({ name: containerName(), Image: image }); // time enough for the other one
    await expect(engine.docker.getContainer(name).inspect()).rejects.toMatchObject({ statusCode: 404 });
    letGo();
    await created;
    await expect(engine.docker.getContainer(name).inspect()).resolves.toMatchObject({ Name: `/${name}` });
  });

  it('fails as many calls as it was told to, and those never reach the engine', async () => {
    const proxy = await engine.engineProxy();
    const docker = new Docker({ socketPath: proxy.socketPath });
    proxy.on(/^GET \/_ping/, { fail: 503, message: 'not now' }, { times: 1 });
    await expect(docker.ping()).rejects.toMatchObject({ statusCode: 503, json: { message: 'not now' } });
    await expect(docker.ping()).resolves.toBeDefined();
  });

  it.each([
    { drop: 'before', exists: false },
    { drop: 'after', exists: true },
  ] as const)('drops a call $drop the engine sees it: its container exists: $exists', async ({ drop, exists }) => {
    const proxy = await engine.engineProxy();
    const docker = new Docker({ socketPath: proxy.socketPath });
    const off = proxy.on('POST /containers/create', { drop });
    const [image, name] = [await pulledImage(), containerName()];
    await expect(docker.createContainer({ name, Image: image })).rejects.toMatchObject({ code: 'ECONNRESET' });
    const found = await engine.docker
      .getContainer(name)
      .inspect()
      .then(
        () => true,
        () => false,
      );
    expect(found).toBe(exists);
    off();
    if (!exists) await docker.createContainer({ name, Image: image });
  });

  it('cuts the answer of a call after so many bytes', async () => {
    const { ref } = await slowImage(engine, { bytesPerSecond: 1_000_000 }, 10);
    const proxy = await engine.engineProxy();
    proxy.on('POST /images/create', { cutAfterBytes: 400 });
    const stream = await new Docker({ socketPath: proxy.socketPath }).pull(ref);
    let received = 0;
    stream.on('data', (chunk: Buffer) => (received += chunk.length));
    const failed = once(stream, 'error');
    expect(await failed).toMatchObject([{ code: 'ECONNRESET' }]);
    expect(received).toBe(400);
  });

  it('dropAll ends the streams that are open', async () => {
    const proxy = await engine.engineProxy();
    const events = await new Docker({ socketPath: proxy.socketPath }).getEvents();
    const failed = once(events, 'error');
    proxy.dropAll();
    expect(await failed).toMatchObject([{ message: 'aborted' }]);
    expect(proxy.sequence).toEqual(['GET /events']);
  });
});

engineSuite('harness: the end of a run', (engine) => {
  it('ends its parts and removes what it left in the engine when the runner is gone', async () => {
    const serve = fileURLToPath(new URL('harness/serve.ts', import.meta.url));
    const folder = mkdtempSync(join(tmpdir(), 'handover-end-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const env: NodeJS.ProcessEnv = { ...process.env, HANDOVER_ENGINE_SOCKET: engine.socketPath, TMPDIR: folder };
    delete env['HANDOVER_REGISTRY_PORT'];
    const holder = spawn(process.execPath, ['--import', 'tsx', serve, '--for-runner'], {
      env,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const [line] = (await once(createInterface(holder.stdout), 'line')) as [string];
    const { runId, registry } = JSON.parse(line) as { runId: string; registry: { port: number } };
    const folders = (): string[] => readdirSync(folder).filter((name) => name.startsWith('handover-'));
    expect(folders()).toHaveLength(1);
    const { image, ref } = await slowImage(engine, {}, 0);
    await pull(engine, ref);
    const { id } = await engine.docker.createContainer({
      Image: image.id,
      name: uniqueName('left'),
      Labels: { [RUN_LABEL]: runId },
    });
    holder.stdin.end(); // what the end of its process does to a runner's pipes, whatever ended it
    expect(await once(holder, 'exit')).toEqual([0, null]);
    await expect(fetch(`http://127.0.0.1:${registry.port}/v2/`)).rejects.toThrow('fetch failed');
    await expect(engine.docker.getContainer(id).inspect()).rejects.toMatchObject({ statusCode: 404 });
    expect(folders()).toEqual([]);
  });
});
