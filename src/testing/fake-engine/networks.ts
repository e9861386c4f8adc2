import { EngineProblem } from './answer.js';
import { endpointsOf, type FakeContainer } from './container.js';

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
  require(container: FakeContainer): void {
    const mode = container.hostConfig.NetworkMode ?? '';
    const named = mode.startsWith('container:') || MODES.includes(mode) ? [] : [mode];
    for (const name of [...named, ...Object.keys(endpointsOf(container)), ...container.networks.keys()]) this.get(name);
  }

  /** As the engine does of what does not run: as often as it is asked for, into a network that is not there as well. */
  connect(name: string, container: FakeContainer, endpoint: object): void {
    container.networks.set(name, endpoint);
  }
}
