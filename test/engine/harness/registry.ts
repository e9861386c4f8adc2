import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findProgram, startChild, untilReady } from './children.js';
import { absent, type Registry, type Started } from './parts.js';
import { freePort } from './ports.js';

/** The registry of the run: the one on HANDOVER_REGISTRY_PORT, else one of our own on a free port of 127.0.0.1. */
export async function startRegistry(folder: string): Promise<Started<Registry>> {
  const named = process.env['HANDOVER_REGISTRY_PORT'];
  if (named !== undefined) {
    await ping(Number(named));
    return { part: { available: true, port: Number(named) }, end: async () => {} };
  }
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
  };
  const path = join(folder, 'config.yml');
  writeFileSync(path, JSON.stringify(config));
  const child = startChild(program, ['serve', path], join(folder, 'registry.log'));
  try {
    await untilReady('docker-registry', child, () => ping(port), 30_000);
  } catch (cause) {
    await child.end(1_000);
    throw cause;
  }
  return { part: { available: true, port }, end: () => child.end(5_000) };
}

async function ping(port: number): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${port}/v2/`);
  if (!answer.ok) throw new Error(`the registry on port ${port} answers ${answer.status}`);
}
