import { EngineProblem } from './answer.js';
import type { FakeContainer } from './container.js';

/** Names that are no network's, though a container's network mode may be one of them. */
const MODES = ['', 'default'];

/** The networks of a fake engine: names, and no traffic. */
export class EngineNetworks {
  readonly #names = new Set(['bridge', 'host', 'none']);

  add(name: string): void {
    this.#names.add(name);
  }

  get(name: string): object {
    if (!this.#names.has(name)) throw new EngineProblem(404, `network ${name} not found`);
    return { Name: name };
  }

  /** As the engine does: only a start finds that a network is not there. */
  require({ hostConfig, body }: FakeContainer): void {
    const { EndpointsConfig = {} } = (body['NetworkingConfig'] ?? {}) as { readonly EndpointsConfig?: object };
    const mode = hostConfig.NetworkMode ?? '';
    const named = mode.startsWith('container:') || MODES.includes(mode) ? [] : [mode];
    for (const name of [...named, ...Object.keys(EndpointsConfig)]) this.get(name);
  }
}
