import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, it } from 'vitest';
import { type RealEngine, engineSuite, freePort, uniqueName } from './harness/index.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function run(engine: RealEngine, script: string, ...args: string[]): Promise<Ended> {
  const env = { ...process.env, DOCKER_HOST: `unix://${engine.socketPath}` };
  return new Promise((resolve) => {
    const argv = ['--import', 'tsx', script, ...args];
    const child = execFile(process.execPath, argv, { cwd: ROOT, env }, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    );
  });
}

/** The version that serves; empty: nobody does. */
function serving(port: number): Promise<string> {
  return new Promise((resolve) => {
    const request = get({ port, agent: false }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () => resolve(text.trim()));
    });
    request.on('error', () => resolve(''));
  });
}

engineSuite('a script that is run again for each version', (engine) => {
  const made: string[] = [];
  afterEach(async () => {
    for (const service of made.splice(0)) {
      for (const { Id } of await remains(service)) await engine.docker.getContainer(Id).remove({ force: true });
    }
  });

  async function remains(service: string) {
    const all = await engine.docker.listContainers({ all: true, filters: { label: ['handover.alloc'] } });
    return all.filter(({ Labels }) => Labels['handover.alloc']?.startsWith(`${service}-`));
  }

  async function fixture() {
    const [name, service, port] = [uniqueName('deploy'), uniqueName('web'), await freePort()];
    made.push(service);
    for (const tag of ['v1', 'v2', 'v3']) await engine.pushImage({ name, tag });
    return { service, port, image: `127.0.0.1:${engine.registry.port}/${name}` };
  }

  it('examples/deploy: each tag takes over from the one before; what is wrong, or there already, changes nothing', async () => {
    const { service, port, image } = await fixture();
    const seen: unknown[] = [];
    for (const tag of ['v1', 'v2', 'v2', 'typo', 'v3', 'v2']) {
      const args = ['--service', service, '--image', image, '--port', `${port}:8080`, tag];
      const { code } = await run(engine, 'examples/deploy/deploy.ts', ...args);
      const containers = (await remains(service)).map(({ Labels }) => Labels['handover.alloc']);
      seen.push({ tag, code, serves: await serving(port), containers });
    }
    const there = (tag: string): object => ({ serves: tag, containers: [`${service}-${tag}`] });
    expect(seen).toEqual([
      { tag: 'v1', code: 0, ...there('v1') },
      { tag: 'v2', code: 0, ...there('v2') },
      { tag: 'v2', code: 0, ...there('v2') },
      { tag: 'typo', code: 3, ...there('v2') },
      { tag: 'v3', code: 0, ...there('v3') },
      { tag: 'v2', code: 0, ...there('v2') },
    ]);
  });

  it('README: its script works the first time, the second time, and after a wrong tag', async () => {
    const { service, port, image } = await fixture();
    const [, code = ''] = /^```ts\n([^]*?)^```$/m.exec(await readFile(`${ROOT}README.md`, 'utf8')) ?? [];
    const script = code
      .replaceAll('web-', `${service}-`)
      .replace('`app:${tag}`', `\`${image}:\${tag}\``)
      .replace('host: 80 ', `host: ${port} `);
    const path = `.cache/${service}.mts`;
    await mkdir(`${ROOT}.cache`, { recursive: true });
    await writeFile(`${ROOT}${path}`, script);
    try {
      const seen: unknown[] = [];
      for (const tag of ['v1', 'v2', 'typo', 'v3']) {
        const { stdout } = await run(engine, path, tag);
        seen.push({ tag, outcome: stdout.split(' ')[0], serves: await serving(port) });
      }
      expect(seen).toEqual([
        { tag: 'v1', outcome: 'replaced', serves: 'v1' },
        { tag: 'v2', outcome: 'replaced', serves: 'v2' },
        { tag: 'typo', outcome: 'kept-previous', serves: 'v2' },
        { tag: 'v3', outcome: 'replaced', serves: 'v3' },
      ]);
    } finally {
      await rm(`${ROOT}${path}`, { force: true });
    }
  });
});
