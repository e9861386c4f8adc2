import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import Docker from 'dockerode';
import { describe, it, onTestFinished } from 'vitest';
import { findProgram } from './children.js';
import { socketIn } from './dockerd.js';
import { engineSuite, type RealEngine } from './index.js';
import type { RegistryProxy } from './registry-proxy.js';

/** What the process that holds an isolated engine is told. */
export interface IsolatedOrder {
  readonly folder: string;
  /** Where the engine finds the registry, on its own 127.0.0.1. */
  readonly port: number;
  /** Where that leads to. */
  readonly registrySocket: string;
  /** Size of the disk that the engine keeps everything on. Default: that of the machine */
  readonly diskMb?: number;
  /** Containers go on running while the engine is away. */
  readonly liveRestore?: boolean;
}

/** A dockerd of one test, to be killed and filled up. */
export interface IsolatedEngine {
  readonly docker: Docker;
  readonly socketPath: string;
  /** SIGKILL; resolves when it is gone. */
  crash(): Promise<void>;
  /** Starts it again, with what it has on disk; resolves when it answers. */
  revive(): Promise<void>;
}

const SERVE = fileURLToPath(new URL('isolated-serve.ts', import.meta.url));
const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const PROGRAMS = ['dockerd', 'iptables', 'unshare', 'ip', 'mkfs.ext4', 'mount'];
/** Two engines on one machine share a bridge and the firewall; what it mounts and starts ends with the namespaces. */
const NAMESPACES = ['--net', '--mount', '--pid', '--mount-proc', '--fork', '--kill-child'];
/** A shell as the first process buries what the others leave: a dockerd takes a dead containerd for one that runs. */
const FIRST = ['sh', '-c', '"$@"; exit $?', 'sh'];

/**
 * Tests that need an engine of their own besides the real parts, or one skipped test that says why there is none.
 *
 * @throws Error with the reason, when HANDOVER_REQUIRE_ENGINE=1
 */
export function isolatedSuite(name: string, tests: (engine: RealEngine) => void): void {
  const reason = whyNot();
  if (reason === undefined) {
    engineSuite(name, tests);
    return;
  }
  if (process.env['HANDOVER_REQUIRE_ENGINE'] === '1') throw new Error(`HANDOVER_REQUIRE_ENGINE=1, but ${reason}`);
  describe(name, () => it.skip(`skipped: ${reason}`));
}

function whyNot(): string | undefined {
  if (process.getuid?.() !== 0) return 'an engine of its own can be started by root only';
  const absent = PROGRAMS.find((program) => findProgram(program) === undefined);
  if (absent !== undefined) return `${absent} is not installed`;
  const { status, stderr } = spawnSync('unshare', [...NAMESPACES, 'true'], { encoding: 'utf8' });
  return status === 0 ? undefined : `namespaces cannot be made here: ${stderr.trim()}`;
}

/**
 * Starts an engine in namespaces of its own; it ends with the test. Its 127.0.0.1 has nothing but `registry`, on the
 * same port as outside, so that `registry.ref()` holds for it too.
 */
export async function isolatedEngine(
  registry: RegistryProxy,
  o: Pick<IsolatedOrder, 'diskMb' | 'liveRestore'> = {},
): Promise<IsolatedEngine> {
  const folder = mkdtempSync(join(tmpdir(), 'handover-engine-'));
  const registrySocket = join(folder, 'registry.sock');
  const bridge = createServer((inside) => {
    const outside = connect(registry.port, '127.0.0.1');
    inside.pipe(outside).pipe(inside);
    inside.on('error', () => outside.destroy()).on('close', () => outside.destroy());
    outside.on('error', () => inside.destroy()).on('close', () => inside.destroy());
  }).listen(registrySocket);
  await once(bridge, 'listening');
  const order: IsolatedOrder = { folder, port: registry.port, registrySocket, ...o };
  // Not in its command line: whoever names the folder there is ended as a part of the engine.
  const env = { ...process.env, HANDOVER_ISOLATED_ENGINE: JSON.stringify(order) };
  const holder = spawn(
    'unshare',
    [...NAMESPACES, ...FIRST, process.execPath, '--import', 'tsx', SERVE],
    // A process group of its own: Ctrl-C ends the run, and that ends this.
    { cwd: ROOT, detached: true, stdio: ['pipe', 'pipe', 'inherit'], env },
  );
  const exited = once(holder, 'exit');
  const answers = createInterface(holder.stdout)[Symbol.asyncIterator]();
  const answered = async (): Promise<void> => {
    if ((await answers.next()).done === true) throw new Error('The isolated engine has ended: see above.');
  };
  const tell = async (command: 'crash' | 'revive'): Promise<void> => {
    holder.stdin.write(`${command}\n`);
    await answered();
  };
  onTestFinished(async () => {
    holder.stdin.end();
    await exited;
    bridge.close();
    rmSync(folder, { recursive: true, force: true });
  });
  await answered();
  const socketPath = socketIn(folder);
  return {
    ...{ docker: new Docker({ socketPath }), socketPath },
    crash: () => tell('crash'),
    revive: () => tell('revive'),
  };
}
