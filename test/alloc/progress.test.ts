import { expect, it } from 'vitest';
import { NextAllocWatcher } from 'handover';
import { outcomeOf, world } from './world.js';

it.each([
  { fails: 'in the same words', words: () => 'refused' },
  { fails: 'in new words each time', words: (tries: number) => `refused, try ${tries}` },
])('AL-4: a check that fails $fails is no progress', async ({ words }) => {
  let tries = 0;
  const ready = async (): Promise<boolean> => {
    throw new Error(words(++tries));
  };
  const w = world({ checks: { ready } });
  const b = w.alloc('b', { health: { checks: [{ type: 'custom', name: 'ready' }], healthyDeadline: 'never' } });
  await w.clock.until(b.start());
  const watcher = new NextAllocWatcher(b, { gate: 'healthy', deadline: '1m' }, w.env);
  const { value } = await w.clock.until(outcomeOf(watcher.wait()), '2m');
  expect(value?.outcome).toBe('deadline');
  expect(b.status().checks['ready']?.message).toContain(words(tries));
  expect(await w.leftovers()).toBe(0);
});

it('AL-4: one more check that passes is', async () => {
  const w = world({
    checks: { one: async () => w.clock.now() > 50_000, two: async () => w.clock.now() > 100_000 },
  });
  const checks = ['one', 'two'].map((name) => ({ type: 'custom', name }) as const);
  const b = w.alloc('b', { health: { checks, minHealthyTime: '1s' } });
  await w.clock.until(b.start());
  const watcher = new NextAllocWatcher(b, { gate: 'healthy', deadline: '1m' }, w.env);
  expect((await w.clock.until(watcher.wait())).outcome).toBe('reached');
  expect(await w.leftovers()).toBe(0);
});
