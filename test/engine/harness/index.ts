/**
 * The real parts, for the tests in `test/engine/*.test.ts`. They are started once per run (global-setup.ts).
 *
 *   engineSuite('DP-3 on a real engine', (engine) => {
 *     it('…', async () => {
 *       const registry = await engine.registryProxy({ bytesPerSecond: 3_000_000 });  // closed after the test
 *       const image = await engine.pushImage({ name: uniqueName('web'), tag: 'v2', paddingMb: 30 });
 *       const proxy = await engine.engineProxy();                                    // closed after the test
 *       const docker = new Docker({ socketPath: proxy.socketPath });
 *       … registry.ref(image.name, image.tag), proxy.on('POST /containers/', { delayMs: 500 }), proxy.sequence …
 *     });
 *   });
 *
 * - Without the parts the suite is one skipped test whose name is the reason. With HANDOVER_REQUIRE_ENGINE=1 the run
 *   does not start without them.
 * - Images exist in the registry only, until something pulls them. Their names must be unique per test (uniqueName): a
 *   layer that the engine has is not pulled again. The app and its variables: app/app.c.
 * - Containers, images and networks made by the tests themselves carry a name from uniqueName. Containers of our
 *   images carry the label RUN_LABEL=<runId>, and what is left of them at the end is removed; `engine.containersOf`
 *   lists them, so that a test can assert that it left nothing.
 * - The engine is shared by all files, and may be the user's own: never prune, never list without a filter.
 * - While developing: `node --import tsx test/engine/harness/serve.ts` keeps the parts running, and prints the
 *   variables with which runs use them.
 */
import { randomBytes } from 'node:crypto';
import Docker from 'dockerode';
import { describe, inject, it, onTestFinished } from 'vitest';
import { EngineProxy } from './engine-proxy.js';
import { pushImage, tagInRegistry, type BuiltImage, type ImageSpec } from './images.js';
import { RUN_LABEL, type Parts } from './parts.js';
import { LOGIN } from './registry.js';
import { RegistryProxy, type RegistryFaults } from './registry-proxy.js';

export { EngineProxy, type EngineCall, type EngineFault, type EngineMatch } from './engine-proxy.js';
export { type BuiltImage, type ImageSpec } from './images.js';
export { RUN_LABEL } from './parts.js';
export { freePort } from './ports.js';
export { probe, type Probe, type ProbeOptions, type ProbeReport, type Sample } from './probe.js';
export { RegistryProxy, type RegistryFaults, type RegistryRequest } from './registry-proxy.js';

/** The real parts, and what a test makes of them. */
export interface RealEngine {
  /** A client of the engine itself, past every proxy. */
  readonly docker: Docker;
  readonly socketPath: string;
  readonly registry: { readonly port: number };
  /** A registry with the same images for those who log in with `login`. */
  readonly guarded: { readonly port: number; readonly login: { readonly username: string; readonly password: string } };
  readonly app: { readonly path: string };
  readonly runId: string;
  /** Makes an image of the test app, in the registry. */
  pushImage(spec: ImageSpec): Promise<BuiltImage>;
  /** Makes a tag mean in the registry what another one of the repository means. */
  tagInRegistry(name: string, from: string, to: string): Promise<void>;
  /** A proxy in front of the registry, closed when the test has finished. */
  registryProxy(faults?: RegistryFaults): Promise<RegistryProxy>;
  /** A proxy in front of the engine, closed when the test has finished. */
  engineProxy(): Promise<EngineProxy>;
  /** Containers of this run's images, in any state, that fit the label filters too (`key` or `key=value`). */
  containersOf(...labels: readonly string[]): Promise<Docker.ContainerInfo[]>;
}

/** The tests that need the real parts, or one skipped test that says why there are none. */
export function engineSuite(name: string, tests: (engine: RealEngine) => void): void {
  const reason = whyAbsent(inject('realParts'));
  describe(name, () => {
    if (reason === undefined) tests(requireEngine());
    else it.skip(`skipped: ${reason}`);
  });
}

/**
 * The real parts, outside of a suite.
 *
 * @throws Error with the reason when a part is absent
 */
export function requireEngine(): RealEngine {
  const parts = inject('realParts');
  const { engine, registry, guarded, app, runId } = parts;
  if (!engine.available || !registry.available || !guarded.available || !app.available) {
    throw new Error(whyAbsent(parts));
  }
  const { socketPath } = engine;
  const docker = new Docker({ socketPath });
  return {
    ...{ docker, socketPath, registry: { port: registry.port }, app: { path: app.path }, runId },
    guarded: { port: guarded.port, login: LOGIN },
    pushImage: (spec) => pushImage(parts, spec),
    tagInRegistry: (name, from, to) => tagInRegistry(registry.port, name, from, to),
    async registryProxy(faults) {
      const proxy = await RegistryProxy.start(registry.port, faults);
      onTestFinished(() => proxy.close());
      return proxy;
    },
    async engineProxy() {
      const proxy = await EngineProxy.start(socketPath, parts.folder);
      onTestFinished(() => proxy.close());
      return proxy;
    },
    containersOf: (...labels) =>
      docker.listContainers({ all: true, filters: { label: [`${RUN_LABEL}=${runId}`, ...labels] } }),
  };
}

/** A name that no other run and no other test has used. */
export function uniqueName(prefix: string): string {
  return `${prefix}-${randomBytes(4).toString('hex')}`;
}

function whyAbsent({ engine, registry, guarded, app }: Parts): string | undefined {
  return [engine, registry, guarded, app].find((part) => !part.available)?.reason;
}
