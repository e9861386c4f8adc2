/**
 * Holds an isolated engine: runs in namespaces of its own (see isolated-engine.ts), brings up their loopback, leads one
 * port of it to the registry outside, and starts a dockerd, perhaps with a small disk. Takes `crash` and `revive` as
 * lines of its standard input, answers each with one line, and ends everything when that input ends: however the test
 * run ends, nothing is left behind.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { findProgram } from './children.js';
import { startDockerd } from './dockerd.js';
import type { IsolatedOrder } from './isolated-engine.js';

const {
  folder,
  port,
  registrySocket,
  diskMb,
  liveRestore = false,
} = JSON.parse(process.env['HANDOVER_ISOLATED_ENGINE'] ?? '') as IsolatedOrder;

function run(program: string, ...args: readonly string[]): void {
  const { status, stderr, error } = spawnSync(findProgram(program) ?? program, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? stderr}`);
}

run('ip', 'link', 'set', 'lo', 'up');
createServer((inside) => {
  // A unix socket is reached from any network namespace.
  const outside = connect(registrySocket);
  for (const [from, to] of [
    [inside, outside],
    [outside, inside],
  ] as const) {
    from.pipe(to);
    from.on('error', () => to.destroy());
    from.on('close', () => to.destroy());
  }
}).listen(port, '127.0.0.1');

if (diskMb !== undefined) {
  const [disk, data] = [join(folder, 'disk'), join(folder, 'data')];
  mkdirSync(data);
  run('truncate', '-s', `${diskMb}M`, disk);
  run('mkfs.ext4', '-q', '-m', '0', disk);
  run('mount', '-o', 'loop', disk, data);
}

const program = findProgram('dockerd') ?? 'dockerd';
const more = liveRestore ? ['--live-restore'] : [];
let dockerd = await startDockerd(program, folder, more);
const answer = (): void => void process.stdout.write('done\n');
answer();
for await (const line of createInterface(process.stdin)) {
  if (line === 'crash') await dockerd.child.kill();
  else dockerd = await startDockerd(program, folder, more);
  answer();
}
await dockerd.end();
// Whatever else runs here, and every mount, goes with the namespaces.
process.exit(0);
