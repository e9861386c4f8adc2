import type { Artifact, ArtifactSource, Call } from 'handover';
import { dockerImages } from 'handover/docker';

/** References as Docker's, so that taking them apart is measured too. */
const docker = dockerImages({ modem: { dial() {} } });

/** Content in memory: every reference means content of its own, absent until it is fetched. Counts what it is asked. */
export class MemorySource implements ArtifactSource {
  readonly id = 'memory';
  readonly asked = { find: 0, fetch: 0, users: 0, remove: 0, list: 0 };
  readonly normalise = docker.normalise.bind(docker);
  readonly #present = new Map<string, Artifact>();

  /** @param arrived - resolves when a fetch may end */
  constructor(private readonly arrived: Promise<void> = Promise.resolve()) {}

  async find(key: string): Promise<Artifact | undefined> {
    this.asked.find++;
    return this.#present.get(key);
  }

  async fetch(key: string, _call: Call): Promise<void> {
    this.asked.fetch++;
    await this.arrived;
    const artifact = { id: `id of ${key}`, references: [key] };
    this.#present.set(key, artifact).set(artifact.id, artifact);
  }

  async users(): Promise<readonly string[]> {
    this.asked.users++;
    return [];
  }

  async remove(): Promise<'removed'> {
    this.asked.remove++;
    return 'removed';
  }

  async list(): Promise<readonly Artifact[]> {
    this.asked.list++;
    return [...this.#present.values()];
  }
}
