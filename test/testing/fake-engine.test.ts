import Docker from 'dockerode';
import { FakeClock, FakeEngine } from 'handover/testing';
import { describe, expect, it, onTestFinished } from 'vitest';

interface Answered {
  readonly status: number;
  readonly text: string;
}

async function start(clock?: FakeClock): Promise<{ engine: FakeEngine; docker: Docker }> {
  const engine = await FakeEngine.start({ clock });
  onTestFinished(() => engine.close());
  return { engine, docker: new Docker({ socketPath: engine.socketPath }) };
}

/** What a client is told when it is refused. */
async function refused(work: Promise<unknown>): Promise<Answered> {
  return work.then(
    () => {
      throw new Error('it was expected to be refused');
    },
    (error: unknown) => {
      const { statusCode = 0, message } = error as { statusCode?: number; message: string };
      return { status: statusCode, text: message.replace(/^\(HTTP code \d+\) [a-z ]+ - /, '').trim() };
    },
  );
}

async function pullOf(docker: Docker, reference: string): Promise<string> {
  const stream = await docker.pull(reference);
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

describe('FakeEngine: images', () => {
  it('a pull streams lines and lands the image with its tag and digest', async () => {
    const { engine, docker } = await start();
    const { digest } = engine.publish('app:v1', { content: 'one' });
    const lines = (await pullOf(docker, 'app:v1')).trim().split('\r\n');
    expect(lines.map((line) => (JSON.parse(line) as { status: string }).status)).toEqual([
      'Pulling from app',
      'Pulling fs layer',
      'Downloading',
      'Downloading',
      'Download complete',
      'Extracting',
      'Pull complete',
      `Digest: ${digest}`,
      'Status: Downloaded newer image for app:v1',
    ]);
    const info = await docker.getImage(`app@${digest}`).inspect();
    expect(info).toMatchObject({ RepoTags: ['app:v1'], RepoDigests: [`app@${digest}`], Architecture: 'amd64' });
  });

  it('a tag that moved is pulled anew, and the older image keeps its digest', async () => {
    const { engine, docker } = await start();
    const old = engine.publish('app:v1', { content: 'one' });
    await pullOf(docker, 'app:v1');
    const fresh = engine.publish('app:v1', { content: 'two' });
    await pullOf(docker, 'app:v1');
    expect((await docker.getImage('app:v1').inspect()).Id).toBe(fresh.id);
    expect((await docker.getImage(`app@${old.digest}`).inspect()).RepoTags).toEqual([]);
  });

  it('an unknown reference is refused before the stream begins', async () => {
    const { docker } = await start();
    expect(await refused(docker.pull('app:v9'))).toEqual({
      status: 404,
      text: 'manifest for app:v9 not found: manifest unknown: manifest unknown',
    });
  });

  it('by name it is untagged, with its last name deleted, in use refused', async () => {
    const { engine, docker } = await start();
    const { id } = engine.put('app:v1', { content: 'one' });
    engine.put('app:v2', { content: 'one' });
    const c = engine.create('web', { Image: 'app:v1' });
    expect(await docker.getImage('app:v2').remove()).toEqual([{ Untagged: 'app:v2' }]);
    expect(await refused(docker.getImage('app:v1').remove())).toEqual({
      status: 409,
      text: `conflict: unable to remove repository reference "app:v1" (must force) - container ${c.id.slice(0, 12)} is using its referenced image ${id.slice(7, 19)}`,
    });
    engine.remove('web');
    expect(await docker.getImage('app:v1').remove()).toContainEqual({ Deleted: id });
    expect(engine.images).toEqual([]);
  });
});

describe('FakeEngine: faults', () => {
  it('falls on so many matching calls, after so many', async () => {
    const { engine, docker } = await start();
    engine.fault({ path: /^\/_ping/, times: 2, after: 1 }, { status: 503, message: 'not now' });
    const seen: number[] = [];
    for (let i = 0; i < 4; i++) {
      const answer: unknown = await docker.ping().catch((error: unknown) => error);
      seen.push(answer instanceof Error ? (answer as Error & { statusCode: number }).statusCode : 200);
    }
    expect(seen).toEqual([200, 503, 503, 200]);
  });

  it('lose: the request is not done, or it is done and nobody is told', async () => {
    const { engine, docker } = await start();
    engine.put('app:v1');
    engine.fault({ path: /name=one/ }, { lose: 'request' });
    engine.fault({ path: /name=two/ }, { lose: 'answer' });
    expect((await refused(docker.createContainer({ name: 'one', Image: 'app:v1' }))).text).toMatch(
      /hang up|ECONNRESET/,
    );
    expect((await refused(docker.createContainer({ name: 'two', Image: 'app:v1' }))).text).toMatch(
      /hang up|ECONNRESET/,
    );
    expect(engine.containers.map((c) => c.name)).toEqual(['two']);
  });

  it('silence with a delay: the work lands late, on the engine’s clock', async () => {
    const clock = new FakeClock();
    const { engine, docker } = await start(clock);
    engine.put('app:v1');
    engine.fault({ path: /create/ }, { silence: 'answer', delay: 1_000 });
    const controller = new AbortController();
    const create = docker.createContainer({ name: 'one', Image: 'app:v1', abortSignal: controller.signal });
    await engine.called(/create/);
    controller.abort();
    await refused(create);
    expect(engine.containers).toEqual([]);
    await clock.advance(1_000);
    expect(engine.containers).toHaveLength(1);
  });

  it('inStreamError ends a pull after its 200, and nothing lands', async () => {
    const { engine, docker } = await start();
    engine.publish('app:v1');
    engine.fault({ path: /images\/create/ }, { inStreamError: 'unexpected EOF' });
    const last = (await pullOf(docker, 'app:v1')).trim().split('\r\n').pop()!;
    expect(JSON.parse(last)).toEqual({ error: 'unexpected EOF', errorDetail: { message: 'unexpected EOF' } });
    expect(engine.images).toEqual([]);
  });

  it('cutAfter breaks the connection in the middle of a stream, and nothing lands', async () => {
    const { engine, docker } = await start();
    engine.publish('app:v1');
    engine.fault({ path: /images\/create/ }, { cutAfter: 100 });
    await expect(pullOf(docker, 'app:v1')).rejects.toThrow('aborted');
    expect(engine.images).toEqual([]);
  });

  it('silentAfter stops in the middle and keeps the connection', async () => {
    const { engine, docker } = await start();
    engine.publish('app:v1');
    engine.fault({ path: /images\/create/ }, { silentAfter: 100 });
    const stream = await docker.pull('app:v1');
    const [chunk] = (await stream[Symbol.asyncIterator]()
      .next()
      .then((r) => [r.value])) as [Buffer];
    expect(chunk).toHaveLength(100);
    expect(engine.images).toEqual([]);
  });

  it('garbage takes the place of the answer; the work is done', async () => {
    const { engine, docker } = await start();
    engine.put('app:v1');
    engine.fault({ path: /create/ }, { garbage: '<html>' });
    await docker.createContainer({ name: 'one', Image: 'app:v1' }).catch(() => undefined);
    expect(engine.containers).toHaveLength(1);
  });

  it('down refuses connections, up answers again, containers go on', async () => {
    const { engine, docker } = await start();
    engine.put('app:v1');
    engine.create('one', { Image: 'app:v1' });
    engine.startContainer('one');
    await engine.down();
    expect((await refused(docker.ping())).text).toMatch(/ECONNREFUSED|ENOENT/);
    await engine.up();
    expect((await docker.getContainer('one').inspect()).State.Running).toBe(true);
  });
});

describe('FakeEngine: containers', () => {
  it('EXIT_MS, IGNORE_TERM, EXIT_AFTER_MS and EXIT_CODE say how they end', async () => {
    const clock = new FakeClock();
    const { engine, docker } = await start(clock);
    engine.put('app:v1');
    const envs = { slow: ['EXIT_MS=500'], stubborn: ['IGNORE_TERM=1'], short: ['EXIT_AFTER_MS=200', 'EXIT_CODE=9'] };
    for (const [name, Env] of Object.entries(envs)) {
      engine.create(name, { Image: 'app:v1', Env });
      engine.startContainer(name);
      await docker.getContainer(name).kill({ signal: 'SIGTERM' });
    }
    await docker.getContainer('stubborn').kill({ signal: 'SIGUSR1' });
    const running: (readonly string[])[] = [];
    for (const at of [199, 1, 299, 1]) {
      await clock.advance(at);
      running.push(engine.running());
    }
    // A program that ends by itself ends on SIGTERM too, which came first.
    expect(running).toEqual([['slow', 'stubborn'], ['slow', 'stubborn'], ['slow', 'stubborn'], ['stubborn']]);
    expect(engine.containers[1]?.signals).toEqual(['SIGTERM', 'SIGUSR1']);
    engine.startContainer('short');
    await clock.advance(200);
    expect(engine.containers[2]).toMatchObject({ state: 'exited', exitCode: 9 });
  });

  it('next-exit waits for the next exit, not-running is content with an earlier one', async () => {
    const { engine, docker } = await start();
    engine.put('app:v1');
    engine.create('one', { Image: 'app:v1' });
    const next = docker.getContainer('one').wait({ condition: 'next-exit' }) as Promise<{ StatusCode: number }>;
    expect(await docker.getContainer('one').wait()).toMatchObject({ StatusCode: 0 });
    await engine.called(/next-exit/);
    engine.startContainer('one');
    engine.exit('one', 4);
    expect(await next).toEqual({ StatusCode: 4, Error: null });
    expect(await docker.getContainer('one').wait()).toMatchObject({ StatusCode: 4 });
  });

  it('close leaves no timer and no folder behind', async () => {
    const clock = new FakeClock();
    const engine = await FakeEngine.start({ clock });
    engine.put('app:v1');
    engine.create('one', { Image: 'app:v1', Env: ['EXIT_AFTER_MS=1000'] });
    engine.startContainer('one');
    expect(clock.pending).toBe(1);
    await engine.close();
    expect(clock.pending).toBe(0);
  });
});
