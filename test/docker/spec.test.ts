import { expect, it } from 'vitest';
import { DockerDriver } from 'handover/docker';
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
