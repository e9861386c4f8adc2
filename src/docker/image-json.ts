import { canonicalName, type DockerReference, familiarName, parseReference } from './reference.js';
import type { DockerImage } from './types.js';

/** The parts of `GET /images/{name}/json` that are read. */
export interface ImageJson {
  readonly Id: string;
  readonly RepoTags?: readonly string[] | null;
  readonly RepoDigests?: readonly string[] | null;
  readonly Os?: string;
  readonly Architecture?: string;
  readonly Variant?: string;
  readonly Size?: number;
}

/**
 * An engine's image as an artifact.
 *
 * @param asked - the reference it was found by; `undefined` = by its id
 */
export function toDockerImage(json: ImageJson, asked: DockerReference | undefined): DockerImage {
  const names = [...(json.RepoTags ?? []), ...(json.RepoDigests ?? [])].flatMap(readName);
  const digest = digestOf(names, asked);
  return {
    id: json.Id,
    ...(digest !== undefined && { digest }),
    platform: [json.Os, json.Architecture, json.Variant].filter((part) => (part ?? '') !== '').join('/'),
    ...(json.Size !== undefined && { bytes: json.Size }),
    references: [...new Set(names.map(canonicalName))],
    runnable: asked === undefined || digest === undefined ? json.Id : pinned(asked, digest),
  };
}

/** The digest under which the asked repository has the content; by id, that of any. */
function digestOf(names: readonly DockerReference[], asked: DockerReference | undefined): string | undefined {
  const digests = names
    .filter(({ name }) => asked === undefined || name === asked.name)
    .flatMap(({ digest }) => digest ?? []);
  return digests.find((digest) => digest === asked?.digest) ?? digests[0];
}

/** `redis:7@sha256:…`: the digest decides, and listings of containers stay readable (DP-6). */
function pinned(asked: DockerReference, digest: string): string {
  const tag = asked.tag === undefined ? '' : `:${asked.tag}`;
  return `${familiarName(asked)}${tag}@${digest}`;
}

/** The engine writes `<none>` for what an image does not have, and keeps names by older, looser grammars. */
function readName(text: string): readonly DockerReference[] {
  if (text.includes('<none>')) return [];
  try {
    return [parseReference(text)];
  } catch {
    return [];
  }
}
