import type { DockerSpec } from 'handover/docker';
import { expect } from 'vitest';

/** Names that a case makes its own use of. */
export interface Names {
  /** Networks that are there. */
  readonly networks: readonly [string, string];
  /** A volume that nobody has made yet. */
  readonly volume: string;
}

/** A part of a spec, and what an engine says of a container that was made from it. */
export interface SpecCase {
  readonly field: string;
  readonly spec: Partial<DockerSpec> | ((names: Names) => Partial<DockerSpec>);
  readonly says: object | ((names: Names) => object);
}

const host = (HostConfig: object): object => ({ HostConfig });
const config = (Config: object): object => ({ Config });

/** Field by field, with more than one value where more than one kind can be given. */
export const SPEC_CASES: readonly SpecCase[] = [
  { field: 'entrypoint', spec: { entrypoint: ['/bin/app', '-v'] }, says: config({ Entrypoint: ['/bin/app', '-v'] }) },
  { field: 'command', spec: { command: ['/bin/app', 'x'] }, says: config({ Cmd: ['/bin/app', 'x'] }) },
  {
    field: 'env',
    spec: { env: { A: 'b=c', D: '' } },
    says: config({ Env: expect.arrayContaining(['A=b=c', 'D=']) as unknown }),
  },
  { field: 'labels', spec: { labels: { team: 'blue' } }, says: config({ Labels: { team: 'blue' } }) },
  { field: 'user', spec: { user: '1000:1001' }, says: config({ User: '1000:1001' }) },
  { field: 'workingDir', spec: { workingDir: '/srv' }, says: config({ WorkingDir: '/srv' }) },
  { field: 'hostname', spec: { hostname: 'db-1' }, says: config({ Hostname: 'db-1' }) },
  { field: 'stopSignal', spec: { stopSignal: 'SIGQUIT' }, says: config({ StopSignal: 'SIGQUIT' }) },
  { field: 'init', spec: { init: true }, says: host({ Init: true }) },
  { field: 'init', spec: { init: false }, says: host({ Init: false }) },
  { field: 'readOnly', spec: { readOnly: true }, says: host({ ReadonlyRootfs: true }) },
  {
    field: 'tmpfs',
    spec: { tmpfs: { '/tmp': 'size=64k', '/run': '' } },
    says: host({ Tmpfs: { '/tmp': 'size=64k', '/run': '' } }),
  },
  {
    field: 'mounts',
    spec: ({ volume }) => ({
      mounts: [
        { type: 'bind', source: '/', target: '/host', readOnly: true },
        { type: 'volume', source: volume, target: '/data' },
      ],
    }),
    says: ({ volume }) =>
      host({
        Mounts: [
          { Type: 'bind', Source: '/', Target: '/host', ReadOnly: true },
          { Type: 'volume', Source: volume, Target: '/data' },
        ],
      }),
  },
  {
    field: 'devices',
    spec: { devices: [{ host: '/dev/null' }, { host: '/dev/zero', container: '/dev/nil', permissions: 'r' }] },
    says: host({
      Devices: [
        { PathOnHost: '/dev/null', PathInContainer: '/dev/null', CgroupPermissions: 'rwm' },
        { PathOnHost: '/dev/zero', PathInContainer: '/dev/nil', CgroupPermissions: 'r' },
      ],
    }),
  },
  { field: 'capabilities', spec: { capabilities: { add: ['NET_ADMIN'] } }, says: host({ CapAdd: ['NET_ADMIN'] }) },
  { field: 'capabilities', spec: { capabilities: { drop: ['ALL'] } }, says: host({ CapDrop: ['ALL'] }) },
  {
    field: 'resources',
    spec: { resources: { memory: '64m', memorySwap: 134_217_728, cpus: 0.25, pids: 50 } },
    says: host({ Memory: 67_108_864, MemorySwap: 134_217_728, NanoCpus: 250_000_000, PidsLimit: 50 }),
  },
  {
    field: 'resources',
    spec: { resources: { memory: 67_108_864, memorySwap: '128m' } },
    says: host({ Memory: 67_108_864, MemorySwap: 134_217_728 }),
  },
  {
    field: 'resources.ulimits',
    spec: { resources: { ulimits: { nofile: 1024, nproc: { soft: 10, hard: 20 }, core: { soft: 5, hard: -1 } } } },
    says: host({
      Ulimits: [
        { Name: 'nofile', Soft: 1024, Hard: 1024 },
        { Name: 'nproc', Soft: 10, Hard: 20 },
        { Name: 'core', Soft: 5, Hard: -1 },
      ],
    }),
  },
  { field: 'healthcheck', spec: { healthcheck: 'none' }, says: config({ Healthcheck: { Test: ['NONE'] } }) },
  {
    field: 'healthcheck',
    spec: {
      healthcheck: { test: 'curl -f localhost', interval: '10s', timeout: 1_500, startPeriod: '1m', retries: 2 },
    },
    says: config({
      Healthcheck: {
        Test: ['CMD-SHELL', 'curl -f localhost'],
        ...{ Interval: 10e9, Timeout: 1.5e9, StartPeriod: 60e9, Retries: 2 },
      },
    }),
  },
  {
    field: 'healthcheck',
    spec: { healthcheck: { test: ['/bin/check', 'x'] } },
    says: config({ Healthcheck: { Test: ['CMD', '/bin/check', 'x'] } }),
  },
  {
    field: 'log',
    spec: { log: { driver: 'json-file', options: { 'max-size': '1m' } } },
    says: host({ LogConfig: { Type: 'json-file', Config: { 'max-size': '1m' } } }),
  },
  { field: 'log', spec: { log: { driver: 'none' } }, says: host({ LogConfig: { Type: 'none', Config: {} } }) },
  {
    field: 'extraHosts',
    spec: { extraHosts: { db: '10.0.0.5', six: '::1', out: 'host-gateway' } },
    says: host({ ExtraHosts: ['db:10.0.0.5', 'six:::1', 'out:host-gateway'] }),
  },
  {
    field: 'ports',
    spec: {
      ports: {
        web: { container: 80, host: 18_080, address: '127.0.0.1' },
        dns: { container: 80, protocol: 'udp' },
        any: { container: 82, address: '::1' },
      },
    },
    says: {
      Config: { ExposedPorts: { '80/tcp': {}, '80/udp': {}, '82/tcp': {} } },
      HostConfig: {
        PortBindings: {
          '80/tcp': [{ HostIp: '127.0.0.1', HostPort: '18080' }],
          '80/udp': [{ HostPort: '' }],
          '82/tcp': [{ HostIp: '::1', HostPort: '' }],
        },
      },
    },
  },
  { field: 'networks', spec: { networks: 'host' }, says: host({ NetworkMode: 'host' }) },
  { field: 'networks', spec: { networks: 'none' }, says: host({ NetworkMode: 'none' }) },
  { field: 'networks', spec: { networks: { bridge: {} } }, says: host({ NetworkMode: 'bridge' }) },
  {
    field: 'networks',
    spec: ({ networks: [one, two] }) => ({
      networks: { [one]: { aliases: ['db'], address: '10.213.7.9' }, [two]: { aliases: ['db', 'sql'] } },
    }),
    says: ({ networks: [one, two] }) => ({
      HostConfig: { NetworkMode: one },
      NetworkSettings: {
        Networks: {
          [one]: { Aliases: expect.arrayContaining(['db']) as unknown, IPAMConfig: { IPv4Address: '10.213.7.9' } },
          [two]: { Aliases: expect.arrayContaining(['db', 'sql']) as unknown },
        },
      },
    }),
  },
  {
    field: 'create',
    spec: { user: '1', create: { Tty: true, HostConfig: { ShmSize: 1_048_576 } } },
    says: { Config: { User: '1', Tty: true }, HostConfig: { ShmSize: 1_048_576 } },
  },
];
