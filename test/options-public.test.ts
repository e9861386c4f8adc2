import Docker from 'dockerode';
import {
  AllocLifecycle,
  ImageCoordinator,
  NextAllocWatcher,
  PrevAllocWatcher,
  ShutdownSequencer,
  replace,
} from 'handover';
import { DockerDriver, dockerAuth, dockerImages, dockerTarget, staticAuth } from 'handover/docker';
import { lmdbStore } from 'handover/lmdb';
import { ProcessDriver, httpFiles } from 'handover/process';
import { describe, expect, it } from 'vitest';

const docker = new Docker({ socketPath: '/nowhere' });
const source = dockerImages(docker);
const peer = { id: 'a', watch: () => expect.unreachable() };
const processes = new ProcessDriver({ directory: '/nowhere' });
const containers = new DockerDriver({ docker, images: new ImageCoordinator({ source }) });
const SERVICE = { service: 'web', task: 'web', port: 'http' };
const alloc = (more: object, env?: never) =>
  new AllocLifecycle(
    {
      id: 'a',
      tasks: [{ name: 'web', driver: processes, spec: { argv: ['a'] } }],
      ...more,
    } as never,
    env,
  );

describe('G-2 what is no object of options is refused, and named', () => {
  it.each<[string, string, (given: never) => unknown]>([
    ['ImageCoordinator', '(options)', (given) => new ImageCoordinator(given)],
    ['removal of ImageCoordinator', 'removal', (given) => new ImageCoordinator({ source, removal: given })],
    ['env of ImageCoordinator', 'env', (given) => new ImageCoordinator({ source }, given)],
    ['ShutdownSequencer', '(options)', (given) => new ShutdownSequencer(given)],
    ['env of ShutdownSequencer', 'env', (given) => new ShutdownSequencer({}, given)],
    ['AllocLifecycle', '(options)', (given) => new AllocLifecycle(given)],
    ['env of AllocLifecycle', 'env', (given) => alloc({}, given)],
    ['health', 'health', (given) => alloc({ health: given })],
    ['a task', 'tasks.0', (given) => alloc({ tasks: [given] })],
    ['a spec', 'tasks.0.spec', (given) => alloc({ tasks: [{ name: 'web', driver: processes, spec: given }] })],
    ['a service', 'services.0', (given) => alloc({ services: [given] })],
    ['meta', 'services.0.meta', (given) => alloc({ services: [{ ...SERVICE, meta: given }] })],
    ['shutdown', 'shutdown', (given) => alloc({ shutdown: given })],
    ['prestart', 'prestart', (given) => alloc({ prestart: given })],
    ['checks', 'env.checks', (given) => alloc({}, { checks: given } as never)],
    ['hooks', 'env.hooks', (given) => alloc({}, { hooks: given } as never)],
    ['until()', '(options)', (given) => alloc({}).until('healthy', given)],
    ['retention', 'retention', (given) => new ImageCoordinator({ source, retention: given })],
    ['pull', 'pull', (given) => new ImageCoordinator({ source, pull: given })],
    ['collect()', '(options)', (given) => new ImageCoordinator({ source }).collect(given)],
    ['acquire()', '(options)', (given) => new ImageCoordinator({ source }).acquire('a', given)],
    ['recover()', '(options)', (given) => new ImageCoordinator({ source }).recover(() => true, given)],
    ['list() of ProcessDriver', '(options)', (given) => processes.list(given)],
    ['state of ProcessDriver', 'state', (given) => processes.recover(given, { owner: 'a/b' })],
    [
      'recover() of ProcessDriver',
      '(options)',
      (given) => processes.recover({ pid: 2, startedAt: 1, directory: '/a' }, given),
    ],
    ['prestart() of ProcessDriver', '(options)', (given) => processes.prestart(given)],
    ['prestart() of DockerDriver', '(options)', (given) => containers.prestart(given)],
    ['replace()', '(options)', (given) => replace(undefined, alloc({}), given)],
    ['NextAllocWatcher', '(options)', (given) => new NextAllocWatcher(peer, given)],
    ['PrevAllocWatcher', '(options)', (given) => new PrevAllocWatcher(peer, given)],
    ['DockerDriver', '(options)', (given) => new DockerDriver(given)],
    ['spec of DockerDriver', '(options)', (given) => containers.parse(given)],
    ['create of a spec', 'create', (given) => containers.parse({ image: 'a', create: given })],
    ['env of a spec', 'env', (given) => containers.parse({ image: 'a', env: given })],
    ['dockerTarget', '(options)', (given) => dockerTarget(docker, 'a', given)],
    ['env of dockerImages', 'env', (given) => dockerImages(docker, given)],
    ['dockerAuth', '(options)', (given) => dockerAuth(given)],
    ['staticAuth', 'entries', (given) => staticAuth(given)],
    ['ProcessDriver', '(options)', (given) => new ProcessDriver(given)],
    ['spec of ProcessDriver', '(options)', (given) => processes.parse(given)],
    ['ports of a spec', 'ports', (given) => processes.parse({ argv: ['a'], ports: given })],
    ['httpFiles', '(options)', (given) => httpFiles(given)],
    ['lmdbStore', '(options)', async (given) => lmdbStore(given)],
  ])('%s', async (_, path, call) => {
    const words = [[], null, 5].map((given) => [given, 'must be an object'] as const);
    const plain = [new Map(), new Date(0)].map((given) => [given, 'must be a plain object, such as { … }'] as const);
    for (const [given, problem] of [...words, ...plain]) {
      const settled = new Promise((resolve) => resolve(call(given as never)));
      await expect(settled).rejects.toMatchObject({
        code: 'ERR_INVALID_OPTION',
        message: `Option ${path}: ${problem}`,
        details: { path },
      });
    }
  });
});

describe('G-2 what a driver is told of a task is checked before anything is done for it', () => {
  const context = { owner: 'a/b', allocId: 'a', task: 'b', spec: {}, specHash: 'h', report: () => undefined };
  const drivers = [processes, containers];

  it.each([
    [{ owner: undefined }, 'owner', 'must be text'],
    [{ owner: 5 }, 'owner', 'must be text'],
    [{ owner: '' }, 'owner', 'must not be empty'],
    [{ allocId: null }, 'allocId', 'must be text'],
    [{ task: [] }, 'task', 'must be text'],
    [{ specHash: 5 }, 'specHash', 'must be text'],
    [{ report: 'x' }, 'report', 'must be a function'],
    [{ signal: 'x' }, 'signal', 'must be an AbortSignal'],
  ])('prestart() %j: %s %s', async (wrong, path, problem) => {
    for (const driver of drivers) {
      const prestart = driver.prestart({ ...context, ...wrong } as never);
      await expect(prestart).rejects.toMatchObject({ message: `Option ${path}: ${problem}`, details: { path } });
    }
  });

  it.each([
    [{}, 'owner', 'is required'],
    [{ owner: 5 }, 'owner', 'must be text'],
    [{ owner: 'a/b', signal: 'x' }, 'signal', 'must be an AbortSignal'],
  ])('recover() %j: %s %s', async (call, path, problem) => {
    const recover = processes.recover({ pid: 2, startedAt: 1, directory: '/a' }, call as never);
    await expect(recover).rejects.toMatchObject({ message: `Option ${path}: ${problem}`, details: { path } });
  });

  it.each([
    [{ signal: 'x' }, 'signal', 'must be an AbortSignal'],
    [{ signl: undefined }, 'signl', 'is not an option; check its spelling'],
  ])('list() and start() %j: %s %s', async (call, path, problem) => {
    const asked = [processes.list(call as never), processes.start({} as never, call as never)];
    for (const one of asked) {
      await expect(one).rejects.toMatchObject({ message: `Option ${path}: ${problem}`, details: { path } });
    }
  });
});
