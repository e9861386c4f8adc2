import Docker from 'dockerode';
import { AllocLifecycle, ImageCoordinator, NextAllocWatcher, PrevAllocWatcher, ShutdownSequencer } from 'handover';
import { DockerDriver, dockerAuth, dockerImages, dockerTarget, staticAuth } from 'handover/docker';
import { lmdbStore } from 'handover/lmdb';
import { ProcessDriver, httpFiles } from 'handover/process';
import { describe, expect, it } from 'vitest';

const docker = new Docker({ socketPath: '/nowhere' });
const source = dockerImages(docker);
const peer = { id: 'a', watch: () => expect.unreachable() };
const processes = new ProcessDriver({ directory: '/nowhere' });
const containers = new DockerDriver({ docker, images: new ImageCoordinator({ source }) });
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
    for (const given of [[], null, 5]) {
      const settled = new Promise((resolve) => resolve(call(given as never)));
      await expect(settled).rejects.toMatchObject({
        code: 'ERR_INVALID_OPTION',
        message: `Option ${path}: must be an object`,
        details: { path },
      });
    }
  });
});
