import type { DockerSpec } from 'handover/docker';
import { expect, it } from 'vitest';
import { bench, failure } from './driver-bench.js';

const onPort = (host: number): Partial<DockerSpec> => ({ ports: { http: { container: 8080, host } } });

it.each([
  [{ HostConfig: { NetworkMode: 'nope' } }, { network: 'nope' }],
  [{ NetworkingConfig: { EndpointsConfig: { back: {}, nope: {} } } }, { network: 'nope' }],
  [{ HostConfig: { NetworkMode: 'container:nope' } }, { container: 'nope' }],
])('DP-1 %j names what is not there: refused before anything is made', async (create, facts) => {
  const b = await bench();
  b.engine.network('back');
  const error = await failure(b.driver.prestart(b.ask('a', { create })));
  expect(error).toMatchObject({
    code: 'ERR_DRIVER',
    retryable: false,
    details: { driver: 'docker', operation: 'prestart', ...facts },
  });
  expect(error.message).toContain('does not exist');
  expect([b.engine.containers, b.leases.held]).toEqual([[], new Set()]);
});

it.each(['', 'default', 'host', 'none', 'back', 'container:db'])('DP-1 network mode "%s" is taken', async (mode) => {
  const b = await bench();
  b.engine.network('back');
  b.engine.put('db:v1');
  b.engine.create('db', { Image: 'db:v1' });
  const create = { HostConfig: { NetworkMode: mode } };
  const handle = await b.driver.start(await b.driver.prestart(b.ask('a', { create })), {});
  expect(await handle.isRunning({})).toBe(true);
});

it('S49 a host port that a foreign container publishes is told before anything is made', async () => {
  const b = await bench();
  b.engine.put('db:v1');
  const HostConfig = { PortBindings: { '80/tcp': [{ HostPort: '8080' }] } };
  const foreign = b.engine.create('db', { Image: 'db:v1', ExposedPorts: { '80/tcp': {} }, HostConfig });
  b.engine.startContainer('db');
  const by = foreign.id.slice(0, 12);
  expect(await failure(b.driver.prestart(b.ask('a', onPort(8080))))).toMatchObject({
    code: 'ERR_DRIVER',
    message: `Cannot prepare a/web: port 8080/tcp of the host is published by container ${by}, which is not ours; stop that one, or choose another port`,
    details: { port: '8080/tcp', by },
  });
  expect([b.engine.containers, b.leases.held]).toEqual([[foreign], new Set()]);
  await b.driver.prestart(b.ask('a', onPort(8081)));
  b.engine.exit('db', 0);
  await b.driver.prestart(b.ask('b', onPort(8080)));
});

it('DP-5 a host port that one of ours holds is no obstacle: it will have ended by then', async () => {
  const b = await bench();
  await b.driver.start(await b.driver.prestart(b.ask('a', onPort(8080))), {});
  await b.driver.prestart(b.ask('b', onPort(8080)));
  expect(b.engine.running()).toHaveLength(1);
});

it.each([
  { wanted: { host: 8080, address: '127.0.0.1' }, refused: true },
  { wanted: { host: 8080 }, refused: true },
  { wanted: { host: 8080, address: '127.0.0.2' }, refused: false },
  { wanted: { host: 8080, address: '::1' }, refused: false },
  { wanted: { host: 8080, protocol: 'udp' }, refused: false },
] as const)('S49 beside a foreign one on 127.0.0.1 $wanted is refused: $refused', async ({ wanted, refused }) => {
  const b = await bench();
  b.engine.put('db:v1');
  const HostConfig = { PortBindings: { '80/tcp': [{ HostIp: '127.0.0.1', HostPort: '8080' }] } };
  b.engine.create('db', { Image: 'db:v1', ExposedPorts: { '80/tcp': {} }, HostConfig });
  b.engine.startContainer('db');
  const prestart = b.driver.prestart(b.ask('a', { ports: { http: { container: 80, ...wanted } } }));
  if (refused) expect(await failure(prestart)).toMatchObject({ details: { port: '8080/tcp' } });
  else expect(await b.driver.start(await prestart, {})).toMatchObject({ endpoints: { http: { port: 8080 } } });
});

it('S49 a foreign one on all addresses is in the way of one on any of them', async () => {
  const b = await bench();
  b.engine.put('db:v1');
  const HostConfig = { PortBindings: { '80/tcp': [{ HostPort: '8080' }] } };
  b.engine.create('db', { Image: 'db:v1', ExposedPorts: { '80/tcp': {} }, HostConfig });
  b.engine.startContainer('db');
  const ports = { http: { container: 80, host: 8080, address: '127.0.0.1' } };
  expect(await failure(b.driver.prestart(b.ask('a', { ports })))).toMatchObject({ details: { port: '8080/tcp' } });
});

it('S49 in the network of the host a port that a foreign container publishes is told as well', async () => {
  const b = await bench();
  b.engine.put('db:v1');
  const HostConfig = { PortBindings: { '80/tcp': [{ HostPort: '8080' }] } };
  b.engine.create('db', { Image: 'db:v1', ExposedPorts: { '80/tcp': {} }, HostConfig });
  b.engine.startContainer('db');
  const spec = { networks: 'host', ports: { http: { container: 8080 } } } as const;
  expect(await failure(b.driver.prestart(b.ask('a', spec)))).toMatchObject({ details: { port: '8080/tcp' } });
});

it('DP-1 a network is asked for once, and none if none is named', async () => {
  const b = await bench();
  b.engine.network('back');
  await b.driver.prestart(b.ask('a'));
  expect(b.calls().filter((call) => call.includes('/networks/'))).toEqual([]);
  const create = { HostConfig: { NetworkMode: 'back' }, NetworkingConfig: { EndpointsConfig: { back: {} } } };
  await b.driver.prestart(b.ask('b', { create }));
  await b.driver.prestart(b.ask('c', { networks: { back: {} } }));
  expect(b.calls().filter((call) => call.includes('/networks/'))).toEqual(['GET /networks/back', 'GET /networks/back']);
});
