import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { fileURLToPath } from 'node:url';
import { AllocLifecycle, ImageCoordinator } from 'handover';
import { DockerDriver, dockerImages } from 'handover/docker';
import { afterEach, expect, it } from 'vitest';
import { type RealEngine, engineSuite, freePort, uniqueName } from './harness/index.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** @param killAt - once its output has this in it, the script is killed */
function run(engine: RealEngine, script: string, args: readonly string[], killAt?: string): Promise<Ended> {
  const env = { ...process.env, DOCKER_HOST: `unix://${engine.socketPath}` };
  return new Promise((resolve) => {
    const argv = ['--import', 'tsx', script, ...args];
    const child = execFile(process.execPath, argv, { cwd: ROOT, env }, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    );
    let text = '';
    child.stdout?.on('data', (chunk: string) => {
      text += chunk;
      if (killAt !== undefined && text.includes(killAt)) child.kill('SIGKILL');
    });
  });
}

/** The version that serves; empty: nobody does, or not well. */
function serving(port: number): Promise<string> {
  return new Promise((resolve) => {
    const request = get({ port, path: '/health', agent: false }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () => resolve(response.statusCode === 200 ? text.trim() : ''));
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
    return all.filter(({ Labels }) => Labels['handover.alloc']?.startsWith(`${service}~`));
  }

  /** `vbad` runs and is never healthy. */
  async function fixture() {
    const [name, service, port] = [uniqueName('deploy'), uniqueName('web'), await freePort()];
    made.push(service);
    for (const tag of ['v1', 'v2', 'v3']) await engine.pushImage({ name, tag });
    await engine.pushImage({ name, tag: 'vbad', env: { HEALTHY_AFTER_MS: '-1' } });
    const image = `127.0.0.1:${engine.registry.port}/${name}`;
    const flags = ['--service', service, '--image', image, '--port', `${port}:8080`, '--path', '/health'];
    const deploy = async (tag: string, killAt?: string) => {
      const args = [...flags, '--deadline', '5s', tag];
      const { code, stdout } = await run(engine, 'examples/deploy/deploy.ts', args, killAt);
      const containers = (await remains(service)).map(({ Labels }) => Labels['handover.alloc']?.split('~')[1]);
      return { tag, code, last: stdout.trimEnd().split('\n').at(-1), serves: await serving(port), containers };
    };
    return { service, port, image, deploy };
  }

  it('examples/deploy: each tag takes over from the one before; what is wrong, or there already, changes nothing', async () => {
    const { deploy } = await fixture();
    const seen: unknown[] = [];
    for (const tag of ['v1', 'v2', 'v2', 'typo', 'v3', 'v2']) seen.push(await deploy(tag));
    const there = (tag: string): object => ({ serves: tag, containers: [tag] });
    const swapped: unknown = expect.stringMatching(/^replaced: out of service for \d+ ms$/);
    expect(seen).toEqual([
      { tag: 'v1', code: 0, last: 'replaced', ...there('v1') },
      { tag: 'v2', code: 0, last: swapped, ...there('v2') },
      { tag: 'v2', code: 0, last: expect.stringMatching(/~v2 serves$/) as unknown, ...there('v2') },
      { tag: 'typo', code: 3, last: expect.stringContaining('kept-previous: ') as unknown, ...there('v2') },
      { tag: 'v3', code: 0, last: swapped, ...there('v3') },
      { tag: 'v2', code: 0, last: swapped, ...there('v2') },
    ]);
  });

  it('examples/deploy: killed in mid-swap and run again, it says what serves and not only what runs', async () => {
    const { deploy } = await fixture();
    await deploy('v1');

    await deploy('v2', '~v2 running');
    expect(await deploy('v2')).toMatchObject({ code: 0, serves: 'v2', containers: ['v2'] });

    await deploy('vbad', '~vbad running');
    expect(await deploy('vbad')).toMatchObject({ code: 1, serves: '' });
    // Nobody served before, so there is no time to tell.
    expect(await deploy('v2')).toEqual({ tag: 'v2', code: 0, last: 'replaced', serves: 'v2', containers: ['v2'] });
  });

  it('examples/deploy: of two that run, the wanted one stays, or else the newest; the other is stopped', async () => {
    const { service, image, deploy } = await fixture();
    const images = new ImageCoordinator({ source: dockerImages(engine.docker) });
    const driver = new DockerDriver({ docker: engine.docker, images });
    async function besides(tag: string): Promise<void> {
      const spec = { image: `${image}:${tag}`, ports: { http: { container: 8080, host: await freePort() } } };
      const alloc = new AllocLifecycle({ id: `${service}~${tag}`, tasks: [{ name: 'main', driver, spec }] });
      await alloc.start();
      await alloc.detach();
    }
    await deploy('v1');
    await besides('v2');
    expect(await deploy('v1')).toMatchObject({ code: 0, serves: 'v1', containers: ['v1'] });

    await besides('vbad');
    expect(await deploy('v3')).toMatchObject({ code: 0, serves: 'v3', containers: ['v3'] });
    await images.close();
  });

  it('examples/deploy: a service whose name begins like this one has versions of its own', async () => {
    const { deploy, service, image } = await fixture();
    await deploy('v1');
    const name = `${service}-api`;
    made.push(name);
    const args = ['--service', name, '--image', image, '--port', `${await freePort()}:8080`, 'v1'];
    expect((await run(engine, 'examples/deploy/deploy.ts', args)).code).toBe(0);
    expect(await deploy('v2')).toMatchObject({ code: 0, serves: 'v2', containers: ['v2'] });
    expect(await remains(name)).toHaveLength(1);
  });

  it.each([
    { args: ['--nope', 'v1'], problem: /--nope/ },
    { args: ['--image', 'a', '--port', '99999:8080', 'v1'], problem: /--port/ },
    { args: ['--image', 'a', '--port', '0:0', 'v1'], problem: /--port/ },
    { args: ['--image', 'a', '--port', '80', 'v1'], problem: /--port/ },
    { args: ['--image', 'a', '--port', '80:80', 'v1', 'v2'], problem: /One TAG/ },
    { args: ['--image', 'a', '--port', '80:80'], problem: /One TAG/ },
    { args: ['--image', 'a', '--port', '80:80', '--service', 'a~b', 'v1'], problem: /--service/ },
    { args: ['--port', '80:80', 'v1'], problem: /--image/ },
  ])('examples/deploy $args: one line and the help, exit code 2', async ({ args, problem }) => {
    const { code, stdout, stderr } = await run(engine, 'examples/deploy/deploy.ts', args);
    const [line = '', empty, help] = stderr.split('\n');
    expect({ code, stdout, empty, help }).toEqual({
      ...{ code: 2, stdout: '', empty: '' },
      help: expect.stringMatching(/^deploy\.ts .*TAG$/) as unknown,
    });
    expect(line).toMatch(problem);
  });

  it.each([
    { args: ['--path', 'x', 'v1'], problem: /path/ },
    { args: ['--deadline', 'soon', 'v1'], problem: /healthyDeadline/ },
    { args: ['a b'], problem: /id/ },
  ])('examples/deploy $args: what the library refuses is one line, exit code 2', async ({ args, problem }) => {
    const all = ['--image', 'a', '--port', '80:80', ...args];
    const { code, stdout, stderr } = await run(engine, 'examples/deploy/deploy.ts', all);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^.+\n$/);
    expect(stderr).toMatch(problem);
  });

  it(
    'README: its script works the first time, the second time, and after a wrong tag',
    { timeout: 300_000 },
    async () => {
      const { service, port, image } = await fixture();
      const [, code = ''] = /^```ts\n([^]*?)^```$/m.exec(await readFile(`${ROOT}README.md`, 'utf8')) ?? [];
      const script = code
        .replaceAll('web~', `${service}~`)
        .replace('`app:${tag}`', `\`${image}:\${tag}\``)
        .replace('host: 80 ', `host: ${port} `);
      const path = `.cache/${service}.mts`;
      await mkdir(`${ROOT}.cache`, { recursive: true });
      await writeFile(`${ROOT}${path}`, script);
      try {
        const seen: unknown[] = [];
        for (const tag of ['v1', 'v2', 'v2', 'typo', 'a b', 'v3']) {
          const { code, stdout, stderr } = await run(engine, path, [tag]);
          // What it could not even begin is one line, without a stack.
          const told = stdout === '' ? stderr.trimEnd() : stdout.split(' ')[0];
          seen.push({ tag, code, told, serves: await serving(port) });
        }
        expect(seen).toEqual([
          { tag: 'v1', code: 0, told: 'replaced', serves: 'v1' },
          { tag: 'v2', code: 0, told: 'replaced', serves: 'v2' },
          { tag: 'v2', code: 1, told: expect.stringMatching(/^.*is also the id of.*$/) as unknown, serves: 'v2' },
          { tag: 'typo', code: 1, told: 'kept-previous', serves: 'v2' },
          { tag: 'a b', code: 1, told: expect.stringMatching(/^.*\bid\b.*$/) as unknown, serves: 'v2' },
          { tag: 'v3', code: 0, told: 'replaced', serves: 'v3' },
        ]);
      } finally {
        await rm(`${ROOT}${path}`, { force: true });
      }
    },
  );
});
