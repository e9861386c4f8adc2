import Docker from 'dockerode';
import { ImageCoordinator, type PrestartContext, type TaskHandle } from 'handover';
import {
  DockerDriver,
  type DockerImage,
  dockerImages,
  type DockerSpec,
  type DockerState,
  dockerTarget,
} from 'handover/docker';
import { describeTaskDriver } from 'handover/testing';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { engineSuite, freePort, type RealEngine, uniqueName } from './harness/index.js';

type Handle = TaskHandle<DockerState>;

function driverOn(docker: Docker): { driver: DockerDriver; images: ImageCoordinator<DockerImage> } {
  // Several coordinators share this engine, which they must not do when they remove: one would take another's image.
  const images = new ImageCoordinator({ source: dockerImages(docker), removal: { enabled: false } });
  return { driver: new DockerDriver({ docker, images }), images };
}

function ask(spec: DockerSpec, allocId = uniqueName('alloc'), specHash = 'hash-1'): PrestartContext<DockerSpec> {
  return { owner: `${allocId}/web`, allocId, task: 'web', spec, specHash, report: () => {} };
}

/** Waits until the program in the container has set up its signal handlers, which it says by a line. */
async function listening(docker: Docker, containerId: string): Promise<void> {
  const logs = await docker.getContainer(containerId).logs({ follow: true, stdout: true });
  for await (const chunk of logs) if (String(chunk).includes('listening')) return;
}

engineSuite('DockerDriver on a real engine', (real) => {
  const name = uniqueName('driver');
  let image: string;

  beforeAll(async () => {
    await real.pushImage({ name, tag: 'v1' });
    image = `127.0.0.1:${real.registry.port}/${name}:v1`;
  });

  afterAll(async () => {
    const left = await real.docker.listContainers({ all: true, filters: { label: [`handover.image=${image}`] } });
    for (const c of left) await real.docker.getContainer(c.Id).remove({ force: true });
    await real.docker
      .getImage(image)
      .remove()
      .catch(() => undefined);
    expect(left.map((c) => c.Names)).toEqual([]);
  });

  async function start(docker: Docker, spec: Partial<DockerSpec> = {}): Promise<Handle> {
    const { driver } = driverOn(docker);
    const prepared = await driver.prestart(ask({ image, ...spec }));
    const handle = await driver.start(prepared, {});
    onTestFinished(async () => {
      await real.docker
        .getContainer(prepared.containerId)
        .remove({ force: true })
        .catch(() => undefined);
    });
    await listening(real.docker, prepared.containerId);
    return handle;
  }

  suite(real, () => image);

  it('DP-2 DP-8 labels come back, and content is what that task had, though its tag has moved on', async () => {
    const own = uniqueName('content');
    await real.pushImage({ name: own, tag: 'v1', version: 'old' });
    const reference = `127.0.0.1:${real.registry.port}/${own}:v1`;
    const { driver } = driverOn(real.docker);
    const labels = { 'handover.stop': '{}', shift: 'night' };
    const first = await driver.prestart({ ...ask({ image: reference }), labels });
    const listed = (await driver.list({})).filter(({ state }) => state.containerId === first.containerId);
    expect(listed).toMatchObject([{ started: false, labels }]);
    const { containerId, imageId } = first;
    await first.discard();
    await real.pushImage({ name: own, tag: 'v1', version: 'new' });
    const moved = await driver.prestart(ask({ image: reference, pull: 'always' }));
    expect(moved.imageId).not.toBe(imageId);
    await moved.discard();
    const content = { containerId, imageId, reference };
    const again = await driver.prestart({ ...ask({ image: reference, pull: 'always' }), content });
    expect((await real.docker.getContainer(again.containerId).inspect()).Image).toBe(imageId);
    await again.discard();
    for (const id of [imageId, moved.imageId]) await real.docker.getImage(id).remove({ force: true });
  });

  it('DP-1 DP-6 DP-8 a whole life: pulled, created pinned, started, answering, stopped, nothing left', async () => {
    const own = uniqueName('life');
    const { digest } = await real.pushImage({ name: own, tag: 'v1' });
    const reference = `127.0.0.1:${real.registry.port}/${own}:v1`;
    const { driver, images } = driverOn(real.docker);
    const prepared = await driver.prestart(ask({ image: reference, ports: { http: { container: 8080 } } }));
    const created = await real.docker.getContainer(prepared.containerId).inspect();
    expect(created).toMatchObject({ State: { Status: 'created' }, Image: prepared.imageId });
    expect(created.Config.Image).toBe(`${reference}@${digest}`);
    const handle = await driver.start(prepared, {});
    await listening(real.docker, prepared.containerId);
    const { address, port } = handle.endpoints['http']!;
    expect(await (await fetch(`http://${address}:${port}/`)).text()).toContain('v1');
    await handle.signal('SIGTERM', {});
    expect(await handle.wait({})).toMatchObject({ code: 0, signal: null, oom: false, by: 'signal' });
    await handle.destroy();
    await images.close();
    expect(await driver.recover(handle.state, { owner: handle.id })).toBeUndefined();
    await real.docker
      .getImage(reference)
      .remove()
      .catch(() => undefined);
  });

  it('S47 S49 two allocs with one fixed port and name: both are prepared, the second starts after the first', async () => {
    const host = await freePort();
    const spec = { image, name: uniqueName('fixed'), ports: { http: { container: 8080, host } } };
    const { driver } = driverOn(real.docker);
    const a = await driver.start(await driver.prestart(ask(spec)), {});
    const prepared = await driver.prestart(ask(spec));
    await expect(driver.start(prepared, {})).rejects.toMatchObject({ code: 'ERR_NAME_TAKEN' });
    await a.kill({});
    expect(await a.wait({})).toMatchObject({ by: 'kill', signal: 'SIGKILL', code: null });
    const b = await driver.start(prepared, {});
    expect((await real.docker.getContainer(spec.name).inspect()).Id).toBe(b.state.containerId);
    await b.kill({});
    await b.wait({});
    await a.destroy();
    await b.destroy();
  });

  it.each([
    { spelt: (port: number) => `${port}-${port}`, why: 'a range of one' },
    { spelt: (port: number) => `0${port}`, why: 'a leading zero' },
  ])('DP-7 $why is the fixed port that the driver takes it for', async ({ spelt }) => {
    const port = await freePort();
    const create = { HostConfig: { PortBindings: { '8080/tcp': [{ HostPort: spelt(port) }] } } };
    expect(driverOn(real.docker).driver.exclusive({ image, create })).toMatchObject([{ key: `${port}/tcp` }]);
    const a = await start(real.docker, { ports: { http: { container: 8080 } }, create });
    expect(a.endpoints['http']).toMatchObject({ port });
    await a.kill({});
    await a.wait({});
    await a.destroy();
  });

  it('S49 a port that is taken fails the start with the engine’s words; discard clears it away', async () => {
    const host = await freePort();
    const a = await start(real.docker, { ports: { http: { container: 8080, host } } });
    const { driver } = driverOn(real.docker);
    const prepared = await driver.prestart(ask({ image, ports: { http: { container: 8080, host } } }));
    await expect(driver.start(prepared, {})).rejects.toMatchObject({
      code: 'ERR_START_FAILED',
      message: expect.stringMatching(/port is already allocated|address already in use/) as string,
    });
    await prepared.discard();
    await a.kill({});
    await a.wait({});
    await a.destroy();
  });

  it('S49 a network that is not there, and a port that a foreign container holds, are told at the prestart', async () => {
    const { driver } = driverOn(real.docker);
    const network = uniqueName('network');
    const refused = driver.prestart(ask({ image, create: { HostConfig: { NetworkMode: network } } }));
    await expect(refused).rejects.toMatchObject({ code: 'ERR_DRIVER', details: { operation: 'prestart', network } });
    const host = await freePort();
    const foreign = await real.docker.createContainer({
      Image: (await driver.prestart(ask({ image }, network))).imageId,
      ExposedPorts: { '8080/tcp': {} },
      HostConfig: { PortBindings: { '8080/tcp': [{ HostIp: '127.0.0.1', HostPort: `${host}` }] } },
      Labels: { 'handover.image': image },
    });
    onTestFinished(() => foreign.remove({ force: true }) as Promise<void>);
    await foreign.start();
    const taken = driver.prestart(ask({ image, ports: { http: { container: 8080, host } } }));
    await expect(taken).rejects.toMatchObject({ details: { port: `${host}/tcp`, by: foreign.id.slice(0, 12) } });
    const [left] = (await driver.list({})).filter(({ allocId }) => allocId === network);
    expect(left).toMatchObject({ started: false });
    await (await driver.recover(left!.state, { owner: `${network}/web` }))!.destroy();
  });

  it('DP-7 ports of the raw options are published, and null there says nothing', async () => {
    const [host, udp] = [await freePort(), await freePort()];
    const handle = await start(real.docker, {
      ports: { http: { container: 8080, host } },
      create: { HostConfig: { PortBindings: { '53/udp': [{ HostPort: `${udp}` }], '8080/tcp': null }, Memory: null } },
    });
    expect(handle.endpoints).toEqual({ http: { address: '127.0.0.1', port: host } });
    const { NetworkSettings } = await real.docker.getContainer(handle.state.containerId).inspect();
    expect(NetworkSettings.Ports['53/udp']?.[0]).toMatchObject({ HostPort: `${udp}` });
    await handle.kill({});
    await handle.wait({});
    await handle.destroy();
  });

  it('S49 a command that is not there fails the start; discard clears it away', async () => {
    const { driver } = driverOn(real.docker);
    const prepared = await driver.prestart(ask({ image, command: ['/bin/nope'] }));
    await expect(driver.start(prepared, {})).rejects.toMatchObject({ code: 'ERR_START_FAILED' });
    await prepared.discard();
  });

  it('case C38 a container with policy always stays down after disarm and SIGTERM', async () => {
    const handle = await start(real.docker, { create: { StopSignal: 'SIGQUIT' } });
    await real.docker.getContainer(handle.state.containerId).update({ RestartPolicy: { Name: 'always' } });
    await handle.disarm!({});
    await handle.signal('SIGTERM', {});
    expect(await handle.wait({})).toMatchObject({ by: 'signal' });
    expect(await handle.isRunning({})).toBe(false);
    await handle.destroy();
  });

  it('DP-8 a container that is restarted by hand, or by a policy, has not ended', async () => {
    const handle = await start(real.docker);
    const c = real.docker.getContainer(handle.state.containerId);
    const wait = handle.wait({});
    await c.restart({ t: 0 });
    await listening(real.docker, c.id);
    expect(await handle.isRunning({})).toBe(true);
    await c.update({ RestartPolicy: { Name: 'always' } });
    const { State } = await c.inspect();
    process.kill(State.Pid, 'SIGKILL');
    await expect.poll(async () => (await c.inspect()).State.Pid, { timeout: 10_000 }).not.toBe(State.Pid);
    await handle.disarm!({});
    await handle.signal('SIGKILL', {});
    expect(await wait).toMatchObject({ by: 'kill', signal: 'SIGKILL' });
    expect(await handle.isRunning({})).toBe(false);
    await handle.destroy();
  });

  it('S72 a paused container is thawed by disarm and frozen again by rearm', async () => {
    const handle = await start(real.docker);
    const c = real.docker.getContainer(handle.state.containerId);
    await c.pause();
    await handle.disarm!({});
    expect((await c.inspect()).State.Paused).toBe(false);
    await handle.rearm!({});
    expect((await c.inspect()).State.Paused).toBe(true);
    await handle.disarm!({});
    await handle.signal('SIGTERM', {});
    expect(await handle.wait({})).toMatchObject({ code: 0, by: 'signal' });
    await handle.destroy();
  });

  it('case C39 a quick exit tells its code', async () => {
    const { driver } = driverOn(real.docker);
    const env = { EXIT_AFTER_MS: '1', EXIT_CODE: '5' };
    const handle = await driver.start(await driver.prestart(ask({ image, env })), {});
    expect(await handle.wait({})).toMatchObject({ code: 5, by: 'self' });
    await handle.destroy();
  });

  it('case C41 a wait whose answer is cut looks for itself', async () => {
    const proxy = await real.engineProxy();
    proxy.on(/condition=next-exit/, { cutAfterBytes: 0 });
    const handle = await start(new Docker({ socketPath: proxy.socketPath }));
    await handle.signal('SIGTERM', {});
    expect(await handle.wait({})).toMatchObject({ code: 0, by: 'signal' });
    await handle.destroy();
  });

  it('G-8 answers of create and start that are lost: one container, started once', async () => {
    const proxy = await real.engineProxy();
    proxy.on('POST /containers/create', { drop: 'after' }, { times: 1 });
    proxy.on(/\/start$/, { drop: 'after' }, { times: 1 });
    const handle = await start(new Docker({ socketPath: proxy.socketPath }));
    expect(proxy.sequence.filter((call) => call.endsWith('/start'))).toHaveLength(1);
    const { driver } = driverOn(real.docker);
    const mine = (await driver.list({})).filter(({ state }) => state.containerId === handle.state.containerId);
    expect(mine).toMatchObject([{ started: true, specHash: 'hash-1' }]);
    await handle.kill({});
    await handle.wait({});
    await handle.destroy();
  });

  it('DP-8 another process finds it again and stops it as an operator’s container', async () => {
    const handle = await start(real.docker);
    const state = JSON.parse(JSON.stringify(handle.state)) as DockerState;
    const found = await driverOn(real.docker).driver.recover(state, { owner: handle.id });
    expect(found).toMatchObject({ id: handle.id, state });
    const target = dockerTarget(real.docker, state.containerId);
    await target.signal('TERM', {});
    expect(await target.wait({})).toMatchObject({ code: 0, by: 'signal' });
    expect(await found!.wait({})).toMatchObject({ code: 0, by: 'self' });
    await found!.destroy();
    await handle.destroy();
  });
});

function suite(real: RealEngine, image: () => string): void {
  const withEnv = (env: Readonly<Record<string, string>>): DockerSpec => ({ image: image(), env });
  const fresh = async (): Promise<DockerDriver> => driverOn(real.docker).driver;
  describeTaskDriver<DockerSpec>('DockerDriver', {
    runner: { describe, it },
    make: fresh,
    again: fresh,
    ready: (handle) => listening(real.docker, (handle.state as DockerState).containerId),
    spec: (version) => withEnv({ VERSION: version }),
    exiting: () => withEnv({ EXIT_AFTER_MS: '20', EXIT_CODE: '3' }),
    stubborn: () => withEnv({ IGNORE_TERM: '1' }),
    speaking: () => ({ ...withEnv({}), command: ['/bin/app', 'do', 'out\n', 'err\n', '0', '60000'] }),
    command: (code) => ['/bin/app', 'do', 'ran\n', '', String(code), '0'],
    async vanish(owner) {
      const label = [`handover.alloc=${owner.split('/')[0]}`];
      const found = await real.docker.listContainers({ all: true, filters: { label } });
      for (const c of found) await real.docker.getContainer(c.Id).remove({ force: true });
    },
  });
}
