import { isHandoverError, type Credentials } from 'handover';
import { describe, expect, it } from 'vitest';
import { registryAuth } from '../../../src/docker/auth/registry-auth.js';
import { shown } from './helpers.js';

const decoded = (header: string): unknown => JSON.parse(Buffer.from(header, 'base64url').toString('utf8'));

describe('the X-Registry-Auth header', () => {
  it.each([
    {
      credentials: { username: 'ann', password: 'pw' },
      host: 'ghcr.io',
      json: { username: 'ann', password: 'pw', serveraddress: 'ghcr.io' },
    },
    {
      credentials: { username: 'ann', password: '' },
      host: '127.0.0.1:5000',
      json: { username: 'ann', password: '', serveraddress: '127.0.0.1:5000' },
    },
    {
      credentials: { identityToken: 'tok' },
      host: 'docker.io',
      json: { identitytoken: 'tok', serveraddress: 'https://index.docker.io/v1/' },
    },
    {
      credentials: { username: 'ann', password: 'pw', identityToken: 'tok', expiresAt: 5 },
      host: 'ghcr.io',
      json: { identitytoken: 'tok', serveraddress: 'ghcr.io' },
    },
  ])('IC-14, case C18 $credentials for $host', ({ credentials, host, json }) => {
    const before = structuredClone(credentials);
    expect(decoded(registryAuth(credentials as Credentials, host))).toEqual(json);
    expect(credentials).toEqual(before);
  });

  it('IC-14 is URL-safe base64 with padding, of UTF-8', () => {
    const headers = Array.from({ length: 3 }, (_, i) =>
      registryAuth({ username: 'ann', password: `${'?'.repeat(i)}~~~>>>ÿÿÿ🔑` }, 'ghcr.io'),
    );
    for (const header of headers) {
      expect(header).toMatch(/^[A-Za-z0-9_-]+={0,2}$/);
      expect(header.length % 4).toBe(0);
    }
    expect(headers.some((header) => header.endsWith('='))).toBe(true);
    expect(headers.join('')).toMatch(/_/);
    expect(headers.join('')).toMatch(/-/);
    expect(decoded(headers[2]!)).toMatchObject({ password: '??~~~>>>ÿÿÿ🔑' });
  });

  it('IC-14, case C18 what is encoded already is handed on as it is', () => {
    expect(registryAuth({ encoded: 'eyJhIjoxfQ==' }, 'ghcr.io')).toBe('eyJhIjoxfQ==');
  });

  it.each([
    {},
    { username: 'hunter2' },
    { password: 'hunter2' },
    { username: '', password: 'hunter2' },
    { username: 'hunter2', password: 5 },
    { identityToken: '' },
    { encoded: '' },
    { encoded: 'hunter2\r\nX-Other: 1' },
    { encoded: 'hunter2ÿ' },
    'hunter2',
    null,
  ])('G-6 %j is refused, and nothing of it is shown', (credentials) => {
    let error: unknown;
    try {
      registryAuth(credentials as Credentials, 'ghcr.io');
    } catch (caught) {
      error = caught;
    }
    expect(isHandoverError(error, 'ERR_INVALID_OPTION') && error.details.path).toMatch(/^credentials/);
    expect(shown(error)).not.toContain('hunter2');
  });
});
