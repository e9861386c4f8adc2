import { getEventListeners } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dockerAuth } from 'handover/docker';
import { FakeClock } from 'handover/testing';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { ask, base64, failure, Home, shown } from './helpers.js';

const FROM_PASS = { username: 'pass-user', password: 'pw' };
const ALL = { credsStore: 'pass' };

function withPass(): Home {
  return new Home().config(ALL).answering('pass', 'pass-user', 'pw');
}

/** Whether a process lives; one that is dead, and that nobody has waited for yet, does not. */
function lives(pid: string): boolean {
  const stat = existsSync(`/proc/${pid}/stat`) ? readFileSync(`/proc/${pid}/stat`, 'utf8') : ') Z';
  return !stat.includes(') Z');
}

describe('dockerAuth: which helper is asked', () => {
  const config = {
    credHelpers: { 'ghcr.io': 'own', 'https://quay.io': 'own', 'file.example.com': '' },
    credsStore: 'pass',
    auths: Object.fromEntries(
      ['ghcr.io', 'other.example.com', 'file.example.com'].map((host) => [host, { auth: base64('file-user:pw') }]),
    ),
  };

  it.each([
    { host: 'ghcr.io', user: 'own-user', asked: ['own get ghcr.io'], why: 'its own' },
    { host: 'quay.io', user: 'own-user', asked: ['own get quay.io'], why: 'its own, with a scheme in the key' },
    { host: 'other.example.com', user: 'pass-user', asked: ['pass get other.example.com'], why: 'the store of all' },
    { host: 'docker.io', user: 'pass-user', asked: ['pass get https://index.docker.io/v1/'], why: 'by its address' },
    { host: 'file.example.com', user: 'file-user', asked: [], why: 'an empty name means the file' },
  ])('IC-14, N-D10 $host: $why', async ({ host, user, asked }) => {
    const home = new Home().config(config).answering('own', 'own-user', 'pw').answering('pass', 'pass-user', 'pw');
    expect(await ask(dockerAuth(), host)).toEqual({ username: user, password: 'pw' });
    expect(home.asked).toEqual(asked);
  });

  it('IC-14 the one that is asked has the last word: what it does not know is anonymous', async () => {
    const home = new Home().config(config).answering('pass', 'pass-user', 'pw');
    home.helper('own', 'echo "credentials not found in native keychain"; exit 1');
    expect(await ask(dockerAuth(), 'ghcr.io')).toBeUndefined();
    expect(home.asked).toEqual(['own get ghcr.io']);
  });

  it('IC-14 nothing is kept: every ask runs it anew', async () => {
    const home = withPass();
    const provider = dockerAuth();
    await ask(provider, 'ghcr.io');
    home.answering('pass', 'pass-user', 'new');
    expect(await provider('ghcr.io', { scope: undefined, refused: true })).toMatchObject({ password: 'new' });
    expect(home.asked).toHaveLength(2);
  });
});

describe('dockerAuth: what a helper answers', () => {
  it.each([
    { answer: '{"Username":"<token>","Secret":"tok"}', found: { identityToken: 'tok' }, why: 'an identity token' },
    { answer: '{"Username":"","Secret":""}', found: undefined, why: 'empty' },
    { answer: ' {"Username":"ü","Secret":"🔑"}\n', found: { username: 'ü', password: '🔑' }, why: 'beyond ASCII' },
  ])('IC-14 $why: $answer', async ({ answer, found }) => {
    new Home().config(ALL).helper('pass', `printf '%s' '${answer}'`);
    expect(await ask(dockerAuth(), 'ghcr.io')).toEqual(found);
  });

  it('IC-14 one that does not read its question may answer', async () => {
    const home = withPass();
    const path = join(home.folder, 'docker-credential-pass');
    writeFileSync(path, `#!/bin/sh\nexec <&-\necho '{"Username":"pass-user","Secret":"pw"}'\n`);
    const longerThanAnyPipe = 'x'.repeat(2_000_000);
    expect(await ask(dockerAuth(), longerThanAnyPipe)).toEqual(FROM_PASS);
  });

  it.each([
    { script: 'echo "cannot: hunter2"; echo hunter2 >&2; exit 3', says: 'ended with code 3', retryable: true },
    { script: 'echo hunter2; kill -TERM $$', says: 'was ended by SIGTERM', retryable: true },
    { script: 'echo hunter2', says: 'not the JSON', retryable: false },
    { script: 'echo \'{"Token":"hunter2"}\'', says: 'not the JSON', retryable: false },
    { script: 'echo \'["hunter2"]\'', says: 'not the JSON', retryable: false },
    { script: 'echo \'{"Username":5,"Secret":"hunter2"}\'', says: 'not the JSON', retryable: false },
    { script: 'echo \'{"Username":"","Secret":"hunter2"}\'', says: 'a name or a secret', retryable: false },
    { script: 'echo \'{"Username":"hunter2","Secret":""}\'', says: 'a name or a secret', retryable: false },
    { script: 'while :; do echo hunter2hunter2; done', says: 'more than 65536 bytes', retryable: false },
  ])('case C19, G-6 "$script" is an error that says: $says', async ({ script, says, retryable }) => {
    new Home().config(ALL).helper('pass', script);
    const error = await failure(ask(dockerAuth(), 'ghcr.io'));
    expect(error).toMatchObject({
      code: 'ERR_DRIVER',
      details: { driver: 'docker-credential-pass', operation: 'get', registry: 'ghcr.io' },
      retryable,
    });
    expect((error as Error).message).toContain(says);
    expect(shown(error)).not.toContain('hunter2');
  });

  it('IC-14 exactly 64 KiB are taken', async () => {
    const secret = 's'.repeat(64 * 1024 - '{"Username":"u","Secret":""}'.length);
    const home = new Home().config(ALL);
    writeFileSync(join(home.folder, 'answer'), `{"Username":"u","Secret":"${secret}"}`);
    home.helper('pass', `cat '${join(home.folder, 'answer')}'`);
    expect(await ask(dockerAuth(), 'ghcr.io')).toEqual({ username: 'u', password: secret });
    home.helper('pass', `cat '${join(home.folder, 'answer')}'; echo`);
    expect((await failure(ask(dockerAuth(), 'ghcr.io'))) as Error).toMatchObject({ code: 'ERR_DRIVER' });
  });
});

describe('dockerAuth: a helper that cannot be run', () => {
  it('case C19 one that is not installed: an error that says so', async () => {
    new Home().config({ credsStore: 'nowhere' });
    const error = await failure(ask(dockerAuth(), 'ghcr.io'));
    expect(error).toMatchObject({ code: 'ERR_DRIVER', details: { driver: 'docker-credential-nowhere' } });
    expect((error as Error).message).toContain('no such program in PATH');
  });

  it.each([
    { make: (path: string) => writeFileSync(path, '#!/bin/sh\n', { mode: 0o644 }), why: 'that may not be executed' },
    { make: (path: string) => symlinkSync(path, path), why: 'that is a link to itself' },
  ])('case C19 one $why: a typed error', async ({ make }) => {
    const home = new Home().config(ALL);
    make(join(home.folder, 'docker-credential-pass'));
    const error = await failure(ask(dockerAuth(), 'ghcr.io'));
    expect(error).toMatchObject({ code: 'ERR_DRIVER', details: { driver: 'docker-credential-pass' } });
  });

  it.each(['x/../../evil', '/evil', 'a b', 'x;touch evil', '$(touch evil)', 'x\0', 'ü', 'x\ny'])(
    'IC-14 a name such as %j is refused, and nothing is run',
    async (name) => {
      const home = new Home().config({ credHelpers: { 'ghcr.io': name } });
      mkdirSync(join(home.folder, 'docker-credential-x'));
      writeFileSync(join(home.folder, 'evil'), `#!/bin/sh\necho ran > '${join(home.folder, 'ran')}'\n`);
      chmodSync(join(home.folder, 'evil'), 0o755);
      const error = await failure(ask(dockerAuth(), 'ghcr.io'));
      expect(error).toMatchObject({ code: 'ERR_DRIVER', retryable: false });
      expect((error as Error).message).toContain('a helper has a name of');
      expect(home.read('ran')).toBe('');
    },
  );

  it('IC-14 what a registry is called is no command: it is data on standard input', async () => {
    const home = withPass();
    await ask(dockerAuth(), '$(touch evil)');
    expect(home.asked).toEqual(['pass get $(touch evil)']);
  });
});

describe('dockerAuth: a helper that is late', () => {
  /** A helper that never ends, with a child in its group and, if asked, one that has left it and holds the pipe. */
  function hanging(escaping = false): Home {
    const home = new Home().config(ALL);
    const note = (file: string): string => `'${join(home.folder, file)}'`;
    const escape = escaping ? `setsid sh -c 'echo $$ > ${join(home.folder, 'escaped')}; exec sleep 1000' &` : '';
    home.helper('pass', `${escape}\nsleep 1000 &\necho $! > ${note('child')}\necho $$ > ${note('parent')}\nwait`);
    onTestFinished(() => {
      const pid = home.read('escaped').trim();
      if (pid !== '') process.kill(Number(pid), 'SIGKILL');
    });
    return home;
  }

  async function running(home: Home, ...files: readonly string[]): Promise<readonly string[]> {
    await expect.poll(() => files.every((file) => home.read(file) !== ''), { timeout: 10_000 }).toBe(true);
    return files.map((file) => home.read(file).trim());
  }

  async function ended(pids: readonly string[]): Promise<void> {
    await expect.poll(() => pids.filter(lives), { timeout: 10_000 }).toEqual([]);
  }

  it.each([
    { helperTimeout: undefined, at: 10_000, why: 'the default is 10 s' },
    { helperTimeout: '3s', at: 3_000, why: 'as the option says' },
  ])('IC-14 it and its children are killed: $why', async ({ helperTimeout, at }) => {
    const home = hanging();
    const clock = new FakeClock();
    const asking = failure(ask(dockerAuth({ helperTimeout }, { clock }), 'ghcr.io'));
    const settled = vi.fn();
    void asking.then(settled);
    const pids = await running(home, 'child', 'parent');
    await clock.advance(at - 1);
    expect(settled).not.toHaveBeenCalled();
    expect(pids.filter(lives)).toEqual(pids);
    await clock.advance(1);
    const error = await asking;
    expect(error).toMatchObject({
      code: 'ERR_DRIVER',
      details: { driver: 'docker-credential-pass', operation: 'get' },
      retryable: true,
    });
    await ended(pids);
    expect(clock.pending).toBe(0);
  });

  it('G-4 called off: the reason of the signal, all killed, no listener and no timer left', async () => {
    const home = hanging();
    const clock = new FakeClock();
    const controller = new AbortController();
    const reason = new Error('called off');
    const asking = failure(ask(dockerAuth({}, { clock }), 'ghcr.io', controller.signal));
    const pids = await running(home, 'child', 'parent');
    controller.abort(reason);
    expect(await asking).toBe(reason);
    await ended(pids);
    expect(clock.pending).toBe(0);
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  });

  it('G-4 after an answer no listener and no timer is left', async () => {
    withPass();
    const clock = new FakeClock();
    const { signal } = new AbortController();
    expect(await ask(dockerAuth({}, { clock }), 'ghcr.io', signal)).toEqual(FROM_PASS);
    expect(clock.pending).toBe(0);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('IC-14 whoever has left its group cannot hold up the answer, nor this process', async () => {
    const home = hanging(true);
    const clock = new FakeClock();
    const before = pipes();
    const asking = failure(ask(dockerAuth({}, { clock }), 'ghcr.io'));
    const pids = await running(home, 'child', 'parent');
    await running(home, 'escaped');
    expect(pipes()).toBeGreaterThan(before);
    await clock.advance(10_000);
    expect(await asking).toMatchObject({ code: 'ERR_DRIVER' });
    await ended(pids);
    await expect.poll(pipes).toBe(before);
  });
});

/** How many pipes keep this process alive. */
function pipes(): number {
  return process.getActiveResourcesInfo().filter((resource) => resource === 'PipeWrap').length;
}
