import { type AllocLifecycle, type AllocSettings, type ReplaceOptions, replace } from 'handover';
import type { FakeScript } from 'handover/testing';
import { turn } from '../alloc/scripted-peer.js';
import { SERVED, type World, world } from '../alloc/world.js';

export type Order = 'stop-first' | 'start-first';

export interface Run extends World {
  readonly a: AllocLifecycle;
  readonly b: AllocLifecycle;
  readonly control: AbortController;
  readonly done: ReturnType<typeof replace>;
}

/** A replacement of `a` by `b` that is under way. */
export async function under(
  order: Order,
  {
    script = {},
    ofA = {},
    settings = SERVED,
    ...o
  }: ReplaceOptions & { script?: FakeScript; ofA?: FakeScript; settings?: AllocSettings } = {},
): Promise<Run> {
  const w = world();
  const spec = order === 'stop-first' ? { port: 8080 } : {};
  const a = await w.running('a', settings, spec);
  w.host.script('a', ofA);
  w.host.script('b', script);
  const b = w.alloc('b', settings, spec);
  const control = new AbortController();
  const done = replace(a, b, { order, signal: control.signal, ...o });
  await turn();
  return { ...w, a, b, control, done };
}

export const ORDERS: readonly Order[] = ['stop-first', 'start-first'];
export const DRAINS: AllocSettings = { ...SERVED, shutdown: { shutdownDelay: '1m', killTimeout: '1m' } };
