import { getEventListeners } from 'node:events';
import Docker from 'dockerode';
import {
  AllocLifecycle,
  type AllocSettings,
  type Clock,
  ImageCoordinator,
  type PullOptions,
  type RemovalOptions,
  memoryRegistrar,
  systemClock,
} from 'handover';
import { DockerDriver, type DockerSpec, dockerImages } from 'handover/docker';
import { eventLog } from 'handover/testing';
import { expect, onTestFinished } from 'vitest';
import {
  type EngineProxy,
  type Probe,
  type RealEngine,
  type RegistryFaults,
  freePort,
  probe,
  uniqueName,
} from './harness/index.js';

/** The real clock, with the timers that are armed now: 0 = nothing was left behind. */
export function countingClock(): Clock & { readonly pending: number } {
  const armed = new Set<object>();
  return {
    now: () => systemClock.now(),
    wall: () => systemClock.wall(),
    random: () => systemClock.random(),
    timer(ms, fire, o) {
      const entry = {};
      if (ms !== Infinity) armed.add(entry);
      const done = (then: () => void) => () => {
        armed.delete(entry);
        then();
      };
      return done(systemClock.timer(ms, done(fire), o));
    },
    get pending() {
      return armed.size;
    },
  };
}

export interface WorldOptions {
  readonly registry?: RegistryFaults;
  readonly pull?: PullOptions;
  readonly removal?: RemovalOptions;
  /** Environment of version 1 of the app. */
  readonly v1?: Readonly<Record<string, string>>;
  /** No fixed host port: the two versions can run side by side. */
  readonly ephemeral?: boolean;
  readonly settings?: AllocSettings;
}

/** Everything an update on the real engine needs, and what it must leave behind. */
export async function replaceWorld(engine: RealEngine, o: WorldOptions = {}) {
  const registry = await engine.registryProxy(o.registry);
  const proxy: EngineProxy = await engine.engineProxy();
  const docker = new Docker({ socketPath: proxy.socketPath });
  const clock = countingClock();
  const log = eventLog();
  const registrar = memoryRegistrar();
  const env = { clock, onEvent: log.onEvent, registrar };
  const images = new ImageCoordinator({ source: dockerImages(docker), pull: o.pull, removal: o.removal }, env);
  const driver = new DockerDriver({ docker, images }, env);
  const app = uniqueName('web');
  const port = await freePort();
  const allocs: AllocLifecycle[] = [];

  const alloc = (id: string, image: string, spec: Partial<DockerSpec> = {}, settings: AllocSettings = {}) => {
    const ports = { http: { container: 8080, ...(o.ephemeral === true ? {} : { host: port }) } };
    const made: AllocLifecycle = new AllocLifecycle(
      {
        id: uniqueName(id),
        tasks: [{ name: 'web', driver, spec: { image, ports, ...spec } }],
        services: [{ service: app, task: 'web', port: 'http' }],
        health: {
          minHealthyTime: '200ms',
          checks: [{ name: 'up', type: 'http', port: 'http', path: '/health', interval: '100ms' }],
        },
        shutdown: { killTimeout: '3s', shutdownDelay: 0 },
        ...o.settings,
        ...settings,
      },
      env,
    );
    allocs.push(made);
    return made;
  };

  /** Pushes a version of the app; the engine does not have it yet. */
  const push = async (tag: string, spec: { paddingMb?: number; env?: Readonly<Record<string, string>> } = {}) => {
    const image = await engine.pushImage({ name: app, tag, ...spec });
    return { ...image, ref: registry.ref(app, tag) };
  };

  const v1 = await push('v1', { ...(o.v1 && { env: o.v1 }) });
  const current = alloc('v1', v1.ref);
  await current.start();
  await current.until('healthy');

  const containerOf = (one: AllocLifecycle): string | undefined =>
    (one.handle('web')?.state as { containerId: string } | undefined)?.containerId;
  const address = (): string => {
    const { address: host, port: at } = current.handle('web')!.endpoints['http']!;
    return `http://${host}:${at}/`;
  };

  onTestFinished(async () => {
    for (const one of allocs) await one.detach();
    await images.close();
    const left = await engine.docker.listContainers({ all: true, filters: { label: ['handover.alloc'] } });
    for (const { Id, Labels } of left) {
      if (allocs.some(({ id }) => id === Labels['handover.alloc']))
        await engine.docker.getContainer(Id).remove({ force: true });
    }
  });

  return {
    ...{
      registry,
      proxy,
      docker,
      clock,
      log,
      registrar,
      env,
      images,
      driver,
      port,
      app,
      current,
      alloc,
      push,
      containerOf,
    },
    before: containerOf(current),
    watch: (): Probe => probe(address(), { everyMs: 10 }),

    /** Containers of this world, by alloc. */
    async containers(): Promise<Record<string, string>> {
      const found = await engine.docker.listContainers({ all: true, filters: { label: ['handover.alloc'] } });
      const ours = found.filter(({ Labels }) => allocs.some(({ id }) => id === Labels['handover.alloc']));
      return Object.fromEntries(ours.map(({ Labels, State }) => [Labels['handover.alloc']!, State]));
    },

    /** The old one serves as if nothing had happened, and nothing else is there. */
    async expectUntouched(requests: Probe, signal?: AbortSignal): Promise<void> {
      const { failed, versions } = await requests.stop();
      expect({ failed, versions }).toEqual({ failed: 0, versions: ['v1'] });
      expect(current.state).toBe('running');
      expect(containerOf(current)).toBe(this.before);
      expect(await this.containers()).toEqual({ [current.id]: 'running' });
      expect(registrar.instances().map(({ id }) => id)).toEqual(current.status().registered.map(({ id }) => id));
      expect(current.status().registered).toHaveLength(1);
      const owners = images
        .snapshot()
        .flatMap(({ holders, waiters }) => [...holders.map(({ owner }) => owner), ...waiters]);
      expect(owners).toEqual([`${current.id}/web`]);
      if (signal !== undefined) expect(getEventListeners(signal, 'abort')).toEqual([]);
      await this.expectNoTimers();
    },

    /** Once everything is let go of, nothing is armed. */
    async expectNoTimers(): Promise<void> {
      for (const one of allocs) await one.detach();
      await images.close();
      expect(clock.pending).toBe(0);
    },
  };
}
