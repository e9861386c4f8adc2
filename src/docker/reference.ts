import { HandoverError } from '../errors.js';
import type { NormalisedReference } from '../image/types.js';
import { withoutUserinfo } from '../internal/redact.js';

/**
 * A reference to an image in a registry, taken apart by the grammar of the distribution project
 * (github.com/distribution/reference), with Docker's defaults filled in.
 */
export interface DockerReference {
  /** Registry host with its port; `docker.io` for Docker's own. */
  readonly host: string;
  /** Host and path: `docker.io/library/redis`. */
  readonly name: string;
  /** As written; `latest` when neither tag nor digest was. */
  readonly tag: string | undefined;
  readonly digest: string | undefined;
}

const DEFAULT_HOST = 'docker.io';
const LEGACY_HOST = 'index.docker.io';
const OFFICIAL = 'library/';

const MAX_NAME = 255;
/** Host and path, tag and the longest digest, with their separators. */
const MAX_REFERENCE = MAX_NAME + 1 + 128 + 1 + 'sha512:'.length + 128;

const LABEL = '[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?';
const HOST = new RegExp(String.raw`^(?:${LABEL}(?:\.${LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?$`);
const COMPONENT = '[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*';
const PATH = new RegExp(`^${COMPONENT}(?:/${COMPONENT})*$`);
const TAG = /^\w[\w.-]{0,127}$/;
const DIGEST = /^(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})$/;
const IMAGE_ID = /^sha256:[a-f0-9]{64}$/;

/** Spellings that look right to a person, each with what to do (IC-13); before the grammar, whose words say less. */
const MISTAKES: readonly { readonly found: (text: string) => boolean; readonly problem: string }[] = [
  { found: (text) => text === '', problem: 'it is empty; give a name such as redis:7' },
  { found: (text) => /\s/.test(text), problem: 'it has a space in it; take that out' },
  { found: (text) => text.includes('://'), problem: 'leave the scheme out: registry.example.com/app:v1' },
  {
    found: (text) => /^[a-f0-9]{64}$/.test(text),
    problem: 'this may be an image id, which has to be written sha256:<64 digits>, and is never pulled',
  },
  { found: (text) => text.length > MAX_REFERENCE, problem: `it is longer than ${MAX_REFERENCE} characters` },
];

/** Whether text is a full image id, `sha256:<64 hex digits>`: it can be looked up, never pulled (IC-13). */
export function isImageId(text: string): boolean {
  return IMAGE_ID.test(text);
}

/**
 * Takes a reference apart; a digest wins over a tag beside it only in {@link canonicalName}.
 *
 * @throws HandoverError `ERR_INVALID_REFERENCE` that says what is wrong and what to write
 */
export function parseReference(text: string): DockerReference {
  const mistake = MISTAKES.find(({ found }) => found(text));
  if (mistake !== undefined) throw invalid(text, mistake.problem);
  const [tagged = '', digest, ...more] = text.split('@');
  if (more.length > 0 || (digest !== undefined && !DIGEST.test(digest))) {
    throw invalid(text, 'what follows the @ must be a digest: sha256: and 64 hexadecimal digits in lower case');
  }
  // The last colon begins a tag only if no slash comes after it; else it belongs to the registry's port (C22).
  const colon = tagged.lastIndexOf(':');
  const hasTag = colon > tagged.lastIndexOf('/');
  const tag = hasTag ? tagged.slice(colon + 1) : undefined;
  if (tag !== undefined && !TAG.test(tag)) {
    throw invalid(text, 'a tag has 1 to 128 letters, digits, "_", "." and "-", and does not begin with "." or "-"');
  }
  const { host, path } = splitHost(hasTag ? tagged.slice(0, colon) : tagged);
  const name = `${host}/${path}`;
  checkName(text, host, path, name);
  return { host, name, tag: tag ?? (digest === undefined ? 'latest' : undefined), digest };
}

/** The one full spelling: `docker.io/library/redis:7`; with a digest, without the tag, which means nothing then (C20). */
export function canonicalName({ name, tag, digest }: DockerReference): string {
  return digest === undefined ? `${name}:${tag ?? 'latest'}` : `${name}@${digest}`;
}

/** The name as people and the engine's listings write it: `redis`, where that is read back as the same name. */
export function familiarName({ host, name }: Pick<DockerReference, 'host' | 'name'>): string {
  const path = name.slice(host.length + 1);
  const short = path.startsWith(OFFICIAL) ? path.slice(OFFICIAL.length) : path;
  const again = splitHost(short);
  return `${again.host}/${again.path}` === name ? short : name;
}

/**
 * As {@link ArtifactSource.normalise}, of Docker references.
 *
 * @throws HandoverError `ERR_INVALID_REFERENCE`
 */
export function normaliseReference(text: string): NormalisedReference {
  if (isImageId(text)) {
    return { key: text, repository: text, host: '', pullable: false, floating: false, latest: false };
  }
  const reference = parseReference(text);
  return {
    key: canonicalName(reference),
    repository: reference.name,
    host: reference.host,
    pullable: true,
    floating: reference.digest === undefined,
    latest: reference.digest === undefined && reference.tag === 'latest',
  };
}

/** The first part is a host if it can be nothing else: it has a dot, a colon or a capital, or is `localhost`. */
function splitHost(name: string): { readonly host: string; readonly path: string } {
  const slash = name.indexOf('/');
  const first = name.slice(0, Math.max(0, slash));
  const isHost = /[.:A-Z]/.test(first) || first === 'localhost';
  if (isHost && first !== DEFAULT_HOST && first !== LEGACY_HOST) return { host: first, path: name.slice(slash + 1) };
  const path = isHost ? name.slice(slash + 1) : name;
  return { host: DEFAULT_HOST, path: path.includes('/') ? path : `${OFFICIAL}${path}` };
}

function checkName(text: string, host: string, path: string, name: string): void {
  if (!HOST.test(host)) throw invalid(text, `"${host}" is not a registry host, optionally with a port`);
  if (/[A-Z]/.test(path)) throw invalid(text, 'names of repositories are in lower case');
  if (!PATH.test(path)) {
    throw invalid(text, 'a name has parts of a-z and 0-9, with ".", "_", "__" or "-" inside of them, separated by "/"');
  }
  if (name.length > MAX_NAME) throw invalid(text, `the name ${name} is longer than ${MAX_NAME} characters`);
}

function invalid(reference: string, problem: string): HandoverError<'ERR_INVALID_REFERENCE'> {
  const message = `"${reference}" is not an image reference: ${problem}`;
  return new HandoverError('ERR_INVALID_REFERENCE', withoutUserinfo(message), {
    details: { reference: withoutUserinfo(reference) },
  });
}
