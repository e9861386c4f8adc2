import { readFileSync, readlinkSync } from 'node:fs';
import Docker from 'dockerode';
import { findProgram } from './children.js';
import { pidsWhere, startDockerd } from './dockerd.js';
import { absent, RUN_LABEL, type Engine, type Started } from './parts.js';

/**
 * The engine of the run: the one named by HANDOVER_ENGINE_SOCKET, else one that answers already, else a dockerd of our
 * own. An engine that runs already goes first because two dockerds on one machine share a bridge and the firewall:
 * the second one breaks the networks of the first.
 */
export async function startEngine(folder: string, runId: string): Promise<Started<Engine>> {
  const named = process.env['HANDOVER_ENGINE_SOCKET'];
  if (named !== undefined) return reuse(named, await versionOf(named), runId);
  const running = await findRunning();
  if (running !== undefined) return reuse(running.socketPath, running.version, runId);
  const program = findProgram('dockerd');
  if (program === undefined) return missing('no engine answers and dockerd is not installed');
  if (process.getuid?.() !== 0) return missing('no engine answers, and dockerd can be started by root only');
  const other = otherDockerd();
  if (other !== undefined) {
    return missing(`another dockerd runs (pid ${other}): name its socket by HANDOVER_ENGINE_SOCKET, or end it`);
  }
  return startOwn(program, folder);
}

const missing = (reason: string): Started<Engine> => ({ part: absent(reason), end: async () => {} });

function reuse(socketPath: string, version: string, runId: string): Started<Engine> {
  return {
    part: { available: true, socketPath, version },
    end: () => sweep(new Docker({ socketPath }), { label: [`${RUN_LABEL}=${runId}`] }),
  };
}

async function findRunning(): Promise<{ socketPath: string; version: string } | undefined> {
  const host = process.env['DOCKER_HOST'];
  const sockets = [host?.startsWith('unix://') === true ? host.slice('unix://'.length) : '', '/var/run/docker.sock'];
  for (const socketPath of sockets.filter((path) => path !== '')) {
    try {
      return { socketPath, version: await versionOf(socketPath) };
    } catch {
      // Nobody answers there: the next one.
    }
  }
  return undefined;
}

async function versionOf(socketPath: string): Promise<string> {
  return (await new Docker({ socketPath }).version()).Version;
}

function otherDockerd(): number | undefined {
  const ours = readlinkSync('/proc/self/ns/net');
  return pidsWhere(
    (pid) =>
      readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'dockerd' && readlinkSync(`/proc/${pid}/ns/net`) === ours,
  )[0];
}

async function startOwn(program: string, folder: string): Promise<Started<Engine>> {
  const { socketPath, end } = await startDockerd(program, folder);
  return {
    part: { available: true, socketPath, version: await versionOf(socketPath) },
    async end() {
      await sweep(new Docker({ socketPath }), {}).catch(() => {});
      await end();
    },
  };
}

async function sweep(docker: Docker, filters: Record<string, string[]>): Promise<void> {
  const containers = await docker.listContainers({ all: true, filters });
  await Promise.allSettled(containers.map(({ Id }) => docker.getContainer(Id).remove({ force: true, v: true })));
  if (filters['label'] === undefined) return;
  const images = await docker.listImages({ filters });
  await Promise.allSettled(images.map(({ Id }) => docker.getImage(Id).remove({ force: true })));
}
