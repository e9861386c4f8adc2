import type { ExclusiveResource } from 'handover';
import type { DockerSpec } from 'handover/docker';
import { describe, expect, it } from 'vitest';
import { specSchema } from '../../src/docker/spec-schema.js';
import { bytesOf } from '../../src/docker/spec-fields.js';
import { bench, failure, moving } from './driver-bench.js';
import { type Names, SPEC_CASES } from './spec-cases.js';

const NAMES: Names = { networks: ['front', 'back'], volume: 'data' };
const of = <T>(given: T | ((names: Names) => T)): T =>
  typeof given === 'function' ? (given as (names: Names) => T)(NAMES) : given;

describe('the fields of a spec', () => {
  it.each(SPEC_CASES)('DP-1 $field becomes what the engine says of the container', async ({ spec, says }) => {
    const b = await bench();
    for (const name of NAMES.networks) b.engine.network(name);
    const parsed = b.driver.parse({ image: 'app:v1', ...of(spec) });
    expect(b.driver.parse(JSON.parse(JSON.stringify(parsed)))).toEqual(parsed);
    const { containerId } = await b.driver.prestart(b.ask('a', of(spec)));
    expect(await b.docker.getContainer(containerId).inspect()).toMatchObject(of(says));
  });

  it('every field has a case', () => {
    const tested = SPEC_CASES.map(({ field }) => field.split('.')[0]);
    // These have tests of their own.
    const all = new Set([...tested, 'image', 'name', 'pull']);
    expect([...all].sort()).toEqual(Object.keys(specSchema.entries).sort());
  });

  it('an entrypoint of nothing takes that of the image away', async () => {
    const b = await bench();
    await b.driver.prestart(b.ask('a', { entrypoint: [], command: ['/bin/app'] }));
    expect(b.engine.containers[0]?.body).toMatchObject({ Entrypoint: [''], Cmd: ['/bin/app'] });
  });

  it('of a part that is given only what is given is sent', async () => {
    const b = await bench();
    const mounts = [{ type: 'volume', source: 'data', target: '/d' }] as const;
    await b.driver.prestart(b.ask('a', { healthcheck: { test: 'check' }, mounts, networks: { bridge: {} } }));
    const { Healthcheck, HostConfig, NetworkingConfig } = b.engine.containers[0]?.body ?? {};
    expect(Healthcheck).toEqual({ Test: ['CMD-SHELL', 'check'] });
    expect(HostConfig).toMatchObject({ Mounts: [{ Type: 'volume', Source: 'data', Target: '/d', ReadOnly: false }] });
    expect(NetworkingConfig).toEqual({ EndpointsConfig: { bridge: { Aliases: [] } } });
  });

  it('the stop signal of a spec is that of its handle, found again too', async () => {
    const b = await bench();
    const handle = await b.driver.start(await b.driver.prestart(b.ask('a', { stopSignal: 'SIGQUIT' })), {});
    const found = await b.again().recover(handle.state, { owner: 'a/web' });
    expect([handle.stopSignal, found?.stopSignal]).toEqual(['SIGQUIT', 'SIGQUIT']);
  });

  it('what is not given is not sent', async () => {
    const b = await bench();
    await b.driver.prestart(b.ask('a', { capabilities: {}, resources: {} }));
    const { Labels: _, Image: __, ...body } = b.engine.containers[0]?.body ?? {};
    expect(body).toEqual({ ExposedPorts: {}, HostConfig: { RestartPolicy: { Name: 'no' }, PortBindings: {} } });
  });
});

it('raw options beside fields that say nothing of them are taken', async () => {
  const { driver } = await bench();
  const spec = {
    image: 'a',
    resources: { memory: 1 },
    create: { User: null, HostConfig: { Memory: null, NanoCpus: 1 } },
  };
  expect(driver.parse(spec)).toEqual(spec);
});

describe('several networks', () => {
  const networks = { front: { aliases: ['a'] }, back: {}, far: { address: 'fd00::7' } };

  it('the first comes with the create, the others one by one after it', async () => {
    const b = await bench();
    for (const name of Object.keys(networks)) b.engine.network(name);
    await b.driver.prestart(b.ask('a', { networks }));
    const [container] = b.engine.containers;
    expect(container?.body['NetworkingConfig']).toEqual({ EndpointsConfig: { front: { Aliases: ['a'] } } });
    expect([...(container?.networks ?? [])]).toEqual([
      ['back', { Aliases: [] }],
      ['far', { Aliases: [], IPAMConfig: { IPv6Address: 'fd00::7' } }],
    ]);
  });

  it('DP-2 a leftover of a crash in between is put into those that it lacks', async () => {
    const b = await bench();
    for (const name of Object.keys(networks)) b.engine.network(name);
    await b.driver.prestart(b.ask('a', { networks }));
    b.engine.containers[0]?.networks.clear();
    await b.again().prestart(b.ask('a', { networks }));
    expect([...(b.engine.containers[0]?.networks.keys() ?? [])]).toEqual(['back', 'far']);
  });

  it('DP-1 one that is not there is told before anything is made', async () => {
    const b = await bench();
    b.engine.network('front');
    const error = await failure(b.driver.prestart(b.ask('a', { networks })));
    expect(error).toMatchObject({ code: 'ERR_DRIVER', details: { network: 'back' } });
    expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
  });

  it.each([
    [403, 'endpoint with name web already exists in network back'],
    [500, 'container 12 is already connected to network "back": network is already connected'],
  ])('DP-9 one that it is in already, as engines say by %i %s, is no failure', async (status, message) => {
    const b = await bench();
    for (const name of Object.keys(networks)) b.engine.network(name);
    b.engine.fault({ path: /back\/connect/, times: 3 }, { status, message });
    const prestart = b.driver.prestart(b.ask('a', { networks }));
    await moving(b, prestart);
    expect([...(b.engine.containers[0]?.networks.keys() ?? [])]).toEqual(['far']);
  });

  it('another 403 is a failure', async () => {
    const b = await bench();
    for (const name of Object.keys(networks)) b.engine.network(name);
    b.engine.fault({ path: /back\/connect/ }, { status: 403, message: 'container cannot be connected' });
    expect(await failure(b.driver.prestart(b.ask('a', { networks })))).toMatchObject({ details: { status: 403 } });
    expect(b.engine.containers).toEqual([]);
  });

  it('DP-3 a connection that the engine refuses leaves nothing, and its words are told', async () => {
    const b = await bench();
    for (const name of Object.keys(networks)) b.engine.network(name);
    b.engine.fault({ path: /far\/connect/ }, { status: 400, message: 'user specified IP address is not supported' });
    const error = await failure(b.driver.prestart(b.ask('a', { networks })));
    expect(error).toMatchObject({
      code: 'ERR_DRIVER',
      message: expect.stringContaining('user specified IP address') as unknown,
    });
    expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
  });
});

describe('what only one container can have', () => {
  it('DP-7 ports with address and protocol, the name, addresses, and what is declared exclusive', async () => {
    const { driver } = await bench();
    const held = { scope: 'host', needed: 'start' };
    const spec: DockerSpec = {
      image: 'a',
      name: 'web',
      ports: {
        a: { container: 80, host: 8080, address: '127.0.0.1' },
        b: { container: 53, host: 53, protocol: 'udp' },
        c: { container: 90 },
      },
      networks: { back: { address: '10.0.0.9' }, front: {} },
      mounts: [
        { type: 'volume', source: 'data', target: '/d', exclusive: true },
        { type: 'bind', source: '/srv//x/', target: '/x', exclusive: true },
        { type: 'bind', source: '/', target: '/y', exclusive: true },
        { type: 'volume', source: 'shared', target: '/s', exclusive: false },
        { type: 'volume', source: 'free', target: '/f' },
      ],
      devices: [{ host: '/dev/ttyS0', exclusive: true }, { host: '/dev/null' }],
    };
    expect(driver.exclusive(driver.parse(spec))).toEqual([
      { kind: 'port', key: '8080/tcp', address: '127.0.0.1', ...held },
      { kind: 'port', key: '53/udp', ...held },
      { kind: 'name', key: 'web', ...held },
      { kind: 'address', key: 'back/10.0.0.9', ...held },
      { kind: 'mount', key: 'data', ...held },
      { kind: 'mount', key: '/srv/x', ...held },
      { kind: 'mount', key: '/', ...held },
      { kind: 'device', key: '/dev/ttyS0', ...held },
    ]);
  });

  it('DP-7 an IPv6 address, a path: one spelling, by which two of one show', async () => {
    const { driver } = await bench();
    const keys = (spec: Partial<DockerSpec>) =>
      driver.exclusive(driver.parse({ image: 'a', ...spec })).map(({ key, address }) => [key, address]);
    const address = 'FD00:0:0::0007';
    expect(keys({ networks: { back: { address } } })).toEqual([['back/fd00::7', undefined]]);
    expect(keys({ ports: { a: { container: 80, host: 80, address } } })).toEqual([['80/tcp', 'fd00::7']]);
    expect(keys({ devices: [{ host: '/dev/../dev//ttyS0', exclusive: true }] })).toEqual([['/dev/ttyS0', undefined]]);
  });

  it('DP-7 in the network of the host each port is the host’s own, published by nobody, and reached there', async () => {
    const b = await bench();
    const spec = {
      networks: 'host',
      ports: { http: { container: 8080 }, dns: { container: 53, host: 53, protocol: 'udp' } },
    } as const;
    const keys = b.driver
      .exclusive(b.driver.parse({ image: 'app:v1', ...spec }))
      .map(({ key }: ExclusiveResource) => key);
    expect(keys).toEqual(['8080/tcp', '53/udp']);
    const handle = await b.driver.start(await b.driver.prestart(b.ask('a', spec)), {});
    expect(b.engine.containers[0]?.body).toMatchObject({ ExposedPorts: {}, HostConfig: { PortBindings: {} } });
    expect(handle.endpoints).toEqual({
      http: { address: '127.0.0.1', port: 8080 },
      dns: { address: '127.0.0.1', port: 53 },
    });
    const recovered = await b.again().recover(handle.state, { owner: 'a/web' });
    expect(recovered?.endpoints).toEqual(handle.endpoints);
  });

  it('endpoints tell the address that a port is published on, and which protocol was meant', async () => {
    const b = await bench();
    const ports = {
      tcp: { container: 53, host: 5353, address: '127.0.0.9' },
      udp: { container: 53, host: 5454, protocol: 'udp' },
    } as const;
    const handle = await b.driver.start(await b.driver.prestart(b.ask('a', { ports })), {});
    expect(handle.endpoints).toEqual({
      tcp: { address: '127.0.0.9', port: 5353 },
      udp: { address: '127.0.0.1', port: 5454 },
    });
  });
});

it.each([
  [1, 1],
  ['7b', 7],
  ['2k', 2048],
  ['64m', 67_108_864],
  ['1g', 1_073_741_824],
  ['01k', undefined],
  ['1K', undefined],
  [-1, undefined],
  [1.5, undefined],
  [NaN, undefined],
])('a size of %s is %s bytes', (size, bytes) => {
  expect(bytesOf(size)).toBe(bytes);
});
