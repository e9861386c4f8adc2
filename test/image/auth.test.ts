import { getEventListeners } from 'node:events';
import { type AuthProvider, type Credentials, HandoverError, type ImageCoordinator } from 'handover';
import { describe, expect, it, vi } from 'vitest';
import { type Fixture, fixture, MINUTE, SECOND } from './fixture.js';
import { digestOf, pullError, type Step, untilAborted } from './scripted-source.js';

const ann = { username: 'ann', password: 'pw-1' };
const bob = { username: 'bob', password: 'pw-2' };
const tick = () => new Promise((resolve) => setImmediate(resolve));

/** What each fetch was sent with. */
function sent(all: Fixture): (Credentials | undefined)[] {
  const seen: (Credentials | undefined)[] = [];
  const { before } = all.source;
  all.source.before = (step) => {
    if (step.line.startsWith('fetch')) seen.push(credentialsOf(step));
    return before(step);
  };
  return seen;
}

function credentialsOf({ call }: Step): Credentials | undefined {
  return (call as { readonly credentials?: Credentials }).credentials;
}

/** A registry that lets only one name in; its failures are those of the source. */
function guard({ source }: Fixture, username: string): void {
  source.before = (step) => {
    if (!step.line.startsWith('fetch')) return;
    const shown = credentialsOf(step);
    if (shown === undefined || !('username' in shown) || shown.username !== username) {
      throw pullError('redis:7', 'unauthorized', false);
    }
  };
}

function outage({ source }: Fixture): void {
  source.before = ({ line }) => {
    if (line.startsWith('fetch')) throw pullError('redis:7', 'registry-unavailable', true);
  };
}

/** Answers one after the other, the last one for ever. */
function answers(...given: readonly ((Credentials & { expiresAt?: number }) | undefined)[]) {
  let asked = 0;
  return vi.fn<AuthProvider>(async () => given[Math.min(asked++, given.length - 1)]);
}

async function failure(acquire: Promise<unknown>): Promise<HandoverError<'ERR_PULL_FAILED'>> {
  const caught: unknown = await acquire.then(
    () => 'nothing failed',
    (error: unknown) => error,
  );
  expect(caught).toBeInstanceOf(HandoverError);
  return caught as HandoverError<'ERR_PULL_FAILED'>;
}

describe('IC-14 asking', () => {
  it('IC-14 the provider is asked for the host; what it gives goes to the fetch, and to no look', async () => {
    const auth = answers(ann);
    const all = fixture({ auth });
    const seen = sent(all);
    await all.images.acquire('redis:7', { owner: 'a' });
    expect(auth.mock.calls.map(([host, { scope, refused }]) => [host, scope, refused])).toEqual([
      ['registry.test', undefined, false],
    ]);
    expect(seen).toEqual([ann]);
  });

  it('IC-14 case C19 undefined is anonymous; what is present asks nobody', async () => {
    const auth = answers(undefined);
    const all = fixture({ auth });
    const seen = sent(all);
    await all.images.acquire('redis:7', { owner: 'a' });
    await all.images.acquire('redis:7', { owner: 'b' });
    expect(seen).toEqual([undefined]);
    expect(auth).toHaveBeenCalledTimes(1);
  });

  it.each([
    { given: { ...ann, serveraddress: 'x', extra: 1 }, shown: ann },
    { given: { identityToken: 't', other: 1 }, shown: { identityToken: 't' } },
    { given: { encoded: 'e30=' }, shown: { encoded: 'e30=' } },
    { given: { ...ann, encoded: 'e30=' }, shown: { encoded: 'e30=' } },
  ])('case C18 $given is sent as $shown, and the caller’s object is left alone', async ({ given, shown }) => {
    const frozen = Object.freeze({ ...given });
    const all = fixture({ auth: answers(frozen) });
    const seen = sent(all);
    await all.images.acquire('redis:7', { owner: 'a' });
    expect(seen).toEqual([shown]);
    expect(seen[0]).not.toBe(frozen);
    expect(frozen).toEqual(given);
  });

  it('IC-14 without expiresAt every attempt asks; with it, only after it', async () => {
    const all = fixture({ pull: { attempts: 2 } });
    outage(all);
    const plain = answers(ann);
    await failure(all.clock.until(all.images.acquire('redis:7', { owner: 'a', auth: plain })));
    expect(plain).toHaveBeenCalledTimes(2);

    const kept = answers({ ...ann, expiresAt: all.clock.wall() + MINUTE });
    const pull = (reference: string) => all.images.acquire(reference, { owner: 'a', auth: kept, policy: 'always' });
    all.source.before = () => undefined;
    await pull('redis:7');
    await pull('redis:8');
    expect(kept).toHaveBeenCalledTimes(1);
    await all.clock.advance(MINUTE - 1);
    await pull('redis:7');
    expect(kept).toHaveBeenCalledTimes(1);
    await all.clock.advance(1);
    await pull('redis:7');
    expect(kept).toHaveBeenCalledTimes(2);
  });

  it.each(['1d', '-1d'])('G-5 the end of what is kept does not move with the wall clock (%s)', async (by) => {
    const all = fixture();
    const auth = answers({ ...ann, expiresAt: all.clock.wall() + MINUTE }, { ...bob, expiresAt: Infinity });
    const pull = () => all.images.acquire('redis:7', { owner: 'a', auth, policy: 'always' });
    await pull();
    all.clock.jump(by === '1d' ? 24 * 60 * MINUTE : -24 * 60 * MINUTE);
    await pull();
    expect(auth).toHaveBeenCalledTimes(1);
    await all.clock.advance(MINUTE);
    await pull();
    expect(auth).toHaveBeenCalledTimes(2);
  });

  it('IC-14 an answer that has expired already is used once and not kept', async () => {
    const all = fixture();
    const auth = answers({ ...ann, expiresAt: all.clock.wall() - 1 });
    const seen = sent(all);
    for (const reference of ['redis:7', 'redis:8']) await all.images.acquire(reference, { owner: 'a', auth });
    expect(seen).toEqual([ann, ann]);
    expect(auth).toHaveBeenCalledTimes(2);
  });

  it('IC-14 asks for the same host and scope at the same time are one; others are not', async () => {
    const all = fixture();
    const seen = sent(all);
    let answer: (credentials: Credentials) => void = () => undefined;
    const auth = vi.fn<AuthProvider>(() => new Promise((resolve) => (answer = resolve)));
    const both = ['redis:7', 'redis:8'].map((one) => all.images.acquire(one, { owner: 'a', auth }));
    await tick();
    expect(auth).toHaveBeenCalledTimes(1);
    answer(ann);
    await Promise.all(both);
    expect(seen).toEqual([ann, ann]);
    const scoped = all.images.acquire('redis:7', { owner: 'a', auth, authScope: 's', policy: 'always' });
    await tick();
    expect(auth.mock.lastCall?.[1].scope).toBe('s');
    answer(bob);
    await scoped;
    expect(seen.at(-1)).toEqual(bob);
  });

  it('IC-4 G-4 it is called off with the pull, leaves nothing behind, and who comes next asks anew', async () => {
    const all = fixture({ pull: { linger: 0 } });
    const signals: AbortSignal[] = [];
    const auth: AuthProvider = (_host, { signal }) => {
      signals.push(signal!);
      return signals.length === 1 ? untilAborted({ signal }) : Promise.resolve(ann);
    };
    const leave = new AbortController();
    const asked = all.images.acquire('redis:7', { owner: 'a', auth, signal: leave.signal });
    await tick();
    leave.abort(new Error('bye'));
    const next = all.images.acquire('redis:7', { owner: 'b', auth });
    await expect(asked).rejects.toThrow('bye');
    expect(signals[0]?.aborted).toBe(true);
    await expect(next).resolves.toMatchObject({ owner: 'b' });
    expect(getEventListeners(leave.signal, 'abort')).toHaveLength(0);
    expect(all.clock.pending).toBe(0);
  });

  it('IC-14 one pull that leaves does not end the ask for another', async () => {
    const all = fixture({ pull: { linger: 0 } });
    let answer: (credentials: Credentials) => void = () => undefined;
    const auth: AuthProvider = () => new Promise((resolve) => (answer = resolve));
    const leave = new AbortController();
    const gone = all.images.acquire('redis:7', { owner: 'a', auth, signal: leave.signal });
    const stays = all.images.acquire('redis:8', { owner: 'b', auth });
    await tick();
    leave.abort(new Error('bye'));
    await expect(gone).rejects.toThrow('bye');
    answer(ann);
    await expect(stays).resolves.toBeDefined();
  });

  it('IC-23 closing ends a provider that never answers', async () => {
    const all = fixture({ auth: () => new Promise(() => undefined) });
    const asked = failure(all.images.acquire('redis:7', { owner: 'a' }));
    await tick();
    await all.images.close();
    expect(await asked).toMatchObject({ code: 'ERR_CLOSED' });
    expect(all.clock.pending).toBe(0);
  });
});

describe('IC-14 a provider that fails', () => {
  it('case C19 one that throws: typed, tried again, and never a fetch', async () => {
    const all = fixture({ pull: { attempts: 3 } });
    const auth = vi.fn<AuthProvider>(() => {
      throw Object.assign(new Error('token s3cret'), { code: 'ECONNREFUSED' });
    });
    const error = await failure(all.clock.until(all.images.acquire('redis:7', { owner: 'a', auth })));
    expect(error).toMatchObject({ retryable: true, details: { reason: 'unauthorized', attempts: 3 } });
    expect(error.message).toContain('the credential provider failed for registry.test: it threw ECONNREFUSED');
    expect(error.message).not.toContain('s3cret');
    expect(auth).toHaveBeenCalledTimes(3);
    expect(all.source.count('fetch redis:7')).toBe(0);
  });

  it.each([true, false])('a HandoverError keeps its words, and whether it may pass: %s', async (retryable) => {
    const all = fixture({ pull: { attempts: 2 } });
    const cause = new HandoverError('ERR_DRIVER', 'the vault is sealed', {
      details: { driver: 'vault', operation: 'get' },
      retryable,
    });
    const auth = vi.fn<AuthProvider>(() => Promise.reject(cause));
    const error = await failure(all.clock.until(all.images.acquire('redis:7', { owner: 'a', auth })));
    expect(error).toMatchObject({ cause, retryable, details: { reason: 'unauthorized', attempts: retryable ? 2 : 1 } });
    expect(error.message).toContain('the vault is sealed');
  });

  it('G-8 one that never answers and ignores its signal is late after 30 s', async () => {
    const all = fixture({ pull: { attempts: 1 } });
    const asked = failure(all.images.acquire('redis:7', { owner: 'a', auth: () => new Promise(() => undefined) }));
    await all.clock.advance(30 * SECOND - 1);
    expect(all.images.explain('redis:7').state).toBe('pulling');
    await all.clock.advance(1);
    const error = await asked;
    expect(error).toMatchObject({ retryable: true, details: { reason: 'unauthorized', attempts: 1 } });
    expect(error.message).toContain('within 30s');
    expect(all.clock.pending).toBe(0);
  });

  it.each([
    null,
    's3cret',
    [],
    {},
    { username: 's3cret' },
    { username: 's3cret', password: 5 },
    { identityToken: 5, s3cret: 1 },
    { ...ann, password: 's3cret', expiresAt: 'tomorrow' },
    { ...ann, password: 's3cret', expiresAt: NaN },
  ])('an answer of no known form (%j) is told without quoting it', async (given) => {
    const all = fixture();
    const auth = vi.fn(async () => given as never);
    const error = await failure(all.images.acquire('redis:7', { owner: 'a', auth }));
    expect(error).toMatchObject({
      retryable: false,
      details: { reason: 'unauthorized', attempts: 1 },
      cause: { code: 'ERR_INVALID_OPTION', details: { path: 'auth' } },
    });
    expect(error.message).toContain('identityToken');
    expect(JSON.stringify(error)).not.toContain('s3cret');
    expect(auth).toHaveBeenCalledTimes(1);
  });
});

describe('IC-10 refused', () => {
  it('S17 case C12 without a provider: one attempt', async () => {
    const all = fixture();
    guard(all, 'bob');
    expect(await failure(all.images.acquire('redis:7', { owner: 'a' }))).toMatchObject({
      retryable: false,
      details: { reason: 'unauthorized', attempts: 1 },
    });
    expect(all.source.count('fetch redis:7')).toBe(1);
  });

  it.each([
    { name: 'the same', second: { ...ann } },
    { name: 'none', second: undefined },
  ])('S17 case C12 $name given when asked once more: one attempt', async ({ second }) => {
    const auth = answers(ann, second);
    const all = fixture({ auth });
    guard(all, 'bob');
    expect(await failure(all.images.acquire('redis:7', { owner: 'a' }))).toMatchObject({
      retryable: false,
      details: { reason: 'unauthorized', attempts: 1 },
    });
    expect(auth.mock.calls.map(([, { refused }]) => refused)).toEqual([false, true]);
    expect(all.source.count('fetch redis:7')).toBe(1);
    expect(all.clock.pending).toBe(0);
  });

  it('S17 case C12 something new that is refused too: two attempts, and no more', async () => {
    const auth = answers(ann, { ...ann, password: 'other' }, bob);
    const all = fixture({ auth });
    guard(all, 'bob');
    const error = await failure(all.images.acquire('redis:7', { owner: 'a' }));
    expect(error).toMatchObject({ retryable: false, details: { reason: 'unauthorized', attempts: 2 } });
    expect(error.message).toContain('after 2 attempts');
    expect(auth).toHaveBeenCalledTimes(2);
  });

  it.each([
    { name: 'other credentials', first: ann },
    { name: 'credentials after none', first: undefined },
  ])('S17 $name that are good: the content comes at once', async ({ first }) => {
    const all = fixture({ auth: answers(first, bob), pull: { attempts: 1 } });
    guard(all, 'bob');
    const seen = sent(all);
    await expect(all.images.acquire('redis:7', { owner: 'a' })).resolves.toMatchObject({ imageId: 'sha256:a' });
    expect(seen).toEqual([first, bob]);
    expect(all.clock.now()).toBe(0);
  });

  it('IC-14 what was kept and refused is forgotten; what came instead is kept', async () => {
    const all = fixture();
    const expiresAt = all.clock.wall() + MINUTE;
    const auth = answers({ ...ann, expiresAt }, { ...bob, expiresAt });
    guard(all, 'bob');
    const seen = sent(all);
    await all.images.acquire('redis:7', { owner: 'a', auth });
    await all.images.acquire('redis:8', { owner: 'a', auth });
    expect(seen).toEqual([ann, bob, bob]);
    expect(auth).toHaveBeenCalledTimes(2);
  });

  it('S17 a provider that fails when asked once more fails the attempt by its own words', async () => {
    const auth = vi.fn<AuthProvider>(async (_host, { refused }) => {
      if (refused) throw new Error('s3cret');
      return ann;
    });
    const all = fixture({ auth, pull: { attempts: 2 } });
    guard(all, 'bob');
    const error = await failure(all.clock.until(all.images.acquire('redis:7', { owner: 'a' })));
    expect(error).toMatchObject({ retryable: true, details: { reason: 'unauthorized', attempts: 2 } });
    expect(error.message).toContain('the credential provider failed');
  });

  it('IC-12 the second try is an attempt of its own in the progress', async () => {
    const all = fixture({ auth: answers(ann, bob) });
    guard(all, 'bob');
    const attempts = new Set<number>();
    await all.images.acquire('redis:7', { owner: 'a', onProgress: ({ attempt }) => attempts.add(attempt) });
    expect([...attempts]).toEqual([1, 2]);
  });
});

describe('IC-3 scopes', () => {
  /** Starts two pulls of redis:7 that are in the air at the same time, and tells how many fetches they made. */
  async function fetches(images: ImageCoordinator, { source }: Fixture, options: readonly object[]): Promise<number> {
    const held = options.map(() => source.hold('fetch redis:7'));
    const all = options.map((o, i) => images.acquire('redis:7', { owner: `o${i}`, ...o }));
    await tick();
    const made = source.count('fetch redis:7');
    held.forEach((one) => one.go());
    await Promise.all(all);
    return made;
  }

  const own = answers(ann);
  const other = answers(bob);
  const common = answers(ann);
  it.each([
    { name: 'the coordinator’s provider, given again', options: [{}, { auth: common }], pulls: 1 },
    { name: 'another provider', options: [{}, { auth: own }], pulls: 2 },
    { name: 'two providers', options: [{ auth: own }, { auth: other }], pulls: 2 },
    { name: 'one provider twice', options: [{ auth: own }, { auth: own }], pulls: 1 },
    { name: 'two scopes', options: [{ authScope: 'a' }, { authScope: 'b' }], pulls: 2 },
    {
      name: 'one scope, two providers',
      options: [
        { auth: own, authScope: 'a' },
        { auth: other, authScope: 'a' },
      ],
      pulls: 1,
    },
    { name: 'a scope that looks like a provider', options: [{ auth: own }, { auth: own, authScope: '#1' }], pulls: 2 },
    { name: 'the host as scope', options: [{}, { authScope: 'registry.test' }], pulls: 1 },
  ])('S7 IC-3 $name: $pulls pulls', async ({ options, pulls }) => {
    const all = fixture({ auth: common });
    expect(await fetches(all.images, all, options)).toBe(pulls);
    expect(all.images.explain('redis:7').holders).toHaveLength(2);
    expect(all.images.snapshot()).toHaveLength(1);
  });

  it('S7 each scope is fetched with its own credentials, and the failure of one is not the other’s', async () => {
    const all = fixture({ pull: { attempts: 1 } });
    guard(all, 'bob');
    const seen = sent(all);
    const [first, second] = await Promise.allSettled([
      all.images.acquire('redis:7', { owner: 'a', auth: answers(ann), authScope: 'a' }),
      all.images.acquire('redis:7', { owner: 'b', auth: answers(bob), authScope: 'b' }),
    ]);
    expect(seen).toEqual(expect.arrayContaining([ann, bob]));
    expect(first).toMatchObject({ status: 'rejected', reason: { details: { reason: 'unauthorized' } } });
    expect(second).toMatchObject({ status: 'fulfilled' });
  });

  it('S7 present content is shared by all scopes; always proves access', async () => {
    const all = fixture();
    await all.images.acquire('redis:7', { owner: 'a', auth: answers(bob) });
    guard(all, 'bob');
    const foreign = { owner: 'b', auth: answers(ann), authScope: 'b' };
    await expect(all.images.acquire('redis:7', foreign)).resolves.toBeDefined();
    await expect(all.images.acquire('redis:7', { ...foreign, policy: 'always' })).rejects.toMatchObject({
      details: { reason: 'unauthorized' },
    });
  });

  it('IC-14 a scope whose first caller has no provider takes that of the next', async () => {
    const all = fixture({ pull: { concurrency: 1 } });
    const busy = all.source.hold('fetch redis:8');
    const before = all.images.acquire('redis:8', { owner: 'x' });
    await busy.reached;
    const seen = sent(all);
    const both = [
      all.images.acquire('redis:7', { owner: 'a', authScope: 's' }),
      all.images.acquire('redis:7', { owner: 'b', authScope: 's', auth: answers(bob) }),
    ];
    await tick();
    busy.go();
    await Promise.all([before, ...both]);
    expect(seen.at(-1)).toEqual(bob);
  });

  it('IC-22 verify brings lost content back with the credentials of its lease', async () => {
    const all = fixture();
    all.source.registry.set(digestOf('redis', 'sha256:a'), 'sha256:a');
    const auth = answers(bob);
    const lease = await all.images.acquire('redis:7', { owner: 'a', auth, authScope: 's' });
    all.source.wipe('sha256:a');
    const seen = sent(all);
    await lease.verify();
    expect(seen).toEqual([bob]);
    expect(auth.mock.lastCall?.[1].scope).toBe('s');
  });
});

describe('IC-9 the gate and new credentials', () => {
  async function gated(auth: AuthProvider) {
    const all = fixture({ pull: { attempts: 1 }, auth });
    outage(all);
    await failure(all.images.acquire('redis:7', { owner: 'a' }));
    all.source.before = () => undefined;
    return all;
  }

  it('S17 other credentials than those of the failed pull open it', async () => {
    const all = await gated(answers(ann, bob));
    const seen = sent(all);
    await expect(all.images.acquire('redis:7', { owner: 'a' })).resolves.toBeDefined();
    expect(seen.length).toBe(1);
  });

  it.each([
    { name: 'the same', auth: answers(ann) },
    { name: 'none, as before', auth: answers(undefined) },
  ])('S17 $name: it stays closed', async ({ auth }) => {
    const all = await gated(auth);
    const error = await failure(all.images.acquire('redis:7', { owner: 'a' }));
    expect(error.details).toMatchObject({ reason: 'registry-unavailable', retryAt: all.clock.wall() + 10 * SECOND });
    expect(all.source.count('fetch redis:7')).toBe(1);
  });

  it('S17 a provider that answers again opens the gate of its own failure; one that still fails does not', async () => {
    let works = false;
    const auth: AuthProvider = async () => {
      if (!works) throw new Error('sealed');
      return undefined;
    };
    const all = fixture({ pull: { attempts: 1 }, auth });
    await failure(all.images.acquire('redis:7', { owner: 'a' }));
    const closed = await failure(all.images.acquire('redis:7', { owner: 'a' }));
    expect(closed.details).toMatchObject({ attempts: 0, reason: 'unauthorized' });
    works = true;
    await expect(all.images.acquire('redis:7', { owner: 'a' })).resolves.toBeDefined();
  });

  it('S17 an engine that does not answer is no matter of credentials: nobody is asked', async () => {
    const auth = answers(ann, bob);
    const all = fixture({ pull: { attempts: 1 }, auth });
    all.source.before = ({ line }) => {
      if (line.startsWith('find')) throw new Error('HTTP 500');
    };
    const always = { owner: 'a', policy: 'always' } as const;
    await failure(all.images.acquire('redis:7', always));
    await failure(all.images.acquire('redis:7', always));
    expect(auth).not.toHaveBeenCalled();
  });

  it('S17 many callers at a closed gate ask once', async () => {
    const all = await gated(answers(ann));
    const auth = answers(ann);
    const callers = Array.from({ length: 20 }, (_, i) =>
      failure(all.images.acquire('redis:7', { owner: `o${i}`, auth, authScope: 'registry.test' })),
    );
    await Promise.all(callers);
    expect(auth).toHaveBeenCalledTimes(1);
  });

  it('S17 another scope has a gate of its own', async () => {
    const all = await gated(answers(ann));
    const tenant = { owner: 'a', authScope: 'tenant' };
    await expect(all.images.acquire('redis:7', tenant)).resolves.toBeDefined();
  });

  it('G-4 a caller who waits for the provider at the gate may leave; so does the close', async () => {
    let slow = false;
    const auth: AuthProvider = () => (slow ? new Promise(() => undefined) : Promise.resolve(ann));
    const all = await gated(auth);
    slow = true;
    const leave = new AbortController();
    const gone = all.images.acquire('redis:7', { owner: 'a', signal: leave.signal });
    const stays = failure(all.images.acquire('redis:7', { owner: 'b' }));
    await tick();
    leave.abort(new Error('bye'));
    await expect(gone).rejects.toThrow('bye');
    await all.images.close();
    expect(await stays).toMatchObject({ code: 'ERR_CLOSED' });
    expect(all.clock.pending).toBe(0);
    expect(getEventListeners(leave.signal, 'abort')).toHaveLength(0);
  });
});
