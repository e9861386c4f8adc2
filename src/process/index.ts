/**
 * OS processes as tasks, and files over HTTP(S) as their content: the whole flow without a container engine.
 *
 * @packageDocumentation
 */
export { type HttpFilesOptions, httpFiles } from './http-files.js';
export type { FileArtifact } from './file-store.js';
