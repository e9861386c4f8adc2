import type { Collected, RemovalOptions, RetentionOptions } from 'handover';
import { type Fixture, fixture } from './fixture.js';

/** The tags that are there. */
export const tags = ({ source }: Fixture) => [...source.names.keys()].filter((name) => !name.includes('@')).sort();
/** `sha256:a gone`, `sha256:b pinned`. */
export const account = ({ removed, kept }: Collected) => [
  ...removed.map((id) => `${id} gone`),
  ...kept.map(({ imageId, reason }) => `${imageId} ${reason.code}`),
];

/** redis:7 (sha256:a) and redis:8 (sha256:b), taken and released. */
export async function idle(o: { removal?: RemovalOptions; retention?: RetentionOptions } = {}): Promise<Fixture> {
  const all = fixture(o);
  for (const name of ['redis:7', 'redis:8']) await (await all.images.acquire(name, { owner: 'o' })).release();
  all.source.calls.length = 0;
  return all;
}
