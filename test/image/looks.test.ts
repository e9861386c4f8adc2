import { expect, it } from 'vitest';
import { deferred } from '../../src/internal/deferred.js';
import { Looks, type Sight } from '../../src/image/looks.js';
import type { Artifact } from 'handover';

const SEEN: Sight<Artifact> = { artifact: { id: 'a', references: [] }, fits: true };

function world() {
  const looks = new Looks();
  const asked: ReturnType<typeof deferred<Sight<Artifact> | undefined>>[] = [];
  const acts: string[] = [];
  const ask = (who: string, signal?: AbortSignal, act = (): string => who): Promise<string | undefined> => {
    const look = (): Promise<Sight<Artifact> | undefined> => {
      const answer = deferred<Sight<Artifact> | undefined>();
      asked.push(answer);
      return answer.promise;
    };
    const acting = (): string => {
      acts.push(who);
      return act();
    };
    return looks.together('key', 'name', look, acting, signal);
  };
  return { looks, asked, acts, ask };
}

it('IC-7 who asks during a look shares it; who asks after it looks anew', async () => {
  const { asked, ask } = world();
  const all = [ask('a'), ask('b')];
  asked[0]?.resolve(SEEN);
  expect(await Promise.all(all)).toEqual(['a', 'b']);
  const late = ask('c');
  asked[1]?.resolve(undefined);
  expect([await late, asked.length]).toEqual([undefined, 2]);
});

it('IC-4 who leaves during a look takes nothing, and the others do', async () => {
  const { asked, acts, ask } = world();
  const leave = new AbortController();
  const gone = ask('a', leave.signal);
  const stays = ask('b');
  leave.abort('gone');
  asked[0]?.resolve(SEEN);
  await expect(gone).rejects.toBe('gone');
  expect([await stays, acts]).toEqual(['b', ['b']]);
});

it('IC-16 a removal during a look: all look again, and who comes then does not share the old one', async () => {
  const { looks, asked, acts, ask } = world();
  const all = [ask('a'), ask('b')];
  await looks.removal('a', () => Promise.resolve());
  const late = ask('c');
  asked[0]?.resolve(SEEN);
  await new Promise((resolve) => setImmediate(resolve));
  expect([acts, asked.length]).toEqual([[], 3]);
  asked[1]?.resolve(undefined);
  asked[2]?.resolve(undefined);
  expect(await Promise.all([...all, late])).toEqual([undefined, undefined, undefined]);
});

it('one that cannot act does not disturb the others; a look that fails, fails for all', async () => {
  const { asked, ask } = world();
  const bad = ask('a', undefined, () => {
    throw new Error('no');
  });
  const good = ask('b');
  asked[0]?.resolve(SEEN);
  await expect(bad).rejects.toThrow('no');
  expect(await good).toBe('b');
  const both = [ask('c'), ask('d')];
  asked[1]?.reject('broken');
  for (const one of both) await expect(one).rejects.toBe('broken');
});
