/**
 * Holds the real parts: starts them, prints what the tests need as one line of JSON, ends them when it is told to.
 *
 *   node --import tsx test/engine/harness/serve.ts
 *     for development: prints the variables with which any number of test runs use these parts; SIGINT or SIGTERM ends.
 *   … serve.ts --for-runner
 *     for the setup of the test run: prints the parts, and ends when its standard input does. That happens however the
 *     runner ends, also when it is killed: nothing that it started is left behind.
 */
import { once } from 'node:events';
import { startParts } from './start.js';

const forRunner = process.argv.includes('--for-runner');
const told = forRunner
  ? once(process.stdin.resume(), 'close')
  : Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);

const { parts, end } = await startParts();
const { engine, registry, app } = parts;
for (const part of [engine, registry, app]) {
  if (!part.available) process.stderr.write(`Tests of the real engine are skipped: ${part.reason}\n`);
}
const variables = {
  HANDOVER_ENGINE_SOCKET: engine.available ? engine.socketPath : undefined,
  HANDOVER_REGISTRY_PORT: registry.available ? String(registry.port) : undefined,
};
process.stdout.write(`${JSON.stringify(forRunner ? parts : variables)}\n`);
await told;
await end();
