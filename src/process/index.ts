/**
 * OS processes as tasks, and files over HTTP(S) as their content: the whole flow without a container engine.
 *
 * @packageDocumentation
 */
export { ProcessDriver, type ProcessDriverOptions } from './driver.js';
export type { ProcessHandle, ProcessState } from './handle.js';
export { type HttpFilesOptions, httpFiles } from './http-files.js';
export type { FileArtifact } from './file-store.js';
export type { ProcessPrepared } from './prepared.js';
export type { ArtifactLeases } from './prestart.js';
export type { ProcessSpec } from './spec.js';
