import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { type RealEngine, engineSuite, uniqueName } from './harness/index.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function demo(engine: RealEngine, ...args: string[]): Promise<Ended> {
  const env = { ...process.env, DOCKER_HOST: `unix://${engine.socketPath}` };
  const argv = ['--import', 'tsx', 'examples/demo/main.ts', '--docker', '--json', ...args];
  return new Promise((resolve) => {
    const child = execFile(process.execPath, argv, { cwd: ROOT, env }, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    );
  });
}

engineSuite('npm run demo -- --docker', (engine) => {
  it('does the update with real containers, pulls twice, and leaves neither container nor image', async () => {
    const registry = await engine.registryProxy({ bytesPerSecond: 2_000_000 });
    const name = uniqueName('demo');
    await engine.pushImage({ name, tag: 'v1' });
    const v2 = await engine.pushImage({ name, tag: 'v2', paddingMb: 4 });
    const [from, to] = [registry.ref(name, 'v1'), registry.ref(name, 'v2')];

    const { code, stdout, stderr } = await demo(engine, '--from', from, '--to', to);

    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const result = JSON.parse(stdout) as {
      killFirst: { outageMs: number; failed: number };
      handover: { outageMs: number; failed: number; outcome: string };
    };
    expect(result.handover.outcome).toBe('replaced');
    expect(result.killFirst.failed).toBeGreaterThan(result.handover.failed);
    expect(registry.blobBytes).toBeGreaterThan(1.9 * v2.bytes);
    await expect(engine.docker.getImage(to).inspect()).rejects.toMatchObject({ statusCode: 404 });
    const left = await engine.docker.listContainers({ all: true, filters: { label: ['handover.alloc'] } });
    expect(left.filter(({ Image }) => Image.includes(name))).toEqual([]);
  });

  it('a wrong --to: kill-first is out of service for good, handover keeps version 1; the object is printed all the same', async () => {
    const registry = await engine.registryProxy();
    const name = uniqueName('demo');
    await engine.pushImage({ name, tag: 'v1' });

    const { code, stdout, stderr } = await demo(
      engine,
      ...['--from', registry.ref(name, 'v1'), '--to', registry.ref(name, 'typo')],
    );

    expect({ code, stderr }).toEqual({ code: 3, stderr: '' });
    const { killFirst, handover } = JSON.parse(stdout) as Record<string, object>;
    expect(killFirst).toMatchObject({ outageMs: null, outcome: 'failed' });
    expect(handover).toMatchObject({ outageMs: 0, failed: 0, outcome: 'kept-previous' });
    const left = await engine.docker.listContainers({ all: true, filters: { label: ['handover.alloc'] } });
    expect(left.filter(({ Image }) => Image.includes(name))).toEqual([]);
  });

  it('a version 1 that cannot be pulled is one clear sentence', async () => {
    const registry = await engine.registryProxy();
    const name = uniqueName('demo');
    const args = ['--from', registry.ref(name, 'typo'), '--to', registry.ref(name, 'v2')];
    const { code, stdout, stderr } = await demo(engine, ...args);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^.*typo.*\n$/);
  });

  it('IC-17 an image that is there already is not removed: it says so and does nothing', async () => {
    const registry = await engine.registryProxy();
    const name = uniqueName('demo');
    await engine.pushImage({ name, tag: 'v2' });
    const to = registry.ref(name, 'v2');
    const stream = await engine.docker.pull(to);
    await new Promise((resolve) => engine.docker.modem.followProgress(stream, resolve));

    const { code, stdout, stderr } = await demo(engine, '--from', registry.ref(name, 'v1'), '--to', to);

    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain(`${to} is on this machine already`);
    await engine.docker.getImage(to).remove();
  });

  it('an engine that cannot be reached is one clear sentence', async () => {
    const nowhere = { ...engine, socketPath: '/nowhere/docker.sock' };
    const { code, stdout, stderr } = await demo(nowhere, '--from', 'a:1', '--to', 'a:2');
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^The Docker engine cannot be asked: .+\n$/);
  });
});
