import { isHandoverError } from 'handover';
import { staticAuth } from 'handover/docker';
import { describe, expect, it } from 'vitest';
import { ask, shown } from './helpers.js';

const ANN = { username: 'ann', password: 'hunter2' };

describe('staticAuth', () => {
  it.each([
    { entry: 'ghcr.io', host: 'ghcr.io' },
    { entry: 'https://ghcr.io/v2/', host: 'ghcr.io' },
    { entry: '127.0.0.1:5000', host: '127.0.0.1:5000' },
    { entry: 'docker.io', host: 'docker.io' },
    { entry: 'https://index.docker.io/v1/', host: 'docker.io' },
    { entry: 'docker.io', host: 'index.docker.io' },
  ])('IC-14 the entry $entry is for $host, and for no other registry', async ({ entry, host }) => {
    const provider = staticAuth({ [entry]: ANN });
    expect(await ask(provider, host)).toEqual(ANN);
    expect(await ask(provider, 'quay.io')).toBeUndefined();
    expect(await ask(provider, 'io')).toBeUndefined();
  });

  it('IC-14 a later change of the object changes nothing', async () => {
    const entries = { 'ghcr.io': { ...ANN } };
    const provider = staticAuth(entries);
    entries['ghcr.io'].password = 'other';
    expect(await ask(provider, 'ghcr.io')).toEqual(ANN);
  });

  it.each([
    { entries: { 'ghcr.io': { username: 'ann', pasword: 'hunter2' } }, path: 'entries.ghcr.io' },
    { entries: { 'ghcr.io': { identityToken: '' } }, path: 'entries.ghcr.io.identityToken' },
    { entries: { 'ghcr.io': 'hunter2' }, path: 'entries.ghcr.io' },
    { entries: { 'ghcr.io': { ...ANN, extra: 'hunter2' } }, path: 'entries.ghcr.io' },
    { entries: { 'ghcr.io': { ...ANN, identityToken: 'hunter2' } }, path: 'entries.ghcr.io' },
    { entries: { 'ghcr.io': { encoded: 'hunter2', expiresAt: 5 } }, path: 'entries.ghcr.io' },
    { entries: { 'ghcr.io': { encoded: 'hunter2\r\nx: y' } }, path: 'entries.ghcr.io.encoded' },
    { entries: 'hunter2', path: 'entries' },
    { entries: undefined, path: 'entries' },
  ])('G-2, G-6 $entries names $path, not the secret', ({ entries, path }) => {
    let error: unknown;
    try {
      staticAuth(entries as never);
    } catch (caught) {
      error = caught;
    }
    expect(isHandoverError(error, 'ERR_INVALID_OPTION') && error.details.path).toBe(path);
    expect(shown(error)).not.toContain('hunter2');
  });
});
