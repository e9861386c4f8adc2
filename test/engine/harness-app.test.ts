import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { describe, expect, it, onTestFinished } from 'vitest';
import { engineSuite, freePort, probe, uniqueName, type RealEngine, type Sample } from './harness/index.js';
import { summary } from './harness/probe.js';

interface RunningApp {
  readonly process: ChildProcess;
  readonly url: string;
  readonly exited: Promise<unknown[]>;
}

/** The app as a process; its life is the same as in a container, and it starts at once. */
async function startApp(engine: RealEngine, env: Record<string, string>): Promise<RunningApp> {
  const port = await freePort();
  const child = spawn(engine.app.path, { env: { PORT: String(port), ...env }, stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const exited = once(child, 'exit');
  await once(child.stdout, 'data'); // its line "listening PORT"
  return { process: child, url: `http://127.0.0.1:${port}`, exited };
}

const textOf = async (url: string): Promise<string> => (await fetch(url)).text();

engineSuite('harness: the test app', (engine) => {
  it('answers with its version', async () => {
    const app = await startApp(engine, { VERSION: 'v7' });
    expect(await textOf(app.url)).toBe('v7\n');
  });

  it('on SIGTERM refuses new requests, finishes the one in flight, then takes EXIT_MS and exits with 0', async () => {
    const app = await startApp(engine, { EXIT_MS: '300' });
    const slow = textOf(`${app.url}/slow?ms=500`);
    await textOf(app.url); // the slow one was accepted before this one
    app.process.kill('SIGTERM');
    await once(app.process.stdout!, 'data'); // its line "signal 15"
    await expect(fetch(app.url)).rejects.toThrow('fetch failed');
    expect(await slow).toBe('dev\n');
    const answered = performance.now();
    expect(await app.exited).toEqual([0, null]);
    expect(performance.now() - answered).toBeGreaterThan(250);
  });

  it('IGNORE_TERM goes on serving after SIGTERM', async () => {
    const app = await startApp(engine, { IGNORE_TERM: '1' });
    app.process.kill('SIGTERM');
    await once(app.process.stdout!, 'data');
    expect(await textOf(app.url)).toBe('dev\n');
  });

  it.each([
    { after: '0', statuses: [200] },
    { after: '-1', statuses: [503] },
    { after: '400', statuses: [503, 200] },
  ])('HEALTHY_AFTER_MS=$after: /health answers $statuses in turn', async ({ after, statuses }) => {
    const app = await startApp(engine, { HEALTHY_AFTER_MS: after });
    for (const status of statuses) {
      await expect.poll(async () => (await fetch(`${app.url}/health`)).status, { timeout: 5000 }).toBe(status);
    }
  });

  it('START_MS delays the listener', async () => {
    const start = performance.now();
    await startApp(engine, { START_MS: '300' });
    expect(performance.now() - start).toBeGreaterThanOrEqual(299);
  });

  it('EXIT_AFTER_MS ends it with EXIT_CODE', async () => {
    const app = await startApp(engine, { EXIT_AFTER_MS: '200', EXIT_CODE: '7' });
    expect(await app.exited).toEqual([7, null]);
  });

  it.each([
    { env: {}, exitCode: 0 },
    { env: { IGNORE_TERM: '1' }, exitCode: 137 },
  ])('in a container with $env a stop ends it with $exitCode', async ({ env, exitCode }) => {
    const image = await engine.pushImage({ name: uniqueName('app'), tag: 'v3', env });
    const registry = await engine.registryProxy();
    const ref = registry.ref(image.name, image.tag);
    await new Promise((resolve, reject) => {
      engine.docker.pull(ref).then((stream) => stream.resume().on('end', resolve).on('error', reject), reject);
    });
    onTestFinished(() => engine.docker.getImage(ref).remove({ force: true }));
    const port = await freePort();
    const container = await engine.docker.createContainer({
      name: uniqueName('app'),
      Image: image.id,
      Labels: { 'handover.test.case': image.name },
      ExposedPorts: { '8080/tcp': {} },
      HostConfig: { PortBindings: { '8080/tcp': [{ HostIp: '127.0.0.1', HostPort: String(port) }] } },
    });
    onTestFinished(() => container.remove({ force: true }));
    expect(await engine.containersOf(`handover.test.case=${image.name}`)).toMatchObject([{ Id: container.id }]);
    await container.start();
    const client = probe(`http://127.0.0.1:${port}/`);
    expect((await client.answeredBy('v3')).ok).toBe(true);
    await container.stop({ t: 1 });
    const { failed, versions } = await client.stop();
    expect(versions).toEqual(['v3']);
    expect(failed).toBeGreaterThan(0);
    expect((await container.inspect()).State.ExitCode).toBe(exitCode);
  });
});

describe('harness: the probe', () => {
  const sample = (start: number, ok: boolean, latency = 1): Sample => ({ start, ok, latency });

  it.each([
    { why: 'no failure', samples: [sample(0, true), sample(10, true)], outageMs: 0, failed: 0 },
    {
      why: 'starts count, not ends',
      samples: [sample(0, true), sample(10, false, 99), sample(20, false), sample(30, true, 50)],
      outageMs: 20,
      failed: 2,
    },
    {
      why: 'two outages add up',
      samples: [sample(0, false), sample(10, true), sample(20, false), sample(30, false), sample(50, true)],
      outageMs: 40,
      failed: 3,
    },
    { why: 'answers arrive out of order', samples: [sample(10, true), sample(0, false)], outageMs: 10, failed: 1 },
    { why: 'it never came back', samples: [sample(0, true), sample(10, false)], outageMs: Infinity, failed: 1 },
  ])('outage: $why', ({ samples, outageMs, failed }) => {
    expect(summary(samples)).toMatchObject({ outageMs, failed });
  });

  it('goes on asking while earlier requests hang, and counts those as failed at the time-out', async () => {
    const hanging = createServer(() => {}).listen(0, '127.0.0.1');
    await once(hanging, 'listening');
    onTestFinished(() => {
      hanging.closeAllConnections();
      hanging.close();
    });
    const arrived = new Promise<void>((resolve) => {
      let requests = 0;
      hanging.on('request', () => ++requests === 5 && resolve());
    });
    const client = probe(`http://127.0.0.1:${(hanging.address() as { port: number }).port}/`, {
      everyMs: 10,
      timeoutMs: 1000,
    });
    await arrived;
    expect(client.report().samples).toEqual([]);
    const { samples, failed, longestLatencyMs } = await client.stop();
    expect(failed).toBe(samples.length);
    expect(new Set(samples.map(({ failure }) => failure))).toEqual(new Set(['timeout']));
    expect(longestLatencyMs).toBeGreaterThanOrEqual(999);
  });

  it('names what failed', async () => {
    const server = createServer((_, answer) => answer.writeHead(503).end()).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const broken = await probe(`http://127.0.0.1:${port}/`).stop();
    server.close();
    const refused = await probe(`http://127.0.0.1:${await freePort()}/`).stop();
    expect(broken.samples).toMatchObject([{ ok: false, failure: '503' }]);
    expect(refused.samples).toMatchObject([{ ok: false, failure: 'ECONNREFUSED' }]);
  });
});
