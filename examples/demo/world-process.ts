import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AllocLifecycle, ImageCoordinator } from 'handover';
import { ProcessDriver, httpFiles } from 'handover/process';
import { freePort } from './free-port.js';
import { serverSource } from './server.js';
import { serveSlowly } from './slow-files.js';
import { HEALTH, type OnEvent, type World } from './world.js';

/** Version 2 is 6 MB on a line of 2 MB/s: three seconds. */
const PADDING = 6_000_000;
const BYTES_PER_SECOND = 2_000_000;

/** Two versions of a small HTTP server as OS processes on one fixed port. */
export async function processWorld(onEvent: OnEvent): Promise<World> {
  const folder = await mkdtemp(join(tmpdir(), 'handover-demo-'));
  const files = await serveSlowly(
    { '/server-1.mjs': serverSource('v1', 0), '/server-2.mjs': serverSource('v2', PADDING) },
    BYTES_PER_SECOND,
  );
  const env = { onEvent };
  const port = await freePort();
  // Content is removed as soon as nobody needs it, so that the second run downloads like the first.
  const artifacts = new ImageCoordinator(
    { source: httpFiles({ directory: join(folder, 'files') }), removal: { delay: 0 } },
    env,
  );
  const driver = new ProcessDriver({ directory: join(folder, 'tasks'), artifacts }, env);
  const made: AllocLifecycle[] = [];

  const alloc = (id: string, version: 1 | 2): AllocLifecycle => {
    const file = `server-${version}.mjs`;
    const spec = {
      artifact: `${files.url}/${file}`,
      argv: [process.execPath, file],
      env: { PORT: String(port) },
      ports: { http: port },
    };
    const health = { ...HEALTH, checks: [{ name: 'up', type: 'http', port: 'http', path: '/' } as const] };
    const one: AllocLifecycle = new AllocLifecycle({ id, tasks: [{ name: 'web', driver, spec }], health }, env);
    made.push(one);
    return one;
  };

  async function reset(): Promise<void> {
    await Promise.all(made.splice(0).map(clearAway));
  }

  return {
    url: `http://127.0.0.1:${port}/`,
    what: `two OS processes on port ${port}, a ${PADDING / 1e6} MB file at ${BYTES_PER_SECOND / 1e6} MB/s`,
    previous: (run) => alloc(`${run}-v1`, 1),
    next: (run) => alloc(`${run}-v2`, 2),
    reset,
    async end() {
      await reset();
      await artifacts.close();
      await files.end();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Whatever state it is in, nothing of it is left. */
export async function clearAway(alloc: AllocLifecycle): Promise<void> {
  const stop = alloc.stop({ reason: 'operator' });
  stop.killNow();
  await stop.result;
  await alloc.destroy();
  await alloc.detach();
}
