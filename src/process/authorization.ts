import { invalidOption } from '../errors.js';
import type { Credentials } from '../image/types.js';

/** What an HTTP header may hold; Node refuses anything else in words that name no cause. */
const HEADER = /^[\x20-\x7e]+$/;

/**
 * Credentials as the value of `Authorization`: a name with its password as `Basic` (RFC 7617), a token as `Bearer`
 * (RFC 6750), and what is encoded already as it is.
 *
 * @throws HandoverError `ERR_INVALID_OPTION` for what no header can hold; it quotes nothing
 */
export function authorizationOf(credentials: Credentials | undefined): string | undefined {
  if (credentials === undefined) return undefined;
  const value = valueOf(credentials);
  if (HEADER.test(value)) return value;
  throw invalidOption('credentials', 'must be printable ASCII on one line, to go into an HTTP header');
}

function valueOf(credentials: Credentials): string {
  if ('encoded' in credentials) return credentials.encoded;
  if ('identityToken' in credentials) return `Bearer ${credentials.identityToken}`;
  const { username, password } = credentials;
  if (username.includes(':')) throw invalidOption('credentials', 'of HTTP cannot have a ":" in the username');
  return `Basic ${Buffer.from(`${username}:${password}`, 'utf8').toString('base64')}`;
}
