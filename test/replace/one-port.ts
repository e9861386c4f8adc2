import { expect } from 'vitest';
import type { AllocSettings } from 'handover';
import { SERVED, type World, world } from '../alloc/world.js';

export const PORT = { port: 8080 };

/** `a` serves on one fixed port; `b` is to take it over. */
export async function pair(settings: AllocSettings = SERVED, w: World = world()) {
  const a = await w.running('a', settings, PORT);
  const b = w.alloc('b', settings, PORT);
  const from = w.sequence().length;
  return { ...w, a, b, since: () => w.sequence().slice(from) };
}

/** `a` is as it was: it runs, it is registered, nothing else is there, and nothing goes on. */
export async function untouched(w: Awaited<ReturnType<typeof pair>>): Promise<void> {
  expect([w.a.state, w.a.stopping, w.host.remains(), w.registered()]).toEqual([
    ...['running', undefined, ['a/web'], ['web-a-web-http']],
  ]);
  expect(w.host.calls.join()).not.toMatch(/signal a|kill a/);
  expect(w.log.types().filter((type) => type === 'replace:ended')).toHaveLength(1);
  expect(await w.leftovers()).toBe(0);
}
