import Docker from 'dockerode';
import { AllocLifecycle, ImageCoordinator, memoryRegistrar } from 'handover';
import { DockerDriver, dockerImages } from 'handover/docker';
import { FakeEngine } from 'handover/testing';
import { expect, it, onTestFinished } from 'vitest';
import { callsOfReplace, LEAST_CALLS, LEAST_OF_REPLACE, plain } from './least-calls.js';

const IMAGE = 'app:v1';

async function world() {
  const engine = await FakeEngine.start();
  engine.put(IMAGE);
  const docker = new Docker({ socketPath: engine.socketPath });
  const images = new ImageCoordinator({ source: dockerImages(docker), removal: { enabled: false } });
  onTestFinished(async () => {
    await images.close();
    await engine.close();
  });
  return { engine, images, driver: new DockerDriver({ docker, images }) };
}

it('B12 each step of one task asks the engine for the least, in this order', async () => {
  const { engine, driver } = await world();
  let seen = 0;
  const fresh = (): readonly string[] => {
    const calls = plain(engine.calls.slice(seen), IMAGE);
    seen = engine.calls.length;
    return calls;
  };
  const spec = driver.parse({ image: IMAGE });
  const ctx = { owner: 'a/web', allocId: 'a', task: 'web', spec, specHash: 'h', report: () => undefined };
  const prepared = await driver.prestart(ctx);
  expect([...fresh()].sort()).toEqual([...LEAST_CALLS.prestart].sort());
  const handle = await driver.start(prepared, {});
  expect(fresh()).toEqual(LEAST_CALLS.start);
  const wait = handle.wait({});
  await handle.disarm({});
  await handle.signal('SIGTERM', {});
  await wait;
  expect(fresh()).toEqual(LEAST_CALLS.stop);
  await handle.destroy();
  expect(fresh()).toEqual(LEAST_CALLS.destroy);
});

it('B12 a whole replace() asks the engine for no more than its steps', async () => {
  const { engine, driver } = await world();
  const alloc = (id: string, VERSION: string): AllocLifecycle =>
    new AllocLifecycle(
      {
        ...{ id, health: { minHealthyTime: 0 } },
        tasks: [{ name: 'web', driver, spec: { image: IMAGE, env: { VERSION } } }],
      },
      { registrar: memoryRegistrar() },
    );
  const current = alloc('web-1', 'v1');
  await current.start({});
  expect(await callsOfReplace(current, alloc('web-2', 'v2'), () => engine.calls, IMAGE)).toEqual(LEAST_OF_REPLACE);
});
