import type { ExclusiveResource } from 'handover';
import fc from 'fast-check';
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

  it.each([
    { one: undefined, other: undefined, clash: true },
    { one: undefined, other: '127.0.0.1', clash: true },
    { one: '', other: '::1', clash: true },
    { one: '0.0.0.0', other: undefined, clash: true },
    { one: '0.0.0.0', other: '10.0.0.1', clash: true },
    { one: '::', other: '::1', clash: true },
    { one: '10.0.0.1', other: '10.0.0.1', clash: true },
    { one: '10.0.0.1', other: '10.0.0.2', clash: false },
    { one: '0.0.0.0', other: '::1', clash: false },
    { one: '::', other: '10.0.0.1', clash: false },
    { one: '0.0.0.0', other: '::', clash: false },
  ])('DP-7 one port on $one and on $other: clash=$clash', ({ one, other, clash }) => {
    const at = (address: string | undefined): ExclusiveResource => ({ ...port('80/tcp'), address });
    expect(overlap([at(one)], [at(other)])).toHaveLength(clash ? 1 : 0);
    expect(overlap([at(other)], [at(one)])).toHaveLength(clash ? 1 : 0);
  });

  it('DP-7 nobody clashes with one who does not clash back, and each with itself', () => {
    const resource = fc.record({
      kind: fc.constantFrom('port' as const, 'name' as const),
      key: fc.constantFrom('80/tcp', '80/udp'),
      address: fc.constantFrom(undefined, '', '0.0.0.0', '127.0.0.1', '::', '::1'),
      scope: fc.constant('host' as const),
      needed: fc.constant('start' as const),
    });
    const some = fc.array(resource, { maxLength: 4 });
    fc.assert(
      fc.property(some, some, (a, b) => {
        expect(overlap(a, b).length > 0).toBe(overlap(b, a).length > 0);
        expect(overlap(a, a)).toEqual(a);
      }),
    );
  });
});
