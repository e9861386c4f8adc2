import { HandoverError } from '../errors.js';
import type { NormalisedReference } from '../image/types.js';
import { withoutUserinfo } from '../internal/redact.js';

/** The id of a file: the hash of its content. */
export const FILE_ID = /^sha256:[0-9a-f]{64}$/;
const CHECKSUM = /^#sha256=([0-9a-f]{64})$/i;

/** A reference of a file, taken apart. `url` is missing for an id, which can be looked up but not fetched. */
export type FileReference = NormalisedReference & {
  readonly url?: URL;
  /** What the content has to hash to, 64 hex digits in lower case. */
  readonly checksum?: string;
};

/**
 * The grammar of files: `http(s)://host/path[?query][#sha256=<64 hex>]`, or an id `sha256:<64 hex>` of what is there.
 *
 * @throws HandoverError `ERR_INVALID_REFERENCE`; credentials in the URL are refused, and not repeated in the error (G-6)
 */
export function parseFileReference(reference: string): FileReference {
  const fixed = { floating: false, latest: false };
  if (FILE_ID.test(reference))
    return { ...fixed, key: reference, repository: reference, host: 'local', pullable: false };
  if (!URL.canParse(reference)) throw refused(reference, 'is not a URL');
  const url = new URL(reference);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw refused(reference, 'is not an http or https URL');
  if (url.username !== '' || url.password !== '') {
    throw refused(reference, 'was given with credentials in it, which would end up in logs');
  }
  const fragment = url.hash;
  url.hash = '';
  const facts = { repository: url.href, host: url.host, pullable: true, latest: false, url };
  if (fragment === '') return { ...facts, key: url.href, floating: true };
  const checksum = CHECKSUM.exec(fragment)?.[1]?.toLowerCase();
  if (checksum === undefined) throw refused(reference, 'has a fragment that is not #sha256=<64 hex digits>');
  return { ...facts, key: pinned(url.href, checksum), floating: false, checksum };
}

/** The reference that names exactly this content of a URL. */
export function pinned(repository: string, checksum: string): string {
  return `${repository}#sha256=${checksum}`;
}

function refused(reference: string, problem: string): HandoverError<'ERR_INVALID_REFERENCE'> {
  const shown = withoutUserinfo(reference);
  return new HandoverError(
    'ERR_INVALID_REFERENCE',
    `${JSON.stringify(shown)} ${problem}; write http(s)://host/path, with #sha256=<64 hex digits> to pin the content`,
    { details: { reference: shown } },
  );
}
