import * as v from 'valibot';
import type { Credentials } from '../../image/types.js';
import { parseOptions, text } from '../../options.js';
import { serverAddress } from './registry-host.js';

/** What can stand in a header; anything else the HTTP client refuses in words that name no cause. */
export const HEADER_VALUE = v.pipe(
  v.string(),
  v.regex(/^[\x21-\x7e]+$/, 'must be the encoded text of a header, on one line'),
);

/** The three forms of {@link Credentials}; of two at once, the one that the engine would prefer. Other keys are dropped. */
const CREDENTIALS = v.union(
  [
    v.object({ encoded: HEADER_VALUE }),
    v.object({ identityToken: text }),
    v.object({ username: text, password: v.string() }),
  ],
  'must be { username, password }, { identityToken } or { encoded }, each of them text',
);

/**
 * Credentials as the engine takes them: the value of `X-Registry-Auth`, URL-safe base64 with padding (IC-14).
 *
 * @param host - the registry that they are for. An engine that keeps its images in containerd compares it, and drops
 *   credentials that name no registry (moby/moby#46743)
 * @throws HandoverError `ERR_INVALID_OPTION` for what has none of the three forms
 */
export function registryAuth(credentials: Credentials, host: string): string {
  const checked = parseOptions(CREDENTIALS, credentials, 'credentials');
  if ('encoded' in checked) return checked.encoded;
  const known = 'identityToken' in checked ? { identitytoken: checked.identityToken } : checked;
  const json = JSON.stringify({ ...known, serveraddress: serverAddress(host) });
  return Buffer.from(json, 'utf8').toString('base64').replaceAll('+', '-').replaceAll('/', '_');
}
