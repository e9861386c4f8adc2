import { ImageCoordinator, isHandoverError } from 'handover';
import { describe, expect, it } from 'vitest';
import { fixture } from './fixture.js';
import { ScriptedSource } from './scripted-source.js';

/** What no option, owner, reference or call is. */
const JUNK = [null, 5, true, [], Symbol('x'), () => undefined] as const;
const name = (value: unknown): string => (typeof value === 'object' ? JSON.stringify(value) : typeof value);
const rows = (...more: readonly unknown[]) => [...JUNK, ...more].map((given) => ({ given, name: name(given) }));

/** The path that the typed error names. */
async function refused(call: () => unknown): Promise<string> {
  try {
    await call();
  } catch (error) {
    if (isHandoverError(error, 'ERR_INVALID_OPTION')) return error.details.path;
    throw error;
  }
  return 'nothing was refused';
}

describe('G-2 bad input is told by its path, whichever method gets it', () => {
  it.each(rows(undefined))('a reference that is $name', async ({ given }) => {
    const { images, source } = fixture();
    const reference = given as string;
    expect(await refused(() => images.acquire(reference, { owner: 'a' }))).toBe('reference');
    expect(await refused(() => images.prefetch(reference, { owner: 'a', ttl: '1m' }))).toBe('reference');
    expect(await refused(() => images.explain(reference))).toBe('reference');
    expect(await refused(() => images.retryNow(reference))).toBe('reference');
    expect(await refused(() => images.adopt({ owner: 'a', reference, imageId: 'sha256:a' }))).toBe('reference');
    expect(source.calls).toEqual([]);
  });

  it.each(rows(undefined))('an owner that is $name', async ({ given }) => {
    const { images } = fixture();
    const owner = given as string;
    expect(await refused(() => images.acquire('redis:7', { owner }))).toBe('owner');
    expect(await refused(() => images.release(owner))).toBe('owner');
    expect(await refused(() => images.adopt({ owner, reference: 'redis:7', imageId: 'sha256:a' }))).toBe('owner');
  });

  it.each(rows())('options that are $name', async ({ given }) => {
    const { images, source } = fixture();
    const options = given as never;
    const whole = expect.stringMatching(/^(\(options\)|owner|source|name)$/) as string;
    expect(await refused(() => new ImageCoordinator(options))).toEqual(whole);
    expect(await refused(() => new ImageCoordinator({ source: new ScriptedSource() }, options))).toMatch(/^env/);
    expect(await refused(() => images.acquire('redis:7', options))).toEqual(whole);
    expect(await refused(() => images.prefetch('redis:7', options))).toEqual(whole);
    expect(await refused(() => images.collect(options))).toEqual(whole);
    expect(await refused(() => images.adopt(options))).toEqual(whole);
    expect(source.calls).toEqual([]);
  });

  it.each(rows().filter(({ given }) => typeof given !== 'function'))('a call that is $name', async ({ given }) => {
    const { images } = fixture();
    const call = given as never;
    const lease = await images.acquire('redis:7', { owner: 'a' });
    const held = { owner: 'b', reference: 'redis:7', imageId: lease.imageId };
    expect(await refused(() => lease.verify(call))).toBe('(options)');
    expect(await refused(() => images.adopt(held, call))).toBe('(options)');
    expect(await refused(() => images.recover(() => true, call))).toBe('(options)');
    expect(images.explain('redis:7').holders.map(({ owner }) => owner)).toEqual(['a']);
  });

  it.each(rows('abort'))('a signal that is $name', async ({ given }) => {
    const { images } = fixture();
    const call = { signal: given as never };
    const lease = await images.acquire('redis:7', { owner: 'a' });
    const held = { owner: 'b', reference: 'redis:7', imageId: lease.imageId };
    expect(await refused(() => images.acquire('redis:7', { owner: 'a', ...call }))).toBe('signal');
    expect(await refused(() => images.adopt(held, call))).toBe('signal');
    expect(await refused(() => images.collect(call))).toBe('signal');
    expect(await refused(() => images.recover(() => true, call))).toBe('signal');
    expect(await refused(() => lease.verify(call))).toBe('signal');
  });

  it.each([
    [{ auth: 'secret' }, 'auth'],
    [{ auth: null }, 'auth'],
    [{ authScope: '' }, 'authScope'],
    [{ authScope: 5 }, 'authScope'],
    [{ platform: 'linux amd64' }, 'platform'],
  ])('IC-14 %j names %s, and repeats nothing', async (options, path) => {
    const { images } = fixture();
    const acquire = () => images.acquire('redis:7', { owner: 'a', ...(options as object) });
    expect(await refused(acquire)).toBe(path);
    await expect(acquire()).rejects.not.toThrow('secret');
  });

  it('IC-14 a provider of the coordinator’s that is no function', async () => {
    const o = { source: new ScriptedSource(), auth: { ann: 'secret' } as never };
    expect(await refused(() => new ImageCoordinator(o))).toBe('auth');
  });

  it('G-2 a call has a signal and nothing else', async () => {
    const { images } = fixture();
    const call = { foo: 5 } as never;
    const lease = await images.acquire('redis:7', { owner: 'a' });
    const held = { owner: 'b', reference: 'redis:7', imageId: lease.imageId };
    expect(await refused(() => lease.verify(call))).toBe('foo');
    expect(await refused(() => images.adopt(held, call))).toBe('foo');
    expect(await refused(() => images.recover(() => true, call))).toBe('foo');
    expect(await refused(() => images.collect(call))).toBe('foo');
  });

  it('G-2 text that is empty is none', async () => {
    const { images, source } = fixture();
    expect(await refused(() => images.release(''))).toBe('owner');
    expect(await refused(() => images.acquire('redis:7', { owner: '' }))).toBe('owner');
    for (const call of [
      () => images.acquire('', { owner: 'a' }),
      () => images.explain(''),
      () => images.retryNow(''),
      () => images.adopt({ owner: 'a', reference: '', imageId: 'sha256:a' }),
    ]) {
      expect(await refused(call)).toBe('reference');
    }
    expect(source.calls).toEqual([]);
  });

  it.each([async () => false, async function* () {}, function* () {}])(
    'IC-21 an isLive that answers later is refused before there is anybody to ask it about: %s',
    async (isLive) => {
      const { images } = fixture();
      expect(await refused(() => images.recover(isLive as never))).toBe('isLive');
    },
  );

  it.each(rows(undefined).filter(({ given }) => typeof given !== 'function'))(
    'IC-21 an isLive that is $name',
    async ({ given }) => {
      const { images } = fixture();
      expect(await refused(() => images.recover(given as never))).toBe('isLive');
    },
  );
});
