import { execFileSync } from 'node:child_process';
import { ImageCoordinator, isHandoverError, type PrestartContext } from 'handover';
import { DockerDriver, dockerImages, type DockerSpec } from 'handover/docker';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Names, SPEC_CASES } from '../docker/spec-cases.js';
import { engineSuite, freePort, uniqueName } from './harness/index.js';

engineSuite('DockerSpec on a real engine', (real) => {
  const name = uniqueName('spec');
  const names: Names = { networks: [uniqueName('front'), uniqueName('back')], volume: uniqueName('data') };
  const of = <T>(given: T | ((names: Names) => T)): T =>
    typeof given === 'function' ? (given as (names: Names) => T)(names) : given;
  const images = new ImageCoordinator({ source: dockerImages(real.docker), removal: { enabled: false } });
  const driver = new DockerDriver({ docker: real.docker, images });
  let image: string;

  beforeAll(async () => {
    await real.pushImage({ name, tag: 'v1' });
    image = `127.0.0.1:${real.registry.port}/${name}:v1`;
    const [front, back] = names.networks;
    await real.docker.createNetwork({ Name: front, IPAM: { Config: [{ Subnet: '10.213.7.0/24' }] } });
    await real.docker.createNetwork({ Name: back });
  });

  afterAll(async () => {
    const left = await real.docker.listContainers({ all: true, filters: { label: [`handover.image=${image}`] } });
    for (const c of left) await real.docker.getContainer(c.Id).remove({ force: true });
    for (const network of names.networks) await real.docker.getNetwork(network).remove();
    await real.docker
      .getVolume(names.volume)
      .remove()
      .catch(() => undefined);
    await real.docker.getImage(image).remove();
    expect(left).toEqual([]);
  });

  function ask(spec: Partial<DockerSpec>): PrestartContext<DockerSpec> {
    const allocId = uniqueName('alloc');
    const all = { image, ...spec };
    return { owner: `${allocId}/web`, allocId, task: 'web', spec: all, specHash: 'hash-1', report: () => {} };
  }

  async function prestart(spec: Partial<DockerSpec>) {
    const prepared = await driver.prestart(ask(spec));
    onTestFinished(() => prepared.discard());
    return prepared;
  }

  async function start(spec: Partial<DockerSpec>) {
    const handle = await driver.start(await prestart(spec), {});
    onTestFinished(async () => {
      await handle.kill({});
      await handle.wait({});
      await handle.destroy();
    });
    return handle;
  }

  it.each(SPEC_CASES)('DP-1 $field becomes what the engine says of the container', async ({ spec, says }) => {
    const { containerId } = await prestart(of(spec));
    expect(await real.docker.getContainer(containerId).inspect()).toMatchObject(of(says));
  });

  describe('what the program has of it', () => {
    /** Of the first process of the container. */
    async function processOf(containerId: string): Promise<number> {
      return (await real.docker.getContainer(containerId).inspect()).State.Pid;
    }

    it('user, limits, a root that cannot be written, no capabilities', async () => {
      const { state } = await start({
        user: '1234:2345',
        readOnly: true,
        capabilities: { drop: ['ALL'] },
        resources: { ulimits: { nofile: { soft: 77, hard: 78 } } },
        tmpfs: { '/tmp': 'size=64k' },
      });
      const pid = await processOf(state.containerId);
      const read = (file: string): string => execFileSync('cat', [`/proc/${pid}/${file}`], { encoding: 'utf8' });
      expect(read('status')).toMatch(/^Uid:\s1234\s/m);
      expect(read('status')).toMatch(/^Gid:\s2345\s/m);
      expect(read('status')).toMatch(/^CapBnd:\s0+$/m);
      expect(read('limits')).toMatch(/^Max open files\s+77\s+78\s/m);
      expect(read('mounts')).toMatch(/^\S+ \/ overlay ro,/m);
      expect(read('mounts')).toMatch(/^tmpfs \/tmp tmpfs .*size=64k/m);
    });

    it('an init in front, and the stop signal of the spec', async () => {
      const handle = await start({ init: true, stopSignal: 'SIGINT' });
      expect(handle.stopSignal).toBe('SIGINT');
      const pid = await processOf(handle.state.containerId);
      expect(execFileSync('cat', [`/proc/${pid}/comm`], { encoding: 'utf8' })).toMatch(/init/);
    });

    it('DP-7 the network of the host: the program is reached at its own port', async () => {
      const port = await freePort();
      const { endpoints } = await start({
        networks: 'host',
        env: { PORT: String(port) },
        ports: { http: { container: port } },
      });
      expect(endpoints).toEqual({ http: { address: '127.0.0.1', port } });
      await expect
        .poll(() =>
          fetch(`http://127.0.0.1:${port}/`).then(
            (r) => r.status,
            () => 0,
          ),
        )
        .toBe(200);
    });

    it('a port on one address, and the same number on another and by another protocol', async () => {
      const port = await freePort();
      const on = (address: string, protocol: 'tcp' | 'udp' = 'tcp') =>
        start({ ports: { http: { container: 8080, host: port, address, protocol } } });
      for (const { endpoints } of [await on('127.0.0.1'), await on('127.0.0.2'), await on('127.0.0.1', 'udp')]) {
        expect(endpoints['http']).toMatchObject({ port });
      }
      expect((await on('127.0.0.3')).endpoints['http']).toEqual({ address: '127.0.0.3', port });
    });

    it('several networks, an address and a name in each of them', async () => {
      const [front, back] = names.networks;
      const { state } = await start({ networks: { [front]: { address: '10.213.7.77' }, [back]: { aliases: ['db'] } } });
      const { Networks } = (await real.docker.getContainer(state.containerId).inspect()).NetworkSettings;
      expect(Networks[front]?.IPAddress).toBe('10.213.7.77');
      expect(Networks[back]?.IPAddress).not.toBe('');
    });
  });

  it('DP-2 a leftover that was made is put again into the networks of its spec, and one that ran too', async () => {
    const [front, back] = names.networks;
    const asked = ask({ networks: { [front]: {}, [back]: { aliases: ['db'] } } });
    const again = (): DockerDriver => new DockerDriver({ docker: real.docker, images });
    const { containerId } = await driver.prestart(asked);
    onTestFinished(() => real.docker.getContainer(containerId).remove({ force: true }));
    const second = again();
    const adopted = await second.prestart(asked);
    expect(adopted.containerId).toBe(containerId);
    const handle = await second.start(adopted, {});
    await handle.kill({});
    await handle.wait({});
    const ran = await again().prestart(asked);
    expect(ran.containerId).toBe(containerId);
    const { Networks } = (await real.docker.getContainer(containerId).inspect()).NetworkSettings;
    expect(Object.keys(Networks).sort()).toEqual([back, front].sort());
  });

  it('DP-1 a bind whose source is not there is refused by the prestart, in the engine’s words', async () => {
    const mounts = [{ type: 'bind', source: '/no/such/place', target: '/x' }] as const;
    const error: unknown = await driver.prestart(ask({ mounts })).catch((reason: unknown) => reason);
    expect(isHandoverError(error, 'ERR_DRIVER') && error.message).toContain('/no/such/place');
  });

  it('DP-1 a named volume stays when what was prepared is discarded', async () => {
    const prepared = await driver.prestart(ask({ mounts: [{ type: 'volume', source: names.volume, target: '/d' }] }));
    await prepared.discard();
    expect(await real.docker.getVolume(names.volume).inspect()).toMatchObject({ Name: names.volume });
  });
});
