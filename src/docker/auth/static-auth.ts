import * as v from 'valibot';
import type { AuthProvider, Credentials } from '../../image/types.js';
import { parseOptions, record, strictObject, text } from '../../options.js';
import { HEADER_VALUE } from './registry-auth.js';
import { entryOf, registryHost } from './registry-host.js';

/** One of the three forms, whole: of a literal in a program every key has a meaning, or is a mistake. */
const ENTRY = v.union(
  [
    strictObject({ encoded: HEADER_VALUE }),
    strictObject({ identityToken: text }),
    strictObject({ username: text, password: v.string() }),
  ],
  'must be { username, password }, { identityToken } or { encoded }, each of them text, and nothing else',
);

/**
 * Credentials that are known from the start; other registries are asked anonymously (IC-14).
 *
 * @param entries - by registry: `ghcr.io`, `127.0.0.1:5000`, `docker.io`, in any spelling that Docker's configuration
 *   takes. They are read now: a later change of the object changes nothing
 * @throws HandoverError `ERR_INVALID_OPTION` naming the registry whose entry has none of the forms of `Credentials`
 */
export function staticAuth(entries: Readonly<Record<string, Credentials>>): AuthProvider {
  const known = parseOptions(record(v.string(), ENTRY), entries, 'entries');
  return async (host) => entryOf(known, registryHost(host));
}
