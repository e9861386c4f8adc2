import { getEventListeners } from 'node:events';
import { type AuthProvider, type Credentials, HandoverError } from 'handover';
import { describe, expect, it, vi } from 'vitest';
import { fixture, MINUTE, SECOND } from './fixture.js';
import { ann, answers, bob, failure, outage, sent } from './logins.js';
import { untilAborted } from './scripted-source.js';

const tick = () => new Promise((resolve) => setImmediate(resolve));

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
