/**
 * Docker: the engine's images as a source for `ImageCoordinator`, credentials for its registries, and a driver that runs tasks as containers.
 *
 * @packageDocumentation
 */
export { dockerAuth, type DockerAuthOptions } from './auth/docker-auth.js';
export { staticAuth } from './auth/static-auth.js';
export { DockerDriver, type DockerDriverOptions } from './driver.js';
export type { DockerHandle, DockerState } from './driver-handle.js';
export type { DockerPrepared } from './driver-prepared.js';
export type { ImageLeases } from './driver-prestart.js';
export { dockerImages } from './image-source.js';
export type {
  DockerDevice,
  DockerHealthcheck,
  DockerMount,
  DockerNetwork,
  DockerPort,
  DockerResources,
  DockerSpec,
  Size,
} from './spec.js';
export { dockerTarget } from './target.js';
export type { DockerImage, DockerLike } from './types.js';
