import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { inspect } from 'node:util';
import { type Credentials, findError } from 'handover';
import { dockerAuth, dockerImages, staticAuth } from 'handover/docker';
import { expect, it, onTestFinished, vi } from 'vitest';
import { registryAuth } from '../../src/docker/auth/registry-auth.js';
import { type BuiltImage, engineSuite, type RealEngine, uniqueName } from './harness/index.js';

engineSuite('IC-14 credentials on a real engine, of a registry that wants a login', (engine) => {
  const host = `127.0.0.1:${engine.guarded.port}`;
  const { login } = engine.guarded;
  const plain = Buffer.from(JSON.stringify(login)).toString('base64');
  const urlSafe = plain.replaceAll('+', '-').replaceAll('/', '_');
  const wrong = { username: login.username, password: 'hunter2hunter2' };

  it('IC-14 of the encodings the engine reads one: URL-safe and padded', async () => {
    expect(urlSafe).not.toBe(plain);
    expect(urlSafe).toMatch(/=$/);
    for (const encoded of [plain, urlSafe.replace(/=+$/, '')]) {
      const image = await push(engine);
      await expect(pull(engine, image, { encoded })).rejects.toMatchObject({ details: { reason: 'unauthorized' } });
    }
  });

  it.each([
    { name: 'username and password', credentials: login },
    { name: 'an encoded header', credentials: { encoded: registryAuth(login, host) } },
    {
      name: 'an encoded header of another client, that names no registry',
      credentials: { encoded: urlSafe },
    },
  ])('case C18 $name: the image comes', async ({ credentials }) => {
    const image = await push(engine);
    expect(await pull(engine, image, credentials)).toBe(image.id);
  });

  it.each([
    { name: 'none', credentials: undefined },
    { name: 'a wrong password', credentials: wrong },
    { name: 'an unknown name', credentials: { ...login, username: 'nobody' } },
    { name: 'a token where a password is wanted', credentials: { identityToken: wrong.password } },
  ])('case C12, S17, G-6 $name: unauthorized, permanent, and no secret in the error', async ({ credentials }) => {
    const image = await push(engine);
    const error = await pull(engine, image, credentials).then(
      () => undefined,
      (cause: unknown) => cause,
    );
    const found = findError(error, 'ERR_PULL_FAILED');
    expect([found?.details.reason, found?.retryable], inspect(error)).toEqual(['unauthorized', false]);
    const text = `${inspect(error, { depth: Infinity, showHidden: true })}${JSON.stringify(error)}`;
    expect(text).not.toContain(wrong.password);
    expect(text).not.toContain(login.password);
  });

  it('IC-14 each pull has its own: an anonymous one after a login is refused', async () => {
    const [first, second] = [await push(engine), await push(engine)];
    await pull(engine, first, login);
    await expect(pull(engine, second, undefined)).rejects.toMatchObject({ details: { reason: 'unauthorized' } });
  });

  it('IC-14 from staticAuth, from the file, and from a helper', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'handover-auth-'));
    vi.stubEnv('PATH', `${folder}${delimiter}${process.env['PATH'] ?? ''}`);
    onTestFinished(() => {
      vi.unstubAllEnvs();
      rmSync(folder, { recursive: true, force: true });
    });
    const helper = join(folder, 'docker-credential-handovertest');
    const answer = JSON.stringify({ ServerURL: host, Username: login.username, Secret: login.password });
    writeFileSync(helper, `#!/bin/sh\ntest "$(cat)" = '${host}' && echo '${answer}'\n`);
    chmodSync(helper, 0o755);
    const auth = Buffer.from(`${login.username}:${login.password}`).toString('base64');
    const file = (name: string, config: object): string => {
      writeFileSync(join(folder, name), JSON.stringify(config));
      return join(folder, name);
    };
    const providers = [
      staticAuth({ [host]: login }),
      dockerAuth({ configFile: file('plain.json', { auths: { [`http://${host}/v1/`]: { auth } } }) }),
      dockerAuth({ configFile: file('helper.json', { credHelpers: { [host]: 'handovertest' } }) }),
    ];
    for (const provider of providers) {
      const image = await push(engine);
      const name = dockerImages(engine.docker).normalise(`${host}/${image.name}:v1`);
      const credentials = await provider(name.host, { scope: undefined, refused: false });
      expect(await pull(engine, image, credentials)).toBe(image.id);
    }
  });

  /** Pulls from the guarded registry. */
  async function pull({ docker }: RealEngine, image: BuiltImage, credentials?: Credentials): Promise<string> {
    const source = dockerImages(docker);
    const reference = `${host}/${image.name}:${image.tag}`;
    onTestFinished(async () => {
      await docker
        .getImage(image.id)
        .remove({ force: true })
        .catch(() => {});
    });
    await source.fetch(reference, { credentials, onProgress: () => {} });
    const found = await source.find(reference, {});
    return found?.id ?? 'nothing is there';
  }
});

async function push(engine: RealEngine): Promise<BuiltImage> {
  return engine.pushImage({ name: uniqueName('guarded'), tag: 'v1' });
}
