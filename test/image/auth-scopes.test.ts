import { getEventListeners } from 'node:events';
import { type AuthProvider, type ImageCoordinator } from 'handover';
import { describe, expect, it } from 'vitest';
import { type Fixture, fixture, SECOND } from './fixture.js';
import { ann, answers, bob, failure, guard, outage, sent } from './logins.js';
import { digestOf } from './scripted-source.js';

const tick = () => new Promise((resolve) => setImmediate(resolve));

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
