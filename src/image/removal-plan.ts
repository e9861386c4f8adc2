import type { Artifact, NormalisedReference } from './types.js';

/**
 * Which names of a piece of content to take away now, in order (IC-17).
 *
 * Moving names go first: an engine drops a digest by itself with the last tag of its repository. A digest is only
 * taken away once no moving name of its repository is left, be it another's: it is part of what that name shows.
 *
 * @param isOurs - whether this coordinator may take the name away
 */
export function removableNames(
  artifact: Artifact,
  isOurs: (reference: string) => boolean,
  normalise: (reference: string) => NormalisedReference,
): readonly string[] {
  const names = artifact.references.map(normalise);
  const tags = names.filter((name) => name.floating);
  const bare = names.filter((name) => !name.floating && !tags.some((tag) => tag.repository === name.repository));
  return [...tags, ...bare].map((name) => name.key).filter(isOurs);
}

/**
 * Which names of a piece of content would be left after all of ours were taken away: with the last tag of a repository,
 * an engine drops its digests too.
 *
 * @param isOurs - whether this coordinator may take the name away
 */
export function namesLeft(
  artifact: Artifact,
  isOurs: (reference: string) => boolean,
  normalise: (reference: string) => NormalisedReference,
): readonly string[] {
  const names = artifact.references.map(normalise);
  const stays = ({ key, floating, repository }: NormalisedReference): boolean => {
    const shownBy = floating ? [] : names.filter((name) => name.floating && name.repository === repository);
    return shownBy.length === 0 ? !isOurs(key) : shownBy.some((tag) => !isOurs(tag.key));
  };
  return names.filter(stays).map(({ key }) => key);
}

/**
 * The names that came with a fetch: the one that was fetched, and the fixed names (digests) of its repository. These are
 * not new if the content was known by them before, or goes by another's moving name of that repository, which brought
 * them along.
 *
 * @param known - names that the content had before, as far as they are known
 * @param isOurs - whether this coordinator brought a name earlier
 */
export function broughtNames(
  artifact: Artifact,
  fetched: NormalisedReference,
  known: readonly string[],
  isOurs: (reference: string) => boolean,
  normalise: (reference: string) => NormalisedReference,
): readonly string[] {
  const kin = artifact.references.map(normalise).filter((name) => name.repository === fetched.repository);
  const shared = kin.some((name) => name.floating && name.key !== fetched.key && !isOurs(name.key));
  const digests = shared ? [] : kin.filter((name) => !name.floating && !known.includes(name.key));
  return [fetched.key, ...digests.map((name) => name.key)];
}
