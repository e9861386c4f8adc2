import type { ArtifactSource, NormalisedReference } from './types.js';

/**
 * A name that content goes by, taken apart. It was given by whoever made it, so the source's grammar may not read it:
 * such a name is in a repository of its own, and no trouble of those who want the content by another.
 */
export function nameOf(source: Pick<ArtifactSource, 'normalise'>, reference: string): NormalisedReference {
  try {
    return source.normalise(reference);
  } catch {
    return { key: reference, repository: reference, host: '', pullable: false, floating: true, latest: false };
  }
}
