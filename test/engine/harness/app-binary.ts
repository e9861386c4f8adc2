import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findProgram } from './children.js';
import { absent, type Parts } from './parts.js';

const SOURCE = fileURLToPath(new URL('app/app.c', import.meta.url));
const CACHE = fileURLToPath(new URL('../../../.cache/engine', import.meta.url));

/** Compiles the test app; a source that did not change is compiled once. */
export function compileApp(): Parts['app'] {
  const hash = createHash('sha256').update(readFileSync(SOURCE)).digest('hex').slice(0, 16);
  const path = join(CACHE, `app-${process.arch}-${hash}`);
  if (existsSync(path)) return { available: true, path };
  const gcc = findProgram('gcc');
  if (gcc === undefined) return absent('gcc is not installed: the test app cannot be compiled');
  mkdirSync(dirname(path), { recursive: true });
  const unfinished = `${path}.${process.pid}`;
  const run = spawnSync(gcc, ['-static', '-O2', '-pthread', '-o', unfinished, SOURCE], { encoding: 'utf8' });
  if (run.status !== 0) return absent(`the test app does not compile:\n${run.stderr}`);
  renameSync(unfinished, path);
  return { available: true, path };
}
