import { randomBytes } from 'node:crypto';
import Docker from 'dockerode';
import { AllocLifecycle, type ArtifactSource, ImageCoordinator, isHandoverError } from 'handover';
import { DockerDriver, dockerImages } from 'handover/docker';
import type { Flags } from './flags.js';
import { freePort } from './free-port.js';
import { UsageError } from './usage-error.js';
import { clearAway } from './world-process.js';
import { HEALTH, type OnEvent, type World } from './world.js';

/** The demo cannot do what was asked here; the message is for a person. */
export class NotHere extends Error {}

/**
 * Two containers of the user's images on one fixed host port.
 *
 * @throws UsageError for a reference that is none, NotHere when the engine cannot be reached, or has the image of version
 *   2 already
 */
export async function dockerWorld(flags: Extract<Flags, { kind: 'docker' }>, onEvent: OnEvent): Promise<World> {
  const { from, to, containerPort, path } = flags;
  const docker = new Docker();
  const env = { onEvent };
  const source = dockerImages(docker);
  if (keyOf(source, 'from', from) === keyOf(source, 'to', to)) {
    throw new UsageError('--from and --to must be two images');
  }
  await refuseUnlessAbsent(source, to);
  const port = flags.port ?? (await freePort());
  // What was pulled for the demo is removed as soon as nobody needs it; what was there before stays (IC-17).
  const images = new ImageCoordinator({ source, removal: { delay: 0 } }, env);
  const driver = new DockerDriver({ docker, images }, env);
  const mark = randomBytes(3).toString('hex');
  const made: AllocLifecycle[] = [];

  const alloc = (id: string, image: string): AllocLifecycle => {
    const spec = { image, pull: 'if-absent' as const, ports: { http: { container: containerPort, host: port } } };
    const health = { ...HEALTH, checks: [{ name: 'up', type: 'http', port: 'http', path } as const] };
    const one: AllocLifecycle = new AllocLifecycle(
      { id: `${id}-${mark}`, tasks: [{ name: 'web', driver, spec }], health },
      env,
    );
    made.push(one);
    return one;
  };

  async function reset(): Promise<void> {
    await Promise.all(made.splice(0).map(clearAway));
  }

  return {
    url: `http://127.0.0.1:${port}${path}`,
    what: `two containers on host port ${port}: ${from} → ${to}`,
    previous: (run) => alloc(`${run}-v1`, from),
    next: (run) => alloc(`${run}-v2`, to),
    reset,
    async end() {
      await reset();
      await images.close();
    },
  };
}

/** Both spellings of one image have one key. */
function keyOf(source: ArtifactSource, flag: string, reference: string): string {
  try {
    return source.normalise(reference).key;
  } catch (error) {
    if (isHandoverError(error)) throw new UsageError(`--${flag}: ${error.message}`);
    throw error;
  }
}

async function refuseUnlessAbsent(source: ArtifactSource, to: string): Promise<void> {
  const found = await source.find(to, {}).catch((error: unknown) => {
    throw new NotHere(`The Docker engine cannot be asked: ${error instanceof Error ? error.message : String(error)}`);
  });
  if (found === undefined) return;
  throw new NotHere(
    `${to} is on this machine already, so there would be nothing to pull. ` +
      `The demo removes no image that it has not pulled itself: do 'docker rmi ${to}', or choose another one.`,
  );
}
