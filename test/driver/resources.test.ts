import type { ExclusiveResource } from 'handover';
import { describe, expect, it } from 'vitest';
import { overlap } from '../../src/driver/resources.js';

const port = (key: string, scope: 'host' | 'cluster' = 'host'): ExclusiveResource => ({
  kind: 'port',
  key,
  scope,
  needed: 'start',
});
const name = (key: string): ExclusiveResource => ({ kind: 'name', key, scope: 'host', needed: 'start' });

describe('overlap', () => {
  it.each([
    { a: [], b: [], clash: [], why: 'nothing needed' },
    { a: [port('80/tcp')], b: [], clash: [], why: 'needed by one only' },
    { a: [port('80/tcp')], b: [port('81/tcp')], clash: [], why: 'other keys' },
    { a: [port('80')], b: [name('80')], clash: [], why: 'equal keys of different kinds' },
    { a: [port('80/tcp'), name('web')], b: [name('web'), port('81/tcp')], clash: ['web'], why: 'one of two' },
    { a: [port('80/tcp')], b: [port('80/tcp', 'cluster')], clash: ['80/tcp'], why: 'scopes do not tell apart' },
  ])('DP-7 $why', ({ a, b, clash }) => {
    expect(overlap(a, b).map((resource) => resource.key)).toEqual(clash);
    expect(
      overlap(b, a)
        .map((resource) => resource.key)
        .sort(),
    ).toEqual([...clash].sort());
  });
});
