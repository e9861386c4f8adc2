import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { isHandoverError } from 'handover';
import { dockerAuth } from 'handover/docker';
import { describe, expect, it, vi } from 'vitest';
import { ask, base64, failure, Home, shown } from './helpers.js';

const ANN = { username: 'ann', password: 'pw' };
const AUTH = { auth: base64('ann:pw') };

describe('dockerAuth: the file', () => {
  it.each([
    { auths: { 'ghcr.io': AUTH }, host: 'ghcr.io', found: ANN, why: 'the host' },
    { auths: { 'https://ghcr.io': AUTH }, host: 'ghcr.io', found: ANN, why: 'with a scheme' },
    { auths: { 'http://127.0.0.1:5000/v1/': AUTH }, host: '127.0.0.1:5000', found: ANN, why: 'with a path' },
    { auths: { 'https://index.docker.io/v1/': AUTH }, host: 'docker.io', found: ANN, why: "Docker's own, legacy key" },
    { auths: { 'docker.io': AUTH }, host: 'docker.io', found: ANN, why: "Docker's own by its name" },
    { auths: { 'registry-1.docker.io': AUTH }, host: 'docker.io', found: ANN, why: "Docker's own by its real host" },
    { auths: { 'docker.io': AUTH }, host: 'index.docker.io', found: ANN, why: 'asked for in another spelling' },
    { auths: { 'quay.io': AUTH }, host: 'ghcr.io', found: undefined, why: 'an unknown registry' },
    { auths: { 'ghcr.io': AUTH }, host: 'ghcr.io:443', found: undefined, why: 'another port' },
    { auths: { 'ghcr.io': {} }, host: 'ghcr.io', found: undefined, why: 'the empty entry that a store leaves' },
    { auths: { 'ghcr.io': null }, host: 'ghcr.io', found: undefined, why: 'null' },
    { auths: undefined, host: 'ghcr.io', found: undefined, why: 'no entries' },
    {
      auths: { 'https://ghcr.io': { auth: base64('old:x') }, 'ghcr.io': AUTH },
      host: 'ghcr.io',
      found: ANN,
      why: 'the exact key goes before another spelling',
    },
    {
      auths: { 'docker.io': { auth: base64('old:x') }, 'https://index.docker.io/v1/': AUTH },
      host: 'docker.io',
      found: ANN,
      why: 'the key of docker login goes before another spelling',
    },
    { auths: { 'ghcr.io': { username: 'ann', password: 'pw' } }, host: 'ghcr.io', found: ANN, why: 'plain fields' },
    {
      auths: { 'ghcr.io': { auth: base64('ann:a:b:ü🔑'), email: 'ann@example.com' } },
      host: 'ghcr.io',
      found: { username: 'ann', password: 'a:b:ü🔑' },
      why: 'a password with colons, beyond ASCII',
    },
    {
      auths: { 'ghcr.io': { auth: base64('ann:pw\0\0') } },
      host: 'ghcr.io',
      found: ANN,
      why: 'a password filled with zeros',
    },
    {
      auths: { 'ghcr.io': { auth: base64('00000000-0000-0000-0000-000000000000:'), identitytoken: 'tok' } },
      host: 'ghcr.io',
      found: { identityToken: 'tok' },
      why: 'an identity token goes before the name beside it',
    },
  ])('IC-14, N-D10 $host: $why', async ({ auths, host, found }) => {
    const { configFile } = new Home().config({ auths, credsStore: null });
    expect(await ask(dockerAuth({ configFile }), host)).toEqual(found);
  });

  it('IC-14 no file, no credentials; and a login counts at the next ask', async () => {
    const home = new Home();
    const provider = dockerAuth({ configFile: home.configFile });
    expect(await ask(provider, 'ghcr.io')).toBeUndefined();
    home.config({ auths: { 'ghcr.io': AUTH } });
    expect(await ask(provider, 'ghcr.io')).toEqual(ANN);
    home.config({ auths: { 'ghcr.io': { auth: base64('ann:new') } } });
    expect(await provider('ghcr.io', { scope: 'team', refused: true })).toEqual({ username: 'ann', password: 'new' });
  });

  it('IC-14 without an option: the folder DOCKER_CONFIG, else .docker in the home folder', async () => {
    const home = new Home().config({ auths: { 'ghcr.io': AUTH } });
    const provider = dockerAuth();
    expect(await ask(provider, 'ghcr.io')).toEqual(ANN);
    vi.stubEnv('DOCKER_CONFIG', '');
    vi.stubEnv('HOME', join(home.folder, 'me'));
    expect(await ask(provider, 'ghcr.io')).toBeUndefined();
    vi.stubEnv('HOME', home.folder);
    mkdirSync(join(home.folder, '.docker'));
    expect(await ask(dockerAuth({ configFile: undefined }), 'ghcr.io')).toBeUndefined();
    Object.assign(home, { configFile: join(home.folder, '.docker', 'config.json') });
    home.config({ auths: { 'ghcr.io': AUTH } });
    expect(await ask(provider, 'ghcr.io')).toEqual(ANN);
  });

  it.each([
    { config: '{"auths":{"ghcr.io":{"auth":"hunter2"}', why: 'half a file' },
    { config: 'hunter2', why: 'no JSON' },
    { config: '', why: 'an empty file' },
    { config: ['hunter2'], why: 'a list' },
    { config: { auths: 'hunter2' }, why: 'auths that are text' },
    { config: { credHelpers: { 'ghcr.io': { hunter2: 1 } } }, why: 'a helper that is no name' },
    { config: { credsStore: ['hunter2'] }, why: 'a store that is no name' },
    { config: { auths: { 'ghcr.io': 'hunter2' } }, why: 'an entry that is text' },
    { config: { auths: { 'ghcr.io': { auth: 17, password: 'hunter2' } } }, why: 'a field that is no text' },
    { config: { auths: { 'ghcr.io': { auth: base64('hunter2') } } }, why: 'no colon' },
    { config: { auths: { 'ghcr.io': { auth: base64(':hunter2') } } }, why: 'no name' },
    { config: { auths: { 'ghcr.io': { auth: '*hunter2*' } } }, why: 'no base64' },
  ])('IC-14, G-6 $why: an error that names the file and shows nothing of it', async ({ config }) => {
    const { configFile } = new Home().config(config);
    const error = await failure(ask(dockerAuth({ configFile }), 'ghcr.io'));
    expect(error).toMatchObject({
      code: 'ERR_DRIVER',
      details: { driver: 'docker-config', operation: 'read', path: configFile },
      retryable: false,
    });
    expect((error as Error).message).toContain(configFile);
    expect(shown(error)).not.toContain('hunter2');
    expect(shown(error)).not.toContain(base64('hunter2').slice(0, 8));
  });

  it('IC-14 a bad entry of another registry is no matter', async () => {
    const { configFile } = new Home().config({ auths: { 'quay.io': 5, 'ghcr.io': AUTH } });
    expect(await ask(dockerAuth({ configFile }), 'ghcr.io')).toEqual(ANN);
  });

  it('IC-14 a file that is there and cannot be read is no anonymous pull', async () => {
    const { folder } = new Home();
    const error = await failure(ask(dockerAuth({ configFile: folder }), 'ghcr.io'));
    expect(isHandoverError(error, 'ERR_DRIVER') && error.details).toMatchObject({ driver: 'docker-config' });
    expect((error as Error).message).toMatch(/EISDIR/);
  });

  it('G-4 a signal that is aborted already: its reason, and no helper is run', async () => {
    const home = new Home().config({ auths: { 'ghcr.io': AUTH } }).answering('pass', 'ann', 'pw');
    const reason = new Error('too late');
    expect(await failure(ask(dockerAuth(), 'ghcr.io', AbortSignal.abort(reason)))).toBe(reason);
    home.config({ credsStore: 'pass' });
    expect(await failure(ask(dockerAuth(), 'ghcr.io', AbortSignal.abort(reason)))).toBe(reason);
    expect(home.asked).toEqual([]);
  });

  it.each([
    { options: { configfile: 'x' }, path: 'configfile' },
    { options: { configFile: '' }, path: 'configFile' },
    { options: { configFile: '/etc/docker\0.json' }, path: 'configFile' },
    { options: { helperTimeout: 'soon' }, path: 'helperTimeout' },
    { options: { helperTimeout: Infinity }, path: 'helperTimeout' },
  ])('G-2 $options is refused at once, naming $path', ({ options, path }) => {
    expect(() => dockerAuth(options as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path } }),
    );
  });
});
