import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findProgram, startChild, untilReady } from './children.js';
import { absent, type Part, type Registry, type Started } from './parts.js';
import { freePort } from './ports.js';

/** The registry of the run: the one on HANDOVER_REGISTRY_PORT, else one of our own on a free port of 127.0.0.1. */
export async function startRegistry(folder: string): Promise<Started<Registry>> {
  const named = process.env['HANDOVER_REGISTRY_PORT'];
  if (named !== undefined) {
    await ping(Number(named));
    return { part: { available: true, port: Number(named) }, end: async () => {} };
  }
  return serve(folder, {}, ping);
}

/** Who may pull from the guarded registry; in base64, the password has characters that URLs do not. */
export const LOGIN = { username: 'handover', password: 'c0rrect~~~horse???battery>>>' };

/** `htpasswd -nbB` of {@link LOGIN}; the registry takes no other kind of hash. */
const HTPASSWD = 'handover:$2b$05$abcdefghijklmnopqrstuuwaai7G4hmP6oAC0XEohpTeHQVEGdqnS\n';

/** A registry that has what the other one has, as its mirror, for those who log in. */
export async function startGuardedRegistry(folder: string, mirrored: Part<Registry>): Promise<Started<Registry>> {
  if (!mirrored.available) return { part: mirrored, end: async () => {} };
  mkdirSync(folder, { recursive: true });
  const path = join(folder, 'htpasswd');
  writeFileSync(path, HTPASSWD);
  const config = {
    auth: { htpasswd: { realm: 'handover', path } },
    proxy: { remoteurl: `http://127.0.0.1:${mirrored.port}` },
  };
  return serve(folder, config, (port) => ping(port, 401));
}

async function serve(
  folder: string,
  more: object,
  answers: (port: number) => Promise<void>,
): Promise<Started<Registry>> {
  const program = findProgram('docker-registry');
  if (program === undefined) return { part: absent('docker-registry is not installed'), end: async () => {} };

  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const config = {
    version: '0.1',
    log: { level: 'warn', accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(folder, 'data') }, delete: { enabled: true } },
    // Absolute upload addresses would lead around the proxy.
    http: { addr: `127.0.0.1:${port}`, relativeurls: true },
    ...more,
  };
  const path = join(folder, 'config.yml');
  writeFileSync(path, JSON.stringify(config));
  const child = startChild(program, ['serve', path], join(folder, 'registry.log'));
  try {
    await untilReady('docker-registry', child, () => answers(port), 30_000);
  } catch (cause) {
    await child.end(1_000);
    throw cause;
  }
  return { part: { available: true, port }, end: () => child.end(5_000) };
}

async function ping(port: number, status = 200): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${port}/v2/`);
  if (answer.status !== status) throw new Error(`the registry on port ${port} answers ${answer.status}`);
}
