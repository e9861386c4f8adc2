import { describe, expect, it } from 'vitest';
import { DockerDriver } from 'handover/docker';
import { bench, failure } from './driver-bench.js';

const LIST = 'GET /containers/json?all=1&filters={"label":["handover.alloc=a","handover.task=web"]}';

describe('the engine calls of a task that goes well', () => {
  it('DP-1 DP-5 prestart looks for leftovers, leases and creates, and starts nothing', async () => {
    const b = await bench();
    const prepared = await b.driver.prestart(b.ask('a'));
    expect(b.calls()).toEqual([LIST, expect.stringMatching(/^POST \/containers\/create\?name=a-web-[0-9a-f]{8}$/)]);
    expect(b.engine.running()).toEqual([]);
    expect(b.leases.held).toEqual(new Set(['a/web app:v1']));
    expect(prepared).toMatchObject({ owner: 'a/web', specHash: 'hash-1', reference: 'app:v1' });
    expect(prepared.imageId).toMatch(/^sha256:/);
  });

  it('DP-8 start opens next-exit before the start; a stop is a kill with the signal, never /stop', async () => {
    const b = await bench();
    const prepared = await b.driver.prestart(b.ask('a'));
    b.calls();
    const handle = await b.driver.start(prepared, {});
    expect(b.calls()).toEqual([
      'POST /containers/a/wait?condition=next-exit',
      'POST /containers/a/start',
      'GET /containers/a/json',
    ]);
    const wait = handle.wait({});
    await handle.disarm({});
    await handle.signal('SIGTERM', {});
    expect(await wait).toEqual({ code: 0, signal: null, oom: false, by: 'signal', at: b.clock.wall() });
    expect(await handle.isRunning({})).toBe(false);
    await handle.destroy();
    expect(b.calls()).toEqual([
      'GET /containers/a/json',
      'POST /containers/a/kill?signal=SIGTERM',
      'DELETE /containers/a?v=1&force=0',
    ]);
    expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
    expect(b.clock.pending).toBe(0);
  });

  it('DP-1 discard removes the container, never by force, and releases the image', async () => {
    const b = await bench();
    const prepared = await b.driver.prestart(b.ask('a'));
    b.calls();
    await prepared.discard();
    await prepared[Symbol.asyncDispose]();
    expect(b.calls()).toEqual(['DELETE /containers/a?v=1&force=0']);
    expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
    expect(await failure(b.driver.start(prepared, {}))).toMatchObject({ code: 'ERR_START_FAILED' });
  });

  it('DP-6 the container is made from the leased content, and says what it was made for', async () => {
    const b = await bench();
    const labels = { team: 'blue', 'handover.alloc': 'forged' };
    const spec = {
      command: ['serve', '--fast'],
      env: { TOKEN: 'a=b' },
      ports: { http: { container: 8080, host: 80 }, admin: { container: 9000 } },
      create: { Labels: labels },
    };
    const prepared = await b.driver.prestart(b.ask('a', spec));
    expect(b.engine.containers[0]?.body).toEqual({
      Image: prepared.imageId,
      Cmd: ['serve', '--fast'],
      Env: ['TOKEN=a=b'],
      ExposedPorts: { '8080/tcp': {}, '9000/tcp': {} },
      HostConfig: {
        RestartPolicy: { Name: 'no' },
        PortBindings: { '8080/tcp': [{ HostPort: '80' }], '9000/tcp': [{ HostPort: '' }] },
      },
      Labels: {
        team: 'blue',
        'handover.alloc': 'a',
        'handover.task': 'web',
        'handover.hash': 'hash-1',
        'handover.image': 'app:v1',
        'handover.ports': '{"http":8080,"admin":9000}',
      },
    });
  });

  it("raw create options are merged over the driver's own, but not over its labels", async () => {
    const b = await bench();
    const create = {
      Hostname: 'h',
      Labels: { mine: '1', 'handover.hash': 'forged' },
      HostConfig: { Binds: ['data:/data'], Memory: 1_000 },
    };
    await b.driver.prestart(b.ask('a', { ports: { http: { container: 80 } }, create }));
    expect(b.engine.containers[0]?.body).toMatchObject({
      Hostname: 'h',
      Labels: { mine: '1', 'handover.hash': 'hash-1' },
      HostConfig: { ...create.HostConfig, RestartPolicy: { Name: 'no' }, PortBindings: { '80/tcp': [{}] } },
    });
  });

  it('endpoints tell where each port is published', async () => {
    const b = await bench();
    const spec = { ports: { http: { container: 8080, host: 8081 }, admin: { container: 9000 } } };
    const handle = await b.driver.start(await b.driver.prestart(b.ask('a', spec)), {});
    expect(handle.endpoints).toEqual({
      http: { address: '127.0.0.1', port: 8081 },
      admin: { address: '127.0.0.1', port: 32_768 },
    });
    const recovered = await b.again().recover(handle.state, { owner: 'a/web' });
    expect(recovered?.endpoints).toEqual(handle.endpoints);
  });
});

describe('specs', () => {
  const driver = async () => (await bench()).driver;

  it.each([
    [{}, 'image'],
    [{ image: '' }, 'image'],
    [{ image: 'a', nmae: 'x' }, 'nmae'],
    [{ image: 'a', name: 'x' }, 'name'],
    [{ image: 'a', name: '-x' }, 'name'],
    [{ image: 'a', command: 'run' }, 'command'],
    [{ image: 'a', env: { A: 1 } }, 'env.A'],
    [{ image: 'a', env: { 'A=B': 'x' } }, 'env.A=B'],
    [{ image: 'a', pull: 'sometimes' }, 'pull'],
    [{ image: 'a', ports: { http: 80 } }, 'ports.http'],
    [{ image: 'a', ports: { http: { container: 0 } } }, 'ports.http.container'],
    [{ image: 'a', ports: { http: { container: 80, host: 65_536 } } }, 'ports.http.host'],
    [{ image: 'a', ports: { a: { container: 80 }, b: { container: 80 } } }, 'ports'],
    [{ image: 'a', create: { Image: 'b' } }, 'create'],
    [
      { image: 'a', create: { HostConfig: { RestartPolicy: { Name: 'always' } } } },
      'create.HostConfig.RestartPolicy.Name',
    ],
    [{ image: 'a', create: { HostConfig: { AutoRemove: true } } }, 'create.HostConfig.AutoRemove'],
    ['image', '(options)'],
  ])('G-2 %j is refused by the path %s', async (spec, path) => {
    const { parse } = await driver();
    expect(() => parse(spec)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }));
  });

  it('DP-7 the fixed name and the fixed host ports are exclusive, from the start on', async () => {
    const d = await driver();
    const ports = { http: { container: 80, host: 8080 }, free: { container: 81 } };
    expect(d.exclusive({ image: 'app', name: 'web', ports })).toEqual([
      { kind: 'port', key: '8080/tcp', scope: 'host', needed: 'start' },
      { kind: 'name', key: 'web', scope: 'host', needed: 'start' },
    ]);
    expect(d.exclusive({ image: 'app' })).toEqual([]);
  });

  it('DP-7 host ports of the raw options are exclusive too, as the engine will bind them', async () => {
    const d = await driver();
    const spec = d.parse({
      image: 'app',
      ports: { http: { container: 80, host: 8080 }, admin: { container: 81, host: 8081 } },
      create: {
        HostConfig: {
          PortBindings: {
            '81/tcp': [{ HostPort: '9081' }],
            '53/udp': [
              { HostIp: '127.0.0.1', HostPort: '53' },
              { HostIp: '::1', HostPort: '53' },
            ],
            '82/tcp': [{ HostPort: '' }, { HostPort: '0' }, { HostPort: '7000-7010' }, {}],
            '83': [{ HostPort: '9083' }],
            '84/tcp': null,
          },
        },
      },
    });
    expect(d.exclusive(spec).map(({ key }) => key)).toEqual(['9083/tcp', '8080/tcp', '9081/tcp', '53/udp']);
  });

  it.each([
    { HostConfig: null },
    { HostConfig: { RestartPolicy: null, AutoRemove: false } },
    { HostConfig: { RestartPolicy: { Name: 'no' } } },
    { HostConfig: { RestartPolicy: { Name: '' } } },
  ])('raw options that leave its life to the driver are taken as they are: %j', async (create) => {
    expect((await driver()).parse({ image: 'a', create })).toEqual({ image: 'a', create });
  });

  it('G-2 the constructor names the option at fault', async () => {
    const { docker, leases: images } = await bench();
    const refused: readonly [object, string][] = [
      [{ images }, 'docker'],
      [{ docker, images: {} }, 'images'],
      [{ docker, images, nmae: 'x' }, 'nmae'],
    ];
    for (const [options, path] of refused) {
      expect(() => new DockerDriver(options as never)).toThrow(expect.objectContaining({ details: { path } }));
    }
    expect(new DockerDriver({ docker, images, name: 'edge' }).name).toBe('edge');
  });
});

describe('DP-2 leftovers', () => {
  it('S45 the same spec adopts what an earlier process created, and asks no registry', async () => {
    const b = await bench();
    const { containerId } = await b.driver.prestart(b.ask('a'));
    const before = b.engine.calls.length;
    const adopted = await b.again().prestart(b.ask('a', { pull: 'always' }));
    expect(adopted.containerId).toBe(containerId);
    expect(b.engine.calls.slice(before).some((call) => call.includes('/images/create'))).toBe(false);
  });

  it('S45 another spec removes it first', async () => {
    const b = await bench();
    const { containerId } = await b.driver.prestart(b.ask('a'));
    b.calls();
    const next = await b.again().prestart(b.ask('a', {}, { specHash: 'hash-2' }));
    expect(next.containerId).not.toBe(containerId);
    expect(b.calls().slice(0, 3)).toEqual([
      LIST,
      'DELETE /containers/a?v=1&force=0',
      expect.stringMatching(/^POST \/containers\/create/),
    ]);
    expect(b.engine.containers).toHaveLength(1);
  });

  it.each(['running', 'paused', 'restarting'] as const)(
    'a %s one is not a leftover: refused, untouched',
    async (state) => {
      const b = await bench();
      await b.driver.prestart(b.ask('a'));
      b.engine.containers[0]!.state = state;
      const error = await failure(b.again().prestart(b.ask('a')));
      expect(error).toMatchObject({ code: 'ERR_DRIVER', details: { operation: 'prestart', owner: 'a/web' } });
      expect(b.engine.containers.map((c) => c.state)).toEqual([state]);
    },
  );

  it('S72 a dead one is removed, not adopted', async () => {
    const b = await bench();
    const { containerId } = await b.driver.prestart(b.ask('a'));
    b.engine.containers[0]!.state = 'dead';
    const next = await b.again().prestart(b.ask('a'));
    expect(next.containerId).not.toBe(containerId);
    expect(b.engine.containers).toHaveLength(1);
  });

  it('one whose image was deleted by force is replaced', async () => {
    const b = await bench();
    const { containerId } = await b.driver.prestart(b.ask('a'));
    b.engine.loseImage('app:v1');
    const next = await b.again().prestart(b.ask('a'));
    expect(next.containerId).not.toBe(containerId);
    expect(b.engine.containers).toHaveLength(1);
  });

  it('a container of another alloc is no leftover', async () => {
    const b = await bench();
    await b.driver.prestart(b.ask('a'));
    await b.driver.prestart(b.ask('b'));
    expect(await b.driver.list({})).toMatchObject([
      { allocId: 'a', task: 'web', specHash: 'hash-1', started: false, state: { reference: 'app:v1' } },
      { allocId: 'b', task: 'web', specHash: 'hash-1', started: false },
    ]);
  });
});

describe('fixed names', () => {
  const named = { name: 'web' };

  it('DP-7 a name is taken at the start, from our own container that has ended', async () => {
    const b = await bench();
    const a = await b.driver.start(await b.driver.prestart(b.ask('a', named)), {});
    const next = await b.driver.prestart(b.ask('b', named));
    await a.kill({});
    b.calls();
    await b.driver.start(next, {});
    expect(b.calls().slice(0, 5)).toEqual([
      'POST /containers/b/rename?name=web',
      'GET /containers/web/json',
      expect.stringMatching(/^POST \/containers\/a\/rename\?name=a-web-[0-9a-f]{8}$/),
      'POST /containers/b/rename?name=web',
      'POST /containers/b/wait?condition=next-exit',
    ]);
    expect(b.engine.running()).toEqual(['web']);
  });

  it('DP-7 while our own holder runs, the start is refused and nothing is lost', async () => {
    const b = await bench();
    await b.driver.start(await b.driver.prestart(b.ask('a', named)), {});
    const next = await b.driver.prestart(b.ask('b', named));
    const error = await failure(b.driver.start(next, {}));
    expect(error).toMatchObject({ code: 'ERR_NAME_TAKEN', details: { name: 'web', by: 'a/web' } });
    expect(b.engine.running()).toEqual(['web']);
    expect(await next.intact({})).toBe(true);
  });

  it('S46 a stranger that has the name is told before anything is made', async () => {
    const b = await bench();
    b.engine.put('other:v1');
    const stranger = b.engine.create('web', { Image: 'other:v1' });
    const error = await failure(b.driver.prestart(b.ask('a', named)));
    const by = stranger.id.slice(0, 12);
    expect(error).toMatchObject({ code: 'ERR_NAME_TAKEN', details: { name: 'web', by } });
    expect([b.engine.containers, b.leases.held]).toEqual([[stranger], new Set()]);
  });

  it('S46 a stranger that comes later is told at the start', async () => {
    const b = await bench();
    const prepared = await b.driver.prestart(b.ask('a', named));
    b.engine.create('web', { Image: 'app:v1' });
    expect(await failure(b.driver.start(prepared, {}))).toMatchObject({ code: 'ERR_NAME_TAKEN' });
    await prepared.discard();
    expect(b.engine.containers.map((c) => c.name)).toEqual(['web']);
  });

  it('DP-7 a holder that went away meanwhile is no holder', async () => {
    const b = await bench();
    const prepared = await b.driver.prestart(b.ask('a', named));
    const message = 'Conflict. The container name "/web" is already in use by container "136a920587be"';
    b.engine.fault({ path: /\/rename/ }, { status: 409, message });
    await b.driver.start(prepared, {});
    expect(b.engine.running()).toEqual(['web']);
  });

  it('a start that is repeated finds that it has the name', async () => {
    const b = await bench();
    const prepared = await b.driver.prestart(b.ask('a', named));
    b.engine.fault({ path: /\/start/ }, { status: 500, message: 'OCI runtime create failed: no such file' });
    await failure(b.driver.start(prepared, {}));
    expect(await (await b.driver.start(prepared, {})).isRunning({})).toBe(true);
  });

  it('case C42 names are ones that the engine takes, and unique to alloc, task and spec', async () => {
    const b = await bench();
    const allocs = ['web/1', 'web-1', 'web 1', '*', '**', '-é'];
    for (const alloc of allocs) await b.driver.prestart(b.ask(alloc));
    expect(b.engine.containers.map((c) => c.labels['handover.alloc'])).toEqual(allocs);
    const names = b.engine.containers.map((c) => c.name);
    expect(names).toEqual(['web-1-web', 'web-1-web', 'web-1-web', 'web', 'web', 'web'].map(withHash));
  });
});

describe('recover', () => {
  it('DP-8 finds the container again and leases its image, without a registry', async () => {
    const b = await bench();
    const handle = await b.driver.start(await b.driver.prestart(b.ask('a')), {});
    b.leases.held.clear();
    const state: unknown = JSON.parse(JSON.stringify(handle.state));
    const found = await b.again().recover(state as typeof handle.state, { owner: 'a/web' });
    expect(found).toMatchObject({ id: 'a/web', state: handle.state });
    expect(b.leases.held).toEqual(new Set(['a/web app:v1']));
    await found!.signal('SIGTERM', {});
    expect(await found!.wait({})).toMatchObject({ code: 0, by: 'signal' });
  });

  it('DP-1 recovered again in the same process it is the same handle: one lease, let go of once', async () => {
    const b = await bench();
    const handle = await b.driver.start(await b.driver.prestart(b.ask('a')), {});
    const driver = b.again();
    const recover = () => driver.recover(handle.state, { owner: 'a/web' });
    const [one, two] = await Promise.all([recover(), recover()]);
    expect(two).toBe(one);
    expect(await b.driver.recover(handle.state, { owner: 'a/web' })).toBe(handle);
    await handle.kill({});
    await handle.destroy();
    expect(await b.driver.recover(handle.state, { owner: 'a/web' })).toBeUndefined();
  });

  it('DP-8 one that is gone is undefined', async () => {
    const b = await bench();
    const handle = await b.driver.start(await b.driver.prestart(b.ask('a')), {});
    b.engine.remove(handle.state.containerId);
    expect(await b.driver.recover(handle.state, { owner: 'a/web' })).toBeUndefined();
  });

  it('DP-8 one whose image is gone can still be stopped and destroyed', async () => {
    const b = await bench();
    const handle = await b.driver.start(await b.driver.prestart(b.ask('a')), {});
    b.engine.loseImage('app:v1');
    const found = await b.again().recover(handle.state, { owner: 'a/web' });
    await found!.kill({});
    expect(await found!.wait({})).toMatchObject({ by: 'kill' });
    await found!.destroy();
    expect(b.engine.containers).toEqual([]);
  });
});

function withHash(readable: string): unknown {
  return expect.stringMatching(new RegExp(`^${readable}-[0-9a-f]{8}$`));
}
