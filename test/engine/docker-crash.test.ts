import { ImageCoordinator, type TaskHandle } from 'handover';
import { DockerDriver, type DockerLike, type DockerPrepared, dockerImages } from 'handover/docker';
import { expect, it, onTestFinished } from 'vitest';
import { type RealEngine, uniqueName } from './harness/index.js';
import { type IsolatedEngine, isolatedEngine, isolatedSuite } from './harness/isolated-engine.js';

/** Those of prestart, start, stop and destroy. */
const CALLS = 9;

/** A client whose engine is killed as its nth call about containers begins, and comes back by itself. */
class Doomed implements DockerLike {
  nth = Infinity;
  seen = 0;
  back: Promise<void> = Promise.resolve();
  readonly modem: DockerLike['modem'];

  constructor(engine: IsolatedEngine) {
    const { modem } = engine.docker as DockerLike;
    const dial: DockerLike['modem']['dial'] = (options, done) => {
      const { path } = options as { readonly path: string };
      const doomed = path.startsWith('/containers') && this.seen++ === this.nth;
      if (doomed) this.back = engine.crash().then(() => engine.revive());
      modem.dial(options, done);
    };
    this.modem = Object.create(modem, { dial: { value: dial } }) as DockerLike['modem'];
  }
}

async function world(real: RealEngine, liveRestore: boolean) {
  const name = uniqueName('doomed');
  await real.pushImage({ name, tag: 'v1' });
  const registry = await real.registryProxy();
  const engine = await isolatedEngine(registry, { liveRestore });
  const docker = new Doomed(engine);
  const images = new ImageCoordinator({ source: dockerImages(engine.docker), removal: { enabled: false } });
  onTestFinished(() => images.close());
  return { engine, docker, images, driver: new DockerDriver({ docker, images }), image: registry.ref(name, 'v1') };
}

isolatedSuite('The engine is killed and started again', (real) => {
  it.each([false, true])(
    'G-8 DP-1 at each call of a container’s life: all settles with the truth, nothing is left; live-restore=%s',
    { timeout: 240_000 },
    async (liveRestore) => {
      const { engine, docker, images, driver, image } = await world(real, liveRestore);
      for (let nth = 0; nth < CALLS; nth++) {
        [docker.nth, docker.seen] = [nth, 0];
        const allocId = uniqueName('alloc');
        const owner = `${allocId}/web`;
        let prepared: DockerPrepared | undefined;
        let handle: TaskHandle | undefined;
        try {
          const spec = { image, networks: 'none' as const };
          prepared = await driver.prestart({
            owner,
            allocId,
            task: 'web',
            spec,
            specHash: 'h',
            report: () => undefined,
          });
          handle = await driver.start(prepared, {});
          await handle.disarm?.({});
          await handle.signal('SIGTERM', {});
          const { by, code } = await handle.wait({});
          // Killed with its engine, or by our signal before that.
          expect([`signal 0`, 'unknown 137', 'unknown null', 'signal 137', 'self 0']).toContain(`${by} ${code}`);
          await handle.destroy();
        } catch (error) {
          expect(error).toMatchObject({
            code: expect.stringMatching(/^ERR_(DRIVER|START_FAILED|PULL_FAILED)$/) as unknown,
          });
        }
        await docker.back;
        expect(docker.seen).toBeGreaterThan(nth);
        docker.nth = Infinity;
        if (handle === undefined) await prepared?.discard();
        await handle?.kill({});
        await handle?.wait({});
        await handle?.destroy();
        const left = await engine.docker.listContainers({ all: true });
        expect([nth, left.map(({ State, Names }) => [State, Names])]).toEqual([nth, []]);
        expect(images.snapshot().flatMap(({ holders }) => holders)).toEqual([]);
      }
    },
  );
});
