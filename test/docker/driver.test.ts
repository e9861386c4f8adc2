import { describe, expect, it } from 'vitest';
import { DockerDriver, dockerImages } from 'handover/docker';
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
      'GET /containers/a/json',
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
    const labels = { team: 'blue' };
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
        'handover.ports': '{"http":"8080/tcp","admin":"9000/tcp"}',
        'handover.labels': '[]',
      },
    });
  });

  it("raw create options are merged over the driver's own, but not over its labels", async () => {
    const b = await bench();
    const create = {
      Hostname: 'h',
      Labels: { mine: '1' },
      HostConfig: { Binds: ['data:/data'], Memory: 1_000 },
    };
    await b.driver.prestart(b.ask('a', { ports: { http: { container: 80 } }, create }));
    expect(b.engine.containers[0]?.body).toMatchObject({
      Hostname: 'h',
      Labels: { mine: '1', 'handover.hash': 'hash-1' },
      HostConfig: { ...create.HostConfig, RestartPolicy: { Name: 'no' }, PortBindings: { '80/tcp': [{}] } },
    });
  });

  it.each([
    { create: { HostConfig: null, Env: null, ExposedPorts: null }, why: 'null says nothing' },
    { create: { HostConfig: { PortBindings: null } }, why: 'null says nothing' },
    { create: { HostConfig: { PortBindings: { '80/tcp': null } } }, why: 'null says nothing' },
    { create: {}, why: 'nothing says nothing' },
  ])('G-2 $create drops no port and no variable: $why', async ({ create }) => {
    const b = await bench();
    const spec = { ports: { http: { container: 80, host: 8080 } }, env: { A: '1' }, create };
    const handle = await b.driver.start(await b.driver.prestart(b.ask('a', spec)), {});
    expect(handle.endpoints).toEqual({ http: { address: '127.0.0.1', port: 8080 } });
    expect(b.engine.containers[0]?.body).toMatchObject({ Env: ['A=1'], ExposedPorts: { '80/tcp': {} } });
  });

  it('DP-7 a port that only the raw options publish is exposed, or the engine would not publish it', async () => {
    const b = await bench();
    const create = { HostConfig: { PortBindings: { '53/udp': [{ HostPort: '5353' }] } } };
    await b.driver.start(await b.driver.prestart(b.ask('a', { create })), {});
    expect(b.engine.containers[0]?.ports).toEqual(new Map([['53/udp', 5353]]));
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

it('G-2 the constructor names the option at fault', async () => {
  const { docker, leases: images } = await bench();
  const refused: readonly [object, string][] = [
    [null as never, '(options)'],
    [[], '(options)'],
    [{ images }, 'docker'],
    [{ docker: {}, images }, 'docker'],
    [{ docker, images: null }, 'images'],
    [{ docker, images: {} }, 'images'],
    [{ docker, images, nmae: 'x' }, 'nmae'],
  ];
  for (const [options, path] of refused) {
    expect(() => new DockerDriver(options as never)).toThrow(expect.objectContaining({ details: { path } }));
  }
  expect(new DockerDriver({ docker, images, name: 'edge' }).name).toBe('edge');
});

it.each([null, undefined, 5, [], {}, { modem: null }])('G-2 dockerImages(%j) is refused', (docker) => {
  expect(() => dockerImages(docker as never)).toThrow(
    expect.objectContaining({ code: 'ERR_INVALID_OPTION', message: expect.stringContaining('docker') as string }),
  );
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

  it('DP-1 what was prepared and never started is listed as such, and can be removed without a registry', async () => {
    const b = await bench();
    await b.driver.prestart(b.ask('a'));
    b.leases.held.clear();
    const driver = b.again();
    const [left] = await driver.list({});
    expect(left).toMatchObject({ allocId: 'a', task: 'web', started: false });
    const before = b.engine.calls.length;
    const handle = await driver.recover(left!.state, { owner: 'a/web' });
    await handle!.destroy();
    expect(b.engine.calls.slice(before).some((call) => call.includes('/images/create'))).toBe(false);
    expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
  });

  it.each([null, {}, [], { containerId: '', imageId: 'x', reference: 'x' }, { containerId: 'x', imageId: 'x' }])(
    'G-2 %j is no state of a handle',
    async (state) => {
      const b = await bench();
      const error = await failure(b.driver.recover(state as never, { owner: 'a/web' }));
      expect(error).toMatchObject({ code: 'ERR_INVALID_OPTION' });
      expect(error.message).toMatch(/^Option state/);
      expect(b.calls()).toEqual([]);
    },
  );

  it.each([null, 5, 'x', [], { signal: {} }])('G-2 %j is no call of list(), recover() or start()', async (call) => {
    const b = await bench();
    const state = { containerId: 'x', imageId: 'x', reference: 'x' };
    const prepared = await b.driver.prestart(b.ask('a'));
    b.calls();
    for (const refused of [
      () => b.driver.list(call as never),
      () => b.driver.recover(state, call as never),
      () => b.driver.start(prepared, call as never),
    ]) {
      expect(await failure(refused())).toMatchObject({ code: 'ERR_INVALID_OPTION' });
    }
    expect(b.calls()).toEqual([]);
    await prepared.discard();
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
