import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Retained, type RetentionRule, standing } from '../../src/image/retention.js';

describe('IC-18 the rule', () => {
  const repositories = ['app', 'lib', 'db'];
  const content = fc.record({
    names: fc.uniqueArray(
      fc.record({ repository: fc.constantFrom(...repositories), tag: fc.constantFrom('1', '2', 'latest') }),
      { maxLength: 3, selector: ({ repository, tag }) => `${repository}:${tag}` },
    ),
    lastUsed: fc.oneof(fc.integer({ min: 0, max: 5 }), fc.constant(Infinity)),
    firstSeen: fc.integer({ min: 0, max: 3 }),
  });
  const world = fc.array(content, { minLength: 1, maxLength: 8 }).map((all) =>
    all.map((one, i): Retained => {
      const names = one.names.map(({ repository, tag }) => ({ repository, key: `${repository}:${tag}` }));
      const rest = { host: '', pullable: true, floating: true, latest: false };
      return { ...one, id: `sha256:${i}`, names: names.map((name) => ({ ...name, ...rest })) };
    }),
  );
  const rule = fc.record({
    pin: fc.subarray<string | RegExp>(['app:1', 'sha256:0', /lib/, /^db:/g, /:latest$/y]),
    keepLast: fc.integer({ min: 0, max: 3 }),
    maxAge: fc.constantFrom(0, 2, 100, Infinity),
    delay: fc.constantFrom(0, 5, Infinity),
  });
  const each = (check: (all: readonly Retained[], rule: RetentionRule) => void) =>
    fc.assert(fc.property(world, rule, check), { numRuns: 500 });

  it('S36 what is pinned stays for ever, by reference, id or expression, whatever was asked of the expression before', () => {
    each((all, given) => {
      const [expressions, texts] = [given.pin.filter((pin) => pin instanceof RegExp), given.pin.map(String)];
      for (const one of all) {
        const keys = one.names.map(({ key }) => key);
        const pinned =
          texts.includes(one.id) ||
          keys.some((key) => texts.includes(key) || expressions.some((pin) => new RegExp(pin).test(key)));
        expect(standing(one, all, given).keeps === 'pinned').toBe(pinned);
        if (pinned) expect(standing(one, all, given).until).toBe(Infinity);
      }
    });
  });

  it('S36 case C31 of each repository the last n stay: exactly so many, and none that was used before another that goes', () => {
    each((all, given) => {
      const unpinned = { ...given, pin: [] };
      const stays = all.filter((one) => standing(one, all, unpinned).keeps === 'keep-last');
      for (const repository of repositories) {
        const kin = all.filter(({ names }) => names.some((name) => name.repository === repository));
        const inIt = kin.filter((one) => stays.includes(one));
        expect(inIt.length).toBeGreaterThanOrEqual(Math.min(given.keepLast, kin.length));
        const one = kin.map((single) => ({
          ...single,
          names: single.names.filter((n) => n.repository === repository),
        }));
        const alone = one.filter((single) => standing(single, one, unpinned).keeps === 'keep-last');
        expect(alone).toHaveLength(Math.min(given.keepLast, kin.length));
        for (const goes of one.filter((single) => !alone.includes(single))) {
          for (const kept of alone) {
            expect(kept.lastUsed).toBeGreaterThanOrEqual(goes.lastUsed);
            if (kept.lastUsed === goes.lastUsed) expect(kept.firstSeen).toBeGreaterThanOrEqual(goes.firstSeen);
          }
        }
      }
    });
  });

  it('IC-18 all other content stays for the shorter of delay and maxAge, the last ones for maxAge, from the last use', () => {
    each((all, given) => {
      for (const one of all) {
        const { keeps, until } = standing(one, all, given);
        if (keeps === undefined) expect(until).toBe(one.lastUsed + Math.min(given.delay, given.maxAge));
        if (keeps === 'keep-last') expect(until).toBe(one.lastUsed + given.maxAge);
      }
    });
  });
});
