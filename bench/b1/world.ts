import Docker from 'dockerode';
import { pushImage } from '../../test/engine/harness/images.js';
import { freePort } from '../../test/engine/harness/ports.js';
import { probe } from '../../test/engine/harness/probe.js';
import { RegistryProxy } from '../../test/engine/harness/registry-proxy.js';
import { startParts } from '../../test/engine/harness/start.js';

/** What one update cost, seen from outside. */
export interface Cost {
  readonly outageMs: number;
  readonly longestMs: number;
  readonly failed: number;
}

/** The parts of all updates that are measured: engine, slow registry, two versions of the app, one fixed port. */
export interface World {
  readonly docker: Docker;
  readonly from: string;
  readonly to: string;
  readonly port: number;
  /** Runs `update` while a client asks every 5 ms, until version 2 has answered. */
  measure(update: () => Promise<void>): Promise<Cost>;
  /** Removes version 2's image, so that the next update has to pull it. */
  forget(): Promise<void>;
  end(): Promise<void>;
}

/** @returns the reason, when a part is absent */
export async function makeWorld(paddingMb: number, bytesPerSecond: number): Promise<World | string> {
  const { parts, end } = await startParts();
  const missing = [parts.engine, parts.registry, parts.app].find((part) => !part.available);
  if (missing !== undefined || !parts.engine.available || !parts.registry.available) {
    await end();
    return missing?.available === false ? missing.reason : 'a part is absent';
  }
  const docker = new Docker({ socketPath: parts.engine.socketPath });
  const registry = await RegistryProxy.start(parts.registry.port, { bytesPerSecond });
  const name = `bench-${parts.runId}`;
  await pushImage(parts, { name, tag: 'v1' });
  await pushImage(parts, { name, tag: 'v2', paddingMb });
  const port = await freePort();
  const to = registry.ref(name, 'v2');
  return {
    ...{ docker, from: registry.ref(name, 'v1'), to, port },
    async measure(update) {
      const requests = probe(`http://127.0.0.1:${port}/`, { everyMs: 5, timeoutMs: 2_000 });
      await requests.answeredBy('v1');
      const seen = requests.answeredBy('v2');
      await update();
      await seen;
      const { outageMs, longestLatencyMs, failed } = await requests.stop();
      return { outageMs, longestMs: longestLatencyMs, failed };
    },
    async forget() {
      await docker
        .getImage(to)
        .remove()
        .catch(() => undefined);
    },
    async end() {
      await registry.close();
      await end();
    },
  };
}
