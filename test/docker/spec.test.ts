import { expect, it } from 'vitest';
import { bench } from './driver-bench.js';

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
  [{ image: 'a', ports: { a: { container: 80, host: 8080 }, b: { container: 81, host: 8080 } } }, 'ports'],
  [{ image: 'a', ports: [] }, 'ports'],
  [{ image: 'a', command: [] }, 'command'],
  [{ image: 'a', command: [''] }, 'command'],
  [{ image: 'a', command: ['run', 'a\0b'] }, 'command.1'],
  [{ image: 'a', env: [] }, 'env'],
  [{ image: 'a', env: { A: 'b\0c' } }, 'env.A'],
  [{ image: 'a', env: { 'A\0': 'b' } }, 'env.A\0'],
  [{ image: 'a', create: [] }, 'create'],
  [{ image: 'a', create: null }, 'create'],
  [{ image: 'a', create: { Image: 'b' } }, 'create.Image'],
  [{ image: 'a', create: { image: 'b' } }, 'create.image'],
  [{ image: 'a', create: { Bogus: 1 } }, 'create.Bogus'],
  [{ image: 'a', create: { name: 'web' } }, 'create.name'],
  [{ image: 'a', create: { hostconfig: { AutoRemove: true } } }, 'create.hostconfig'],
  [{ image: 'a', create: { HostConfig: [] } }, 'create.HostConfig'],
  [{ image: 'a', create: { HostConfig: { Bogus: 1 } } }, 'create.HostConfig.Bogus'],
  [
    { image: 'a', create: { HostConfig: { RestartPolicy: { name: 'always' } } } },
    'create.HostConfig.RestartPolicy.name',
  ],
  [{ image: 'a', create: { HostConfig: { PortBindings: { '80': [] } } } }, 'create.HostConfig.PortBindings.80'],
  [
    { image: 'a', create: { HostConfig: { PortBindings: { '80/tcp': [{ HostPort: 8080 }] } } } },
    'create.HostConfig.PortBindings.80/tcp.0.HostPort',
  ],
  [
    { image: 'a', create: { HostConfig: { PortBindings: { '80/tcp': [{ hostPort: '8080' }] } } } },
    'create.HostConfig.PortBindings.80/tcp.0.hostPort',
  ],
  [{ image: 'a', create: { NetworkingConfig: { endpointsConfig: {} } } }, 'create.NetworkingConfig.endpointsConfig'],
  [{ image: 'a', command: ['run'], create: { Cmd: ['walk'] } }, 'create.Cmd'],
  [{ image: 'a', env: {}, create: { Env: ['A=1'] } }, 'create.Env'],
  [
    {
      image: 'a',
      ports: { a: { container: 80, host: 8080 } },
      create: { HostConfig: { PortBindings: { '80/tcp': [{ HostPort: '9080' }] } } },
    },
    'create.HostConfig.PortBindings.80/tcp',
  ],
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
    ports: { http: { container: 80, host: 8080 }, admin: { container: 81 } },
    create: {
      HostConfig: {
        PortBindings: {
          '81/tcp': [{ HostPort: '9081' }],
          '53/udp': [
            { HostIp: '127.0.0.1', HostPort: '53' },
            { HostIp: '::1', HostPort: '53' },
          ],
          '82/tcp': [{ HostPort: '' }, { HostPort: '0' }, { HostPort: '7000-7010' }, {}],
          '83/tcp': [{ HostIp: '127.0.0.1', HostPort: '9083' }],
          '84/tcp': null,
        },
      },
    },
  });
  expect(d.exclusive(spec).map(({ key, address }) => [key, address])).toEqual([
    ['8080/tcp', undefined],
    ['9081/tcp', undefined],
    ['53/udp', '127.0.0.1'],
    ['53/udp', '::1'],
    ['9083/tcp', '127.0.0.1'],
  ]);
});

it.each(['80-82/tcp', '080/tcp', '0/tcp', '80/TCP'])(
  'a port of the container written as %s is refused',
  async (port) => {
    const { parse } = await driver();
    const path = `create.HostConfig.PortBindings.${port}`;
    const create = { HostConfig: { PortBindings: { [port]: [] } } };
    expect(() => parse({ image: 'a', create })).toThrow(expect.objectContaining({ details: { path } }));
  },
);

/** A spec with one raw binding. */
const bound = (binding: object) => ({
  image: 'a',
  create: { HostConfig: { PortBindings: { '80/tcp': [binding] } } },
});

it.each([
  { HostPort: '8080', keys: ['8080/tcp'] },
  { HostPort: '08080', keys: ['8080/tcp'] },
  { HostPort: '8080-8080', keys: ['8080/tcp'] },
  { HostPort: '65535', keys: ['65535/tcp'] },
  { HostPort: '8080-8081', keys: [] },
  { HostPort: '0', keys: [] },
  { HostPort: '00', keys: [] },
  { HostPort: '0-0', keys: [] },
  { HostPort: '', keys: [] },
  { HostPort: null, keys: [] },
])('DP-7 HostPort $HostPort is fixed when only one port can come of it: $keys', async ({ HostPort, keys }) => {
  const d = await driver();
  expect(d.exclusive(d.parse(bound({ HostPort }))).map(({ key }) => key)).toEqual(keys);
});

it.each([
  ...[' 8080', '8080 ', '+8080', '8e3', '0x1F90', '8080.0', 'http', '65536', '8080-65536', '8081-8080'],
  ...['-', '8080-', '-8080', '8080-8080-8080', '8080 - 8081'],
  // The engine creates with these, and cannot start.
  ...['0-1', '0-8080'],
])('DP-7 HostPort "%s", with which no engine can start, is refused', async (HostPort) => {
  const { parse } = await driver();
  const path = 'create.HostConfig.PortBindings.80/tcp.0.HostPort';
  expect(() => parse(bound({ HostPort }))).toThrow(expect.objectContaining({ details: { path } }));
});

it.each(['localhost', '[::]', ' 127.0.0.1', '127.0.0.01', 'fe80::1%eth0', '10.0.0.0/8'])(
  'HostIp "%s", in place of which an engine takes all addresses, is refused',
  async (HostIp) => {
    const { parse } = await driver();
    const path = 'create.HostConfig.PortBindings.80/tcp.0.HostIp';
    expect(() => parse(bound({ HostIp, HostPort: '8080' }))).toThrow(expect.objectContaining({ details: { path } }));
  },
);

it.each(['', '127.0.0.1', '0.0.0.0', '::', '::1', '::ffff:127.0.0.1', null])('HostIp %j is taken', async (HostIp) => {
  const { parse } = await driver();
  const spec = bound({ HostIp, HostPort: '8080' });
  expect(parse(spec)).toEqual(spec);
});

it.each([
  { one: '', other: '127.0.0.1', refused: true },
  { one: '10.0.0.1', other: '10.0.0.1', refused: true },
  { one: '0.0.0.0', other: '127.0.0.1', refused: true },
  { one: '::', other: '::1', refused: true },
  { one: '10.0.0.1', other: '10.0.0.2', refused: false },
  { one: '0.0.0.0', other: '::1', refused: false },
  { one: '::', other: '127.0.0.1', refused: false },
  { one: '0.0.0.0', other: '::', refused: false },
])('DP-7 one host port on "$one" and on "$other": refused=$refused', async ({ one, other, refused }) => {
  const d = await driver();
  const at = (HostIp: string) => [{ HostIp, HostPort: '8080' }];
  for (const [a, b] of [
    [one, other],
    [other, one],
  ] as const) {
    const create = { HostConfig: { PortBindings: { '80/tcp': at(a), '81/tcp': at(b) } } };
    const parse = () => d.parse({ image: 'a', create });
    if (refused) expect(parse).toThrow(expect.objectContaining({ details: { path: 'ports' } }));
    else expect(parse()).toMatchObject({ create });
  }
});

it.each([
  { HostConfig: null },
  { HostConfig: { RestartPolicy: null, AutoRemove: false } },
  { HostConfig: { RestartPolicy: { Name: 'no' } } },
  { HostConfig: { RestartPolicy: { Name: '' } } },
])('raw options that leave its life to the driver are taken as they are: %j', async (create) => {
  expect((await driver()).parse({ image: 'a', create })).toEqual({ image: 'a', create });
});

it.each([
  [{ HostConfig: { NetworkMode: 'none' } }, 'create.HostConfig.NetworkMode'],
  [{ HostConfig: { NetworkMode: 'host' } }, 'create.HostConfig.NetworkMode'],
  [{ HostConfig: { NetworkMode: 'container:db' } }, 'create.HostConfig.NetworkMode'],
  [{ NetworkDisabled: true }, 'create.NetworkDisabled'],
])('DP-1 ports that the engine would drop are refused before anything is touched: %j', async (create, path) => {
  const { parse } = await driver();
  const HostConfig = { ...('HostConfig' in create && create.HostConfig), PortBindings: { '80/tcp': [{}] } };
  for (const ports of [{ ports: { http: { container: 80 } }, create }, { create: { ...create, HostConfig } }]) {
    expect(() => parse({ image: 'a', ...ports })).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }),
    );
  }
  expect(parse({ image: 'a', ports: {}, create })).toMatchObject({ create });
});
