/* What the types promise to refuse and to narrow: compiled against the packed library, never run. */
import {
  AllocLifecycle,
  ImageCoordinator,
  ShutdownSequencer,
  type AllocEnv,
  type AllocSpec,
  type HandoverError,
  type TaskDriver,
  findError,
  isHandoverError,
  replace,
} from 'handover';
import { DockerDriver, type DockerLike, type DockerSpec, dockerImages } from 'handover/docker';
import { httpFiles } from 'handover/process';
import { type VmSpec, microvm } from './microvm-driver.js';

declare const env: AllocEnv;
declare const wire: { name: string; driver: string; spec: unknown };
declare const docker: DockerLike;
declare const anything: unknown;

const images = new ImageCoordinator({ source: dockerImages(docker) }, env);
const files = new ImageCoordinator({ source: httpFiles({ directory: '/x' }) }, env);
const driver = new DockerDriver({ docker, images });

// @ts-expect-error the files' coordinator cannot serve the Docker driver
new DockerDriver({ docker, images: files });
// @ts-expect-error an unparsed spec from the wire does not go in
new AllocLifecycle({ id: 'a', tasks: [{ name: 'w', driver, spec: wire.spec }] }, env);
// @ts-expect-error a spec that is not of its driver does not compile
new AllocLifecycle({ id: 'a', tasks: [{ name: 'w', driver, spec: { imag: 'typo' } }] }, env);
// @ts-expect-error nor where the lifecycle's own type is erased
export const kept: AllocLifecycle[] = [new AllocLifecycle({ id: 'x', tasks: [{ name: 'w', driver: microvm, spec: { image: 'x' } }] })];

// typed union for my own data base: name of the driver -> its spec
type SpecOf<D> = D extends TaskDriver<infer S, any, any> ? S : never;
interface Drivers {
  docker: DockerDriver;
  microvm: typeof microvm;
}
type Row = { [K in keyof Drivers]: { name: string; driver: K; spec: SpecOf<Drivers[K]> } }[keyof Drivers];
export const row: Row = { name: 'x', driver: 'docker', spec: { image: 'y' } satisfies DockerSpec };
export const vmRow: Row = {
  name: 'x',
  driver: 'microvm',
  spec: { kernel: 'k', rootfs: 'r', vcpus: 1, memMiB: 1 } satisfies VmSpec,
};
// @ts-expect-error wrong pair
export const bad: Row = { name: 'x', driver: 'microvm', spec: { image: 'y' } };

// @ts-expect-error a misplaced delay is caught while typing (G-2)
new ImageCoordinator({ source: dockerImages(docker), delay: '3m' });
// @ts-expect-error likewise in the sequencer
new ShutdownSequencer({ shutdowndelay: 5 });
// G-2: undefined is the default, also under exactOptionalPropertyTypes
new ImageCoordinator({ source: dockerImages(docker), removal: { delay: undefined } });

export function reason(e: unknown): string {
  if (isHandoverError(e, 'ERR_PULL_FAILED')) return e.details.reason;
  if (isHandoverError(e)) {
    // @ts-expect-error without the code the details are a union
    void e.details.reason;
    if (e.code === 'ERR_OVERLAP_IMPOSSIBLE') return e.details.resources[0]?.key ?? '';
  }
  return findError(e, 'ERR_NAME_TAKEN', 'ERR_PREVIOUS_RUNNING')?.message ?? String(e);
}
export const anyCause: HandoverError | undefined = findError(anything, 'ERR_CLOSED');
const erased: AllocSpec = { id: 'y', tasks: [{ name: 'w', driver, spec: { image: 'x' } }] };
const list: AllocLifecycle[] = [new AllocLifecycle(erased, env)];
export const serial = JSON.stringify(list);
images.on('image:progress', (e) => {
  e.progress.bytes.done satisfies number;
});
// @ts-expect-error not an event of this emitter
images.on('alloc:changed', () => undefined);
images.options.removal.delay satisfies number;

export async function deploy(next: AllocLifecycle, current?: AllocLifecycle): Promise<string> {
  const result = await replace(current, next, { order: 'stop-first', gate: 'prepared', onNextFailed: 'keep' });
  switch (result.outcome) {
    case 'replaced':
    case 'detached':
    case 'stopped':
      return result.outcome;
    case 'kept-previous':
    case 'failed':
      return findError(result.cause, 'ERR_PULL_FAILED')?.details.reason ?? result.cause?.message ?? '';
  }
}
