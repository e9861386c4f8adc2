import { once } from 'node:events';
import type Docker from 'dockerode';
import { AllocLifecycle, ImageCoordinator, replace } from 'handover';
import { DockerDriver, dockerImages } from 'handover/docker';
import { freePort } from '../../test/engine/harness/ports.js';
import type { Cost, World } from './world.js';

/** One way to update a container on a fixed host port. */
export interface Contender {
  readonly name: string;
  /** Starts version 1, measures its update to version 2, and removes both. */
  run(world: World): Promise<Cost>;
}

const SECOND_NS = 1_000_000_000;

async function pull(docker: Docker, reference: string): Promise<void> {
  const stream = await docker.pull(reference);
  stream.resume();
  await once(stream, 'end');
}

function create({ docker, port }: World, image: string): Promise<Docker.Container> {
  return docker.createContainer({
    Image: image,
    ExposedPorts: { '8080/tcp': {} },
    HostConfig: { PortBindings: { '8080/tcp': [{ HostPort: String(port) }] } },
  });
}

/** By hand, with the fewest calls there are; `prepareFirst` is all the difference. */
function byHand(name: string, prepareFirst: boolean): Contender {
  return {
    name,
    async run(world) {
      const { docker, from, to } = world;
      await pull(docker, from);
      const old = await create(world, from);
      await old.start();
      const made: Docker.Container[] = [old];
      const prepare = async (): Promise<Docker.Container> => {
        await pull(docker, to);
        const next = await create(world, to);
        made.push(next);
        return next;
      };
      try {
        return await world.measure(async () => {
          const early = prepareFirst ? await prepare() : undefined;
          await old.stop({ t: 5 });
          await (early ?? (await prepare())).start();
        });
      } finally {
        for (const container of made) await container.remove({ force: true });
      }
    },
  };
}

const handover: Contender = {
  name: 'handover: replace(), stop-first',
  async run(world) {
    const { docker, from, to, port } = world;
    const images = new ImageCoordinator({ source: dockerImages(docker), removal: { enabled: false } });
    const driver = new DockerDriver({ docker, images });
    const alloc = (id: string, image: string): AllocLifecycle =>
      new AllocLifecycle({
        id,
        tasks: [{ name: 'app', driver, spec: { image, ports: { http: { container: 8080, host: port } } } }],
        health: { minHealthyTime: '100ms', checks: [{ name: 'up', type: 'http', port: 'http', path: '/health' }] },
      });
    const allocs = [alloc('bench-1', from), alloc('bench-2', to)] as const;
    const [current, next] = allocs;
    try {
      await current.start();
      return await world.measure(async () => {
        const { outcome, cause } = await replace(current, next, { order: 'stop-first' });
        if (outcome !== 'replaced') throw new Error(`replace() ended as ${outcome}`, { cause });
      });
    } finally {
      for (const one of allocs) {
        await one.stop({ reason: 'operator' }).result;
        await one.destroy();
      }
      await images.close();
    }
  },
};

const swarm: Contender = {
  name: 'Swarm service, stop-first, host-mode port',
  async run(world) {
    const { docker, from, to, port } = world;
    await docker.swarmInit({ ListenAddr: `127.0.0.1:${await freePort()}`, AdvertiseAddr: '127.0.0.1' });
    const spec = (image: string): Docker.CreateServiceOptions => ({
      Name: 'bench',
      TaskTemplate: { ContainerSpec: { Image: image, StopGracePeriod: 5 * SECOND_NS } },
      Mode: { Replicated: { Replicas: 1 } },
      UpdateConfig: { Order: 'stop-first', Parallelism: 1 },
      EndpointSpec: { Ports: [{ TargetPort: 8080, PublishedPort: port, PublishMode: 'host', Protocol: 'tcp' }] },
    });
    try {
      const { id } = (await docker.createService(spec(from))) as unknown as { id: string };
      const service = docker.getService(id);
      return await world.measure(async () => {
        const { Version } = (await service.inspect()) as { Version: { Index: number } };
        await service.update({ ...spec(to), version: Version.Index });
      });
    } finally {
      await docker.swarmLeave({ force: true });
    }
  },
};

/** In the order in which they take turns; the first is the floor. */
export const CONTENDERS: readonly Contender[] = [
  byHand('floor: pull and create first, then stop and start, by raw calls', true),
  handover,
  byHand('kill first: stop, pull, create, start, by raw calls', false),
  swarm,
];
