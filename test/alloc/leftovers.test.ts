import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Docker from 'dockerode';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type AllocSpec, AllocLifecycle, ImageCoordinator } from 'handover';
import { DockerDriver, dockerImages } from 'handover/docker';
import { ProcessDriver } from 'handover/process';
import { FakeEngine } from 'handover/testing';

/** A process that prepared it and went away; then another one that does not want it any more. */
async function abandon(spec: () => AllocSpec): Promise<AllocLifecycle> {
  const before = new AllocLifecycle(spec());
  await before.prestart();
  await before.detach();
  const after = await AllocLifecycle.open(spec());
  expect(after.status()).toMatchObject({ state: 'pending', tasks: { web: { phase: 'prepared' } } });
  await after.discard();
  return after;
}

describe('what was only prepared is removed by the alloc that finds it', () => {
  it('ST-2 DP-2: a folder of the process driver', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'handover-'));
    onTestFinished(() => rm(directory, { recursive: true, force: true }));
    const { state } = await abandon(() => ({
      id: 'a',
      tasks: [{ name: 'web', driver: new ProcessDriver({ directory }), spec: { argv: ['/bin/sleep', '1'] } }],
    }));
    expect(state).toBe('discarded');
    expect(await new ProcessDriver({ directory }).list({})).toEqual([]);
    expect(await readdir(directory)).toEqual([]);
  });

  it('ST-2 DP-2: a container of the Docker driver, without a question to the registry', async () => {
    const engine = await FakeEngine.start();
    onTestFinished(() => engine.close());
    engine.publish('app:v1');
    const docker = new Docker({ socketPath: engine.socketPath });
    const closers: (() => Promise<void>)[] = [];
    const { state } = await abandon(() => {
      const images = new ImageCoordinator({ source: dockerImages(docker) });
      closers.push(() => images.close());
      return {
        id: 'a',
        tasks: [{ name: 'web', driver: new DockerDriver({ docker, images }), spec: { image: 'app:v1' } }],
      };
    });
    expect([state, engine.containers]).toEqual(['discarded', []]);
    expect(engine.calls.filter((call) => call.includes('/images/create'))).toHaveLength(1);
    for (const close of closers) await close();
  });
});
