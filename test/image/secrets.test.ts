import { inspect } from 'node:util';
import Docker from 'dockerode';
import { type AuthProvider, type Credentials, type HandoverEvent, HandoverError, ImageCoordinator } from 'handover';
import { dockerImages, staticAuth } from 'handover/docker';
import { FakeClock, FakeEngine, memoryStore } from 'handover/testing';
import { expect, it, onTestFinished } from 'vitest';
import { MINUTE } from './fixture.js';
import { invalidOption } from '../../src/errors.js';
import { pullError, ScriptedSource, type Step } from './scripted-source.js';

/** None of these words, nor what they are in base64, may be seen anywhere. */
const SECRETS = ['hunter2-password', 'hunter2-token', 'hunter2-encoded', 'hunter2-thrown', 'hunter2-shape'] as const;
const [PASSWORD, TOKEN, ENCODED, THROWN, SHAPE] = SECRETS;

const everyForm: readonly Credentials[] = [
  { username: 'ann', password: PASSWORD },
  { identityToken: TOKEN },
  { encoded: ENCODED },
];

/** Everything that can be seen of something, also by a debugger's eyes. */
function sight(thing: unknown): string {
  const stack = thing instanceof Error ? `${String(thing.stack)}${String(thing)}` : '';
  return `${stack}${JSON.stringify([thing])}${inspect(thing, { depth: Infinity, showHidden: true })}`;
}

/** As it is, and decoded: a header with credentials is base64. */
function expectNoSecret(sights: readonly string[]): void {
  const text = sights.join('\n');
  const decoded = [...new Set(text.match(/[\w+/-]{16,}/g))].map((run) => Buffer.from(run, 'base64').toString('latin1'));
  for (const secret of SECRETS) {
    expect(text.includes(secret), secret).toBe(false);
    expect(
      decoded.some((one) => one.includes(secret)),
      `${secret} in base64`,
    ).toBe(false);
  }
}

/** Providers that do everything right and everything wrong, one for each scope. */
function providers(clock: FakeClock): ReadonlyMap<string, AuthProvider> {
  const good = everyForm.map((one, i): [string, AuthProvider] => [`good-${i}`, async () => one]);
  const kept: AuthProvider = async () => ({ ...everyForm[0]!, expiresAt: clock.wall() + MINUTE });
  const other: AuthProvider = async (_host, { refused }) => everyForm[refused ? 1 : 0];
  const throws: AuthProvider = async () => {
    throw Object.assign(new Error(`no luck with ${THROWN}`, { cause: THROWN }), { config: { password: THROWN } });
  };
  const throwsText: AuthProvider = () => {
    // eslint-disable-next-line @typescript-eslint/only-throw-error -- others do
    throw THROWN;
  };
  const typed: AuthProvider = async () => {
    throw new HandoverError('ERR_DRIVER', 'sealed', { details: { driver: 'vault', operation: 'get' } });
  };
  const shaped: AuthProvider = async () => ({ user: SHAPE, username: SHAPE, password: 5 }) as never;
  const late: AuthProvider = () => new Promise(() => undefined);
  return new Map([
    ...good,
    ...Object.entries({
      kept,
      other,
      throws,
      throwsText,
      typed,
      shaped,
      late,
      own: staticAuth({ 'registry.test': everyForm[0]! }),
    }),
  ]);
}

/** How a registry may take whatever it is shown. */
const REGISTRIES = [
  { name: 'gives', fails: () => undefined },
  { name: 'refuses', fails: () => pullError('redis:7', 'unauthorized', false) },
  { name: 'is out of reach', fails: () => pullError('redis:7', 'registry-unavailable', true) },
  { name: 'fills the disk', fails: () => pullError('redis:7', 'no-space', false) },
  { name: 'breaks off', fails: () => new Error('ECONNRESET') },
  { name: 'cannot use them', fails: () => invalidOption('credentials.encoded', 'must be one line') },
] satisfies { name: string; fails: () => Error | undefined }[];

// One test for each: to see a whole coordinator takes long.
it.each(REGISTRIES)(
  'G-6 IC-14 no credentials are in errors, events, snapshots, leases, JSON or the store when the registry $name',
  async ({ fails }) => {
    const clock = new FakeClock();
    const source = new ScriptedSource();
    source.registry.set('redis:7', 'sha256:a').set('redis:8', 'sha256:b');
    const store = memoryStore();
    const seen: string[] = [];
    const look = (thing: unknown): void => void seen.push(sight(thing));
    const all = providers(clock);
    const env = { clock, store, onEvent: (event: HandoverEvent) => look(event) };
    const images = new ImageCoordinator({ source, auth: all.get('kept')!, pull: { attempts: 2 } }, env);
    await images.recover(() => true);

    const shown: Credentials[] = [];
    const attempt = async (scope: string, auth: AuthProvider, policy: 'always' | 'if-absent'): Promise<void> => {
      const o = { owner: scope, auth, authScope: scope, policy, timeout: MINUTE };
      const asked = images.acquire('redis:7', { ...o, onProgress: look });
      await clock.until(asked.then(look, look));
      look(await images.adopt({ owner: scope, reference: 'redis:7', imageId: 'sha256:a' }));
      for (const thing of [images.options, images.snapshot(), images.explain('redis:7')]) look(thing);
      look(await store.list(''));
    };
    const registry = (failure: () => Error | undefined) => (step: Step) => {
      if (!step.line.startsWith('fetch')) return;
      const { credentials } = step.call as { credentials?: Credentials };
      if (credentials !== undefined) shown.push(credentials);
      const error = failure();
      if (error !== undefined) throw error;
    };
    source.before = registry(fails);
    for (const [scope, auth] of all) await attempt(scope, auth, 'always');
    look(images);
    source.before = registry(() => undefined);
    await attempt('default', all.get('kept')!, 'if-absent');
    for (const status of images.snapshot()) for (const { owner } of status.holders) await images.release(owner);
    look(await images.collect({ dryRun: true }));
    look(await images.collect());
    await images.close();
    look(images);

    // All of them were really in use, and there was something to be seen.
    const forms = [PASSWORD, TOKEN, ENCODED].map((one) => `(?=.*${one})`).join('');
    expect(JSON.stringify(shown)).toMatch(new RegExp(forms));
    expect(seen.length).toBeGreaterThan(50);
    expect(seen.join()).toContain('the credential provider failed');
    expectNoSecret(seen);
  },
);

it('G-6 IC-14 likewise with a Docker engine, that refuses, fails and cannot be reached', async () => {
  const engine = await FakeEngine.start();
  onTestFinished(() => engine.close());
  engine.publish('app:v1');
  const seen: string[] = [];
  const look = (thing: unknown): void => void seen.push(sight(thing));
  const images = new ImageCoordinator(
    { source: dockerImages(new Docker({ socketPath: engine.socketPath })), pull: { attempts: 1 } },
    { onEvent: look },
  );
  const refusal = { status: 500, message: 'Head "https://h/v2/app/manifests/v1": no basic auth credentials' };
  const credentials = [...everyForm, { encoded: `${ENCODED}\r\nx: y` }];
  for (const fault of [undefined, refusal, { status: 503, message: 'down' }]) {
    for (const [i, one] of credentials.entries()) {
      if (fault !== undefined) engine.fault({ path: /^\/images\/create/, times: 2 }, fault);
      const o = { owner: 'a', policy: 'always', auth: async () => one, authScope: `${i} ${fault?.status}` } as const;
      const failed = await images.acquire('app:v1', o).then(look, (error: unknown) => (look(error), error));
      if (failed !== undefined) expect(failed).toMatchObject({ code: 'ERR_PULL_FAILED' });
    }
  }
  look(images.snapshot());
  await images.close();
  expect(seen.length).toBeGreaterThan(12);
  expectNoSecret(seen);
});
