import type { DockerState } from 'handover/docker';
import { dockerTarget } from 'handover/docker';
import type { ShutdownTarget, TaskHandle } from 'handover';
import { type Bench, bench } from './driver-bench.js';

/** A task that the driver has started. */
export async function started(b: Bench, env: readonly string[] = []): Promise<TaskHandle<DockerState>> {
  return b.driver.start(await b.driver.prestart(b.ask('a', { create: { Env: env } })), {});
}

/** A container that this library did not make. */
export async function stranger(
  hostConfig: object = {},
  image: object = {},
): Promise<Bench & { target: ShutdownTarget }> {
  const b = await bench();
  b.engine.put('db:v1', image);
  b.engine.create('db', { Image: 'db:v1', HostConfig: hostConfig });
  b.engine.startContainer('db');
  return { ...b, target: dockerTarget(b.docker, 'db', {}, { clock: b.clock }) };
}
