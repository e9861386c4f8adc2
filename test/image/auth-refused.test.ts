import { inspect } from 'node:util';
import { type AuthProvider, type Credentials, HandoverError } from 'handover';
import { FakeClock } from 'handover/testing';
import { describe, expect, it, vi } from 'vitest';
import { Logins } from '../../src/image/auth.js';
import { deferred } from '../../src/internal/deferred.js';
import { fixture, MINUTE } from './fixture.js';
import { ann, answers, bob, failure, guard, sent } from './logins.js';
import type { Step } from './scripted-source.js';

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

  it('IC-14 what was kept and refused is forgotten even if nothing came instead: the next pull asks anew', async () => {
    const all = fixture();
    const auth = answers({ ...ann, expiresAt: all.clock.wall() + MINUTE }, undefined, bob);
    guard(all, 'bob');
    await failure(all.images.acquire('redis:7', { owner: 'a', auth }));
    await expect(all.images.acquire('redis:7', { owner: 'a', auth })).resolves.toBeDefined();
    expect(auth.mock.calls.map(([, { refused }]) => refused)).toEqual([false, true, false]);
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

  it('IC-14 G-6 what the source cannot use is a provider that failed: unauthorized, not quoted, asked for once more', async () => {
    const junk = { encoded: 's3cret\r\nx: y' };
    const auth = answers({ ...junk, expiresAt: MINUTE * 1e9 });
    const all = fixture({ auth });
    const unusable = ({ line, call }: Step) => {
      const { credentials } = call as { readonly credentials?: Credentials };
      if (line.startsWith('fetch') && credentials !== undefined && 'encoded' in credentials) {
        const details = { path: 'credentials.encoded' };
        throw new HandoverError('ERR_INVALID_OPTION', 'Option credentials.encoded: must be one line', { details });
      }
    };
    all.source.before = unusable;
    const error = await failure(all.images.acquire('redis:7', { owner: 'a' }));
    expect(error).toMatchObject({
      code: 'ERR_PULL_FAILED',
      details: { reason: 'unauthorized', attempts: 1 },
      retryable: false,
      message: expect.stringMatching(/the credential provider failed for registry\.test: .*must be one line/) as string,
    });
    expect(inspect(error, { depth: Infinity })).not.toContain('s3cret');
    expect(auth.mock.calls.map(([, { refused }]) => refused)).toEqual([false, true]);

    const mended = answers(junk, ann);
    await expect(all.images.acquire('redis:7', { owner: 'a', auth: mended })).resolves.toBeDefined();
  });

  it('IC-14 another option that a source refuses is no matter of credentials', async () => {
    const all = fixture({ auth: answers(ann, bob) });
    all.source.before = ({ line }) => {
      if (!line.startsWith('fetch')) return;
      throw new HandoverError('ERR_INVALID_OPTION', 'Option platform: is none', { details: { path: 'platform' } });
    };
    expect(await failure(all.images.acquire('redis:7', { owner: 'a' }))).toMatchObject({ code: 'ERR_INVALID_OPTION' });
    expect(all.source.count('fetch redis:7')).toBe(1);
  });

  it('IC-12 the second try is an attempt of its own in the progress', async () => {
    const all = fixture({ auth: answers(ann, bob) });
    guard(all, 'bob');
    const attempts = new Set<number>();
    await all.images.acquire('redis:7', { owner: 'a', onProgress: ({ attempt }) => attempts.add(attempt) });
    expect([...attempts]).toEqual([1, 2]);
  });
});

it('IC-14 an older ask that ends late does not bring back what was refused', async () => {
  const clock = new FakeClock();
  const logins = new Logins(clock);
  const slow = deferred();
  const asked: string[] = [];
  const auth: AuthProvider = async (_host, { refused }) => {
    asked.push(refused ? 'refused' : 'first');
    const password = refused ? 'new' : 'old';
    if (!refused) await slow.promise;
    return { username: 'u', password, expiresAt: clock.wall() + MINUTE };
  };
  const claim = { auth, host: 'h', scope: undefined };
  const { signal } = new AbortController();
  const old = logins.ask(claim, { refused: false, signal });
  await logins.ask(claim, { refused: true, signal });
  slow.resolve();
  await expect(old).resolves.toMatchObject({ password: 'old' });
  await expect(logins.ask(claim, { refused: false, signal })).resolves.toMatchObject({ password: 'new' });
  expect(asked).toEqual(['first', 'refused']);
});
