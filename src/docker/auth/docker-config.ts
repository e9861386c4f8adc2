import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import * as v from 'valibot';
import { HandoverError } from '../../errors.js';
import type { Credentials } from '../../image/types.js';
import { entryOf } from './registry-host.js';

/** The parts of Docker's `config.json` that say who we are; entries are looked at when their registry is asked for. */
const CONFIG = v.pipe(
  v.unknown(),
  v.check((content) => !Array.isArray(content)),
  v.object({
    auths: v.nullish(v.record(v.string(), v.unknown()), {}),
    credHelpers: v.nullish(v.record(v.string(), v.string()), {}),
    credsStore: v.nullish(v.string(), ''),
  }),
);

const ENTRY = v.object({
  auth: v.nullish(v.string(), ''),
  username: v.nullish(v.string(), ''),
  password: v.nullish(v.string(), ''),
  identitytoken: v.nullish(v.string(), ''),
});

/** What Docker's `config.json` says now. */
export interface DockerConfig {
  readonly path: string;
  readonly auths: Readonly<Record<string, unknown>>;
  readonly credHelpers: Readonly<Record<string, string>>;
  readonly credsStore: string;
}

/** Where Docker's own client looks. */
export function defaultConfigFile(): string {
  const folder = process.env['DOCKER_CONFIG'] ?? '';
  return join(folder === '' ? join(homedir(), '.docker') : folder, 'config.json');
}

/**
 * Reads the file; one that is not there says nothing.
 *
 * @throws HandoverError `ERR_DRIVER` naming the file when it cannot be read or understood. What is in it is secret, so
 *   neither the message nor a cause shows any of it (G-6)
 */
export async function readDockerConfig(path: string): Promise<DockerConfig> {
  const content = await contentOf(path);
  const result = v.safeParse(CONFIG, content === undefined ? {} : parse(path, content));
  if (result.success) return { path, ...result.output };
  const [part = ''] = (v.getDotPath(result.issues[0]) ?? 'the whole').split('.');
  throw unusable(path, `${part} has not the form that Docker writes`);
}

/**
 * The helper that keeps the credentials of a registry: its own, else the store of all. An empty name means the file
 * itself, as with Docker.
 */
export function helperOf(config: DockerConfig, host: string): string {
  return entryOf(config.credHelpers, host) ?? config.credsStore;
}

/**
 * The credentials of a registry that are in the file itself.
 *
 * @throws HandoverError `ERR_DRIVER` naming file and registry when the entry cannot be understood
 */
export function storedIn(config: DockerConfig, host: string): Credentials | undefined {
  const entry = v.safeParse(ENTRY, entryOf(config.auths, host) ?? {});
  if (!entry.success) throw badEntry(config, host);
  const { auth, identitytoken, ...plain } = entry.output;
  if (identitytoken !== '') return { identityToken: identitytoken };
  const { username, password } = auth === '' ? plain : decode(auth);
  // A client that keeps them in a store leaves an empty entry behind.
  if (auth === '' && username === '') return undefined;
  if (username === '') throw badEntry(config, host);
  return { username, password };
}

/** `name:password` in base64; Docker fills a short password with zeros. */
function decode(auth: string): { readonly username: string; readonly password: string } {
  const plain = Buffer.from(auth, 'base64').toString('utf8');
  const colon = Math.max(0, plain.indexOf(':'));
  return { username: plain.slice(0, colon), password: plain.slice(colon + 1).replace(/\0+$/, '') };
}

async function contentOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const cause = error as NodeJS.ErrnoException;
    if (cause.code === 'ENOENT') return undefined;
    throw unusable(path, cause.message, cause);
  }
}

function parse(path: string, content: string): unknown {
  try {
    return JSON.parse(content) as unknown;
  } catch {
    // The engine's own words quote the text around the mistake.
    throw unusable(path, 'it is not JSON');
  }
}

function badEntry({ path }: DockerConfig, host: string): HandoverError<'ERR_DRIVER'> {
  return unusable(path, `its entry for ${host} is neither "name:password" in base64 nor a token; log in again`);
}

function unusable(path: string, problem: string, cause?: Error): HandoverError<'ERR_DRIVER'> {
  return new HandoverError('ERR_DRIVER', `Cannot take registry credentials from ${path}: ${problem}`, {
    details: { driver: 'docker-config', operation: 'read', path },
    cause,
  });
}
