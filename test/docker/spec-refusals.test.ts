import { expect, it } from 'vitest';
import { bench } from './driver-bench.js';

const device = { host: '/dev/null' };
it.each([
  [{ entrypoint: 'run' }, 'entrypoint'],
  [{ entrypoint: ['a\0'] }, 'entrypoint.0'],
  [{ entrypoint: ['', 'run'] }, 'entrypoint'],
  [{ labels: { 'handover.alloc': 'x' } }, 'labels.handover.alloc'],
  [{ labels: { a: 1 } }, 'labels.a'],
  [{ create: { Labels: { 'handover.stop': 'x' } } }, 'create.Labels.handover.stop'],
  [{ labels: { '': 'a' } }, 'labels.""'],
  [{ user: '' }, 'user'],
  [{ workingDir: 'srv' }, 'workingDir'],
  [{ hostname: '' }, 'hostname'],
  [{ stopSignal: 'SIGNOPE' }, 'stopSignal'],
  [{ stopSignal: 15 }, 'stopSignal'],
  [{ init: 'yes' }, 'init'],
  [{ readOnly: 1 }, 'readOnly'],
  [{ tmpfs: { tmp: '' } }, 'tmpfs.tmp'],
  [{ tmpfs: { '/tmp': 5 } }, 'tmpfs./tmp'],
  [{ mounts: { '/a': '/b' } }, 'mounts'],
  [{ mounts: [{ type: 'tmpfs', source: '/a', target: '/a' }] }, 'mounts.0.type'],
  [{ mounts: [{ type: 'bind', source: 'a', target: '/a' }] }, 'mounts.0'],
  [{ mounts: [{ type: 'volume', source: '/a', target: '/a' }] }, 'mounts.0'],
  [{ mounts: [{ type: 'volume', source: 'a', target: 'a' }] }, 'mounts.0.target'],
  [{ mounts: [{ type: 'volume', source: 'a', target: '/a', readOnly: 'no' }] }, 'mounts.0.readOnly'],
  [{ mounts: [{ type: 'volume', source: 'a', target: '/a', ro: true }] }, 'mounts.0.ro'],
  [{ devices: [{ host: 'null' }] }, 'devices.0.host'],
  [{ devices: [{ ...device, container: 'nil' }] }, 'devices.0.container'],
  [{ devices: [{ ...device, permissions: '' }] }, 'devices.0.permissions'],
  [{ devices: [{ ...device, permissions: 'rx' }] }, 'devices.0.permissions'],
  [{ devices: [{ ...device, permissions: 'rr' }] }, 'devices.0.permissions'],
  [{ capabilities: { add: 'ALL' } }, 'capabilities.add'],
  [{ capabilities: { add: [''] } }, 'capabilities.add.0'],
  [{ capabilities: ['ALL'] }, 'capabilities'],
  [{ resources: { memory: '1.5g' } }, 'resources.memory'],
  [{ resources: { memory: '64mb' } }, 'resources.memory'],
  [{ resources: { memory: '64' } }, 'resources.memory'],
  [{ resources: { memory: 0 } }, 'resources.memory'],
  [{ resources: { memory: ['64m'] } }, 'resources.memory'],
  [{ resources: { memory: '9007199254740992g' } }, 'resources.memory'],
  [{ resources: { memorySwap: null } }, 'resources.memorySwap'],
  [{ resources: { cpus: 0 } }, 'resources.cpus'],
  [{ resources: { cpus: Infinity } }, 'resources.cpus'],
  [{ resources: { cpus: '1' } }, 'resources.cpus'],
  [{ resources: { pids: 0 } }, 'resources.pids'],
  [{ resources: { pids: 1.5 } }, 'resources.pids'],
  [{ resources: { ulimits: { nofile: '10' } } }, 'resources.ulimits.nofile'],
  [{ resources: { ulimits: { nofile: -2 } } }, 'resources.ulimits.nofile'],
  [{ resources: { ulimits: { nofile: { soft: 1 } } } }, 'resources.ulimits.nofile.hard'],
  [{ resources: { ulimits: { nofile: { soft: 2, hard: 1 } } } }, 'resources.ulimits.nofile'],
  [{ resources: { ulimits: { nofile: { soft: -1, hard: 1 } } } }, 'resources.ulimits.nofile'],
  [{ resources: { ulimits: { files: 1 } } }, 'resources.ulimits.files'],
  [{ healthcheck: 'off' }, 'healthcheck'],
  [{ healthcheck: {} }, 'healthcheck.test'],
  [{ healthcheck: { test: '' } }, 'healthcheck.test'],
  [{ healthcheck: { test: [] } }, 'healthcheck.test'],
  [{ healthcheck: { test: 'x', interval: '10' } }, 'healthcheck.interval'],
  [{ healthcheck: { test: 'x', timeout: 0 } }, 'healthcheck.timeout'],
  [{ healthcheck: { test: 'x', startPeriod: -1 } }, 'healthcheck.startPeriod'],
  [{ healthcheck: { test: 'x', retries: 0 } }, 'healthcheck.retries'],
  [{ log: 'none' }, 'log'],
  [{ log: { driver: '' } }, 'log.driver'],
  [{ log: { driver: 'json-file', options: { 'max-file': 3 } } }, 'log.options.max-file'],
  [{ extraHosts: { db: 'db.example' } }, 'extraHosts.db'],
  [{ extraHosts: { db: 5 } }, 'extraHosts.db'],
  [{ extraHosts: { db: 'fe80::1%eth0' } }, 'extraHosts.db'],
  [{ ports: { a: { container: 80, protocol: 'icmp' } } }, 'ports.a.protocol'],
  [{ ports: { a: { container: 80, address: 'localhost' } } }, 'ports.a.address'],
  [{ ports: { a: { container: 80, address: 'fe80::1%eth0' } } }, 'ports.a.address'],
  [{ ports: { a: { container: 80, protocol: 'udp' }, b: { container: 80, protocol: 'udp' } } }, 'ports'],
  [{ ports: { a: { container: 80 }, b: { container: 80, protocol: 'tcp' } } }, 'ports'],
  [{ networks: 'bridge' }, 'networks'],
  [{ networks: {} }, 'networks'],
  [{ networks: ['a'] }, 'networks'],
  [{ networks: null }, 'networks'],
  [{ networks: { host: {} } }, 'networks.host'],
  [{ networks: { 'container:a': {} } }, 'networks.container:a'],
  [{ networks: { a: { address: '10.0.0' } } }, 'networks.a.address'],
  [{ networks: { a: { aliases: [''] } } }, 'networks.a.aliases.0'],
  [{ networks: { bridge: { aliases: ['db'] } } }, 'networks'],
  [{ networks: { bridge: { address: '10.0.0.1' } } }, 'networks'],
  [{ networks: { default: {} } }, 'networks.default'],
  [{ networks: 'none', ports: { a: { container: 80 } } }, 'networks'],
  [{ networks: 'host', ports: { a: { container: 80, host: 81 } } }, 'ports.a.host'],
  [{ networks: 'host', ports: { a: { container: 80, address: '127.0.0.1' } } }, 'ports.a.address'],
  [
    { networks: 'host', create: { HostConfig: { PortBindings: { '80/tcp': [{}] } } } },
    'create.HostConfig.PortBindings',
  ],
])('G-2 %j is refused by the path %s', async (spec, path) => {
  const { driver } = await bench();
  expect(() => driver.parse({ image: 'a', ...spec })).toThrow(
    expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }),
  );
});

it.each([
  [{ entrypoint: [] }, { Entrypoint: ['x'] }, 'create.Entrypoint', 'entrypoint'],
  [{ labels: {} }, { Labels: {} }, 'create.Labels', 'labels'],
  [{ user: 'a' }, { User: 'b' }, 'create.User', 'user'],
  [{ workingDir: '/' }, { WorkingDir: '/' }, 'create.WorkingDir', 'workingDir'],
  [{ hostname: 'a' }, { Hostname: 'a' }, 'create.Hostname', 'hostname'],
  [{ stopSignal: 'INT' }, { StopSignal: 'INT' }, 'create.StopSignal', 'stopSignal'],
  [{ healthcheck: 'none' }, { Healthcheck: {} }, 'create.Healthcheck', 'healthcheck'],
  [{ init: false }, { HostConfig: { Init: true } }, 'create.HostConfig.Init', 'init'],
  [{ tmpfs: {} }, { HostConfig: { Tmpfs: {} } }, 'create.HostConfig.Tmpfs', 'tmpfs'],
  [{ mounts: [] }, { HostConfig: { Mounts: [] } }, 'create.HostConfig.Mounts', 'mounts'],
  [{ resources: { memory: 1 } }, { HostConfig: { Memory: 1 } }, 'create.HostConfig.Memory', 'resources.memory'],
  [{ capabilities: { add: [] } }, { HostConfig: { CapAdd: [] } }, 'create.HostConfig.CapAdd', 'capabilities.add'],
  [{ networks: { a: {} } }, { HostConfig: { NetworkMode: 'b' } }, 'create.HostConfig.NetworkMode', 'networks'],
  [
    { networks: { a: {} } },
    { NetworkingConfig: { EndpointsConfig: {} } },
    'create.NetworkingConfig.EndpointsConfig',
    'networks',
  ],
  [
    { ports: { a: { container: 80, address: '::1' } } },
    { HostConfig: { PortBindings: { '80/tcp': [] } } },
    'create.HostConfig.PortBindings.80/tcp',
    'ports.a',
  ],
])('G-2 %j beside create %j says a thing twice', async (spec, create, path, field) => {
  const { driver } = await bench();
  const parse = () => driver.parse({ image: 'a', ...spec, create });
  expect(parse).toThrow(expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }));
  expect(parse).toThrow(`\`${field}\``);
});

it.each([
  [{ networks: 'none', ports: { a: { container: 80 } } }, 'leaves the container without ports of its own'],
  [{ networks: 'host', ports: { a: { container: 80, host: 81 } } }, 'where the program itself chooses; leave it out'],
  [{ networks: 'host', create: { HostConfig: { PortBindings: { '80/tcp': [{}] } } } }, 'use `ports`'],
  [
    { ports: { a: { container: 80, host: 8080 }, b: { container: 81, host: 8080 } } },
    'asks for port 8080/tcp of the host twice',
  ],
])('G-2 of %j it is said that it %s', async (spec, words) => {
  const { driver } = await bench();
  expect(() => driver.parse({ image: 'a', ...spec })).toThrow(words);
});

it.each(['none-of-ours', 'our-none', 'hosts', 'ghost'])(
  'the name of a network may look like a mode: %s',
  async (mode) => {
    const { driver } = await bench();
    const spec = { image: 'a', ports: { a: { container: 80 } }, create: { HostConfig: { NetworkMode: mode } } };
    expect(driver.parse(spec)).toEqual(spec);
  },
);
