/**
 * A durable state store in one file, on LMDB.
 *
 * @packageDocumentation
 */
export { lmdbStore } from './lmdb-store.js';
