import { inspect } from 'node:util';
import Docker from 'dockerode';
import {
  type AuthProvider,
  type Clock,
  type Credentials,
  type HandoverEvent,
  ImageCoordinator,
  isHandoverError,
  type PullOptions,
  systemClock,
} from 'handover';
import { type DockerImage, dockerImages, staticAuth } from 'handover/docker';
import { expect, it, onTestFinished } from 'vitest';
import { type BuiltImage, engineSuite, type RealEngine, uniqueName } from './harness/index.js';

/** Retries of a minute are waited for in a third of a second. */
const HASTE = 200;
const hasty: Clock = {
  now: () => systemClock.now() * HASTE,
  wall: () => systemClock.wall(),
  timer: (ms, fire, o) => systemClock.timer(ms / HASTE, fire, o),
  random: () => systemClock.random(),
};
/** What really takes its time here must not be hurried. */
const PATIENT: PullOptions = { beginTimeout: 'never', stallTimeout: 'never', abortGrace: '2h', linger: 0 };

interface World {
  readonly images: ImageCoordinator<DockerImage>;
  readonly events: readonly HandoverEvent[];
  /** How often the engine was asked to pull. */
  pulls(): number;
}

async function world(engine: RealEngine, o: { auth?: AuthProvider; pull?: PullOptions } = {}): Promise<World> {
  const proxy = await engine.engineProxy();
  const events: HandoverEvent[] = [];
  const source = dockerImages(new Docker({ socketPath: proxy.socketPath }));
  const images = new ImageCoordinator(
    { source, auth: o.auth, pull: { ...PATIENT, ...o.pull }, removal: { enabled: false } },
    { clock: hasty, onEvent: (event) => void events.push(event) },
  );
  onTestFinished(() => images.close());
  return { images, events, pulls: () => proxy.sequence.filter((call) => call.includes('/images/create')).length };
}

/** Class, attempts, and whether it may pass, of an acquire that has to fail. */
async function failure(images: ImageCoordinator<DockerImage>, reference: string, o: { platform?: string } = {}) {
  const error: unknown = await images.acquire(reference, { owner: 'a', ...o }).catch((caught: unknown) => caught);
  if (!isHandoverError(error, 'ERR_PULL_FAILED')) throw new Error(`not a failed pull: ${inspect(error)}`);
  const { reason, attempts } = error.details;
  return { reason, attempts, retryable: error.retryable };
}

async function push(engine: RealEngine, paddingMb = 0): Promise<BuiltImage> {
  const image = await engine.pushImage({ name: uniqueName('fails'), tag: 'v1', paddingMb });
  onTestFinished(async () => {
    await engine.docker
      .getImage(image.id)
      .remove({ force: true })
      .catch(() => {});
  });
  return image;
}

engineSuite('IC-9 IC-10 failures of a real engine through the coordinator', (engine) => {
  const host = `127.0.0.1:${engine.guarded.port}`;
  const { login } = engine.guarded;
  const wrong: Credentials = { username: login.username, password: 'hunter2hunter2' };
  /** Gives one after the other when refused. */
  const inTurn =
    (first: Credentials | undefined, second: Credentials | undefined): AuthProvider =>
    async (_host, { refused }) =>
      refused ? second : first;

  it.each([
    { name: 'the right login', auth: staticAuth({ [host]: login }), pulls: 1 },
    { name: 'a wrong one, then the right one', auth: inTurn(wrong, login), pulls: 2 },
    { name: 'none, then the right one', auth: inTurn(undefined, login), pulls: 2 },
  ])('IC-14 S17 case C12 $name: it comes with $pulls pulls', async ({ auth, pulls }) => {
    const all = await world(engine, { auth });
    const image = await push(engine);
    const lease = await all.images.acquire(`${host}/${image.name}:v1`, { owner: 'a' });
    expect(lease.imageId).toBe(image.id);
    expect(all.pulls()).toBe(pulls);
    expect(inspect(all.events, { depth: Infinity })).not.toMatch(/hunter2|c0rrect/);
  });

  it.each([
    { name: 'anonymous', auth: undefined, attempts: 1 },
    { name: 'a wrong login, and no other', auth: inTurn(wrong, wrong), attempts: 1 },
    { name: 'two wrong logins', auth: inTurn(wrong, { identityToken: 'hunter2' }), attempts: 2 },
  ])('S17 case C12 $name: unauthorized, permanent, $attempts attempts', async ({ auth, attempts }) => {
    const all = await world(engine, auth === undefined ? {} : { auth });
    const image = await push(engine);
    expect(await failure(all.images, `${host}/${image.name}:v1`)).toEqual({
      reason: 'unauthorized',
      attempts,
      retryable: false,
    });
    expect(all.pulls()).toBe(attempts);
    expect(inspect(all.events, { depth: Infinity })).not.toContain('hunter2');
  });

  it.each([
    { status: 401, reason: 'unauthorized', attempts: 1, retryable: false },
    { status: 429, reason: 'rate-limited', attempts: 5, retryable: true },
    { status: 503, reason: 'registry-unavailable', attempts: 5, retryable: true },
  ])(
    'S18 case C14 a registry that answers $status: $reason after $attempts attempts',
    async ({ status, ...expected }) => {
      const all = await world(engine);
      const image = await push(engine);
      const registry = await engine.registryProxy({ answer: { status, path: /manifests/ } });
      expect(await failure(all.images, registry.ref(image.name, 'v1'))).toEqual(expected);
      expect(all.pulls()).toBe(expected.attempts);
    },
  );

  it('IC-9 case C14 it is tried again and comes when the registry answers again', async () => {
    const all = await world(engine);
    const image = await push(engine);
    const registry = await engine.registryProxy({ answer: { status: 429, path: /manifests/ } });
    const asked = all.images.acquire(registry.ref(image.name, 'v1'), {
      owner: 'a',
      onProgress: ({ phase }) => {
        if (phase === 'retrying') registry.set({});
      },
    });
    await expect(asked).resolves.toMatchObject({ imageId: image.id });
    expect(all.pulls()).toBe(2);
  });

  it('case C13 an unknown tag and an unknown name: one attempt', async () => {
    const all = await world(engine);
    const image = await push(engine);
    for (const name of [`${image.name}:v2`, `${uniqueName('missing')}:v1`]) {
      expect(await failure(all.images, `127.0.0.1:${engine.registry.port}/${name}`)).toEqual({
        reason: 'not-found-or-denied',
        attempts: 1,
        retryable: false,
      });
    }
    expect(all.pulls()).toBe(2);
  });

  it('case C17 another platform: one attempt', async () => {
    const all = await world(engine);
    const image = await push(engine);
    const reference = `127.0.0.1:${engine.registry.port}/${image.name}:v1`;
    expect(await failure(all.images, reference, { platform: 'linux/s390x' })).toEqual({
      reason: 'no-platform',
      attempts: 1,
      retryable: false,
    });
    expect(all.pulls()).toBe(1);
  });

  it('case C15 cut at 90 %: registry-unavailable, as many attempts as there may be; mended, it comes', async () => {
    const all = await world(engine, { pull: { attempts: 2 } });
    const image = await push(engine, 2);
    const registry = await engine.registryProxy({ cutAfterBytes: Math.floor(image.bytes * 0.9) });
    const reference = registry.ref(image.name, 'v1');
    expect(await failure(all.images, reference)).toEqual({
      reason: 'registry-unavailable',
      attempts: 2,
      retryable: true,
    });
    expect(all.pulls()).toBe(2);
    registry.set({});
    all.images.retryNow(reference);
    await expect(all.images.acquire(reference, { owner: 'a' })).resolves.toMatchObject({ imageId: image.id });
  });

  it('S19 case C7 silent at 50 %: stalled, as many attempts as there may be; then a fresh pull brings it', async () => {
    // 3 s of the real clock.
    const all = await world(engine, { pull: { attempts: 2, stallTimeout: '10m' } });
    const image = await push(engine, 2);
    const registry = await engine.registryProxy({ silentAfterBytes: Math.floor(image.bytes / 2) });
    const reference = registry.ref(image.name, 'v1');
    expect(await failure(all.images, reference)).toEqual({ reason: 'stalled', attempts: 2, retryable: true });
    registry.set({});
    all.images.retryNow(reference);
    await expect(all.images.acquire(reference, { owner: 'a' })).resolves.toMatchObject({ imageId: image.id });
    expect(all.events.some(({ type }) => type === 'warning')).toBe(false);
  });
});
