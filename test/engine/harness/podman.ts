import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Docker from 'dockerode';
import { describe, it } from 'vitest';
import { findProgram, startChild, untilReady } from './children.js';
import { pidsWhere } from './dockerd.js';
import { engineSuite, type RealEngine } from './index.js';

/** A Podman that speaks the Docker API. */
export interface Podman {
  readonly docker: Docker;
  /** Ends it; its containers must be gone. */
  end(): Promise<void>;
}

/** crun, which it would take, refuses to work where both generations of cgroups are mounted. */
const PROGRAMS = ['podman', 'conmon', 'runc'];

/**
 * Tests on Podman as a second engine, with the registry of the real parts, or one skipped test that says why there is none.
 *
 * @throws Error with the reason, when HANDOVER_REQUIRE_ENGINE=1
 */
export function podmanSuite(name: string, tests: (real: RealEngine) => void): void {
  const absent = PROGRAMS.find((program) => findProgram(program) === undefined);
  const reason = process.getuid?.() === 0 ? absent && `${absent} is not installed` : 'it is run by root only here';
  if (reason === undefined) {
    engineSuite(name, tests);
    return;
  }
  if (process.env['HANDOVER_REQUIRE_ENGINE'] === '1') throw new Error(`HANDOVER_REQUIRE_ENGINE=1, but ${reason}`);
  describe(name, () => it.skip(`skipped: ${reason}`));
}

/**
 * Starts one that shares nothing with a Podman of the machine: storage, configuration and socket are in a folder of its
 * own. Containers need `networks: 'none'`, since its bridge would be one of the machine.
 *
 * @param registryPort - on 127.0.0.1, without TLS
 */
export async function startPodman(registryPort: number): Promise<Podman> {
  const folder = mkdtempSync(join(tmpdir(), 'handover-podman-'));
  const file = (name: string, ...lines: readonly string[]): string => {
    const path = join(folder, name);
    writeFileSync(path, `${lines.join('\n')}\n`);
    return path;
  };
  // The limits that it would set are more than a process without all capabilities may have.
  const limits = 'default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]';
  const config = file('containers.conf', '[containers]', limits);
  const registry = [`location = "127.0.0.1:${registryPort}"`, 'insecure = true'];
  const registries = file('registries.conf', '[[registry]]', ...registry);
  const socketPath = join(folder, 'podman.sock');
  const args = [
    ...['--root', join(folder, 'root'), '--runroot', join(folder, 'run'), '--storage-driver', 'vfs'],
    ...['--tmpdir', join(folder, 'tmp')],
    ...['--runtime', 'runc', '--cgroup-manager', 'cgroupfs', '--events-backend', 'file'],
    ...['system', 'service', '--time', '0', `unix://${socketPath}`],
  ];
  const child = startChild(findProgram('podman') ?? 'podman', args, join(folder, 'podman.log'), {
    ...process.env,
    CONTAINERS_CONF: config,
    CONTAINERS_REGISTRIES_CONF: registries,
  });
  const docker = new Docker({ socketPath });
  const end = async (): Promise<void> => {
    await child.end(10_000);
    // Those that watched over commands stay for some minutes, and would make the folder anew.
    const watchers = (): number[] =>
      pidsWhere((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`${folder}/`));
    for (let tries = 0; tries < 50 && watchers().length > 0; tries++) {
      for (const pid of watchers()) killIfThere(pid);
      await sleep(100);
    }
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    await untilReady('podman', child, () => docker.ping(), 60_000);
  } catch (cause) {
    await end();
    throw cause;
  }
  return { docker, end };
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended since we looked.
  }
}
