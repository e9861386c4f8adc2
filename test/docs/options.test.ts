import { ImageCoordinator } from 'handover';
import { FakeHost } from 'handover/testing';
import { describe, expect, it } from 'vitest';
import { optionSections } from '../../docs/tools/options.js';
import { parseAlloc } from '../../src/alloc/options.js';
import { parseReplace } from '../../src/replace/options.js';
import { parseStop } from '../../src/shutdown/options.js';

const host = new FakeHost();
const tasks = [{ name: 'web', driver: host.driver(), spec: { version: '1' } }] as const;
const checks = [{ name: 'up', type: 'tcp', port: 'http' }] as const;
const services = [{ service: 'web', task: 'web', port: 'http' }] as const;
const alloc = parseAlloc({ id: 'a', tasks, health: { checks }, services }, {});
const { options: images } = new ImageCoordinator({ source: host.images() });

/** What the code fills in when nothing is said, by section of the page and by block of it. */
const EFFECTIVE: Readonly<Record<string, Readonly<Record<string, object>>>> = {
  'new ImageCoordinator({ source, … })': {
    'removal.': images.removal,
    'retention.': images.retention,
    'pull.': images.pull,
  },
  'new AllocLifecycle({ id, tasks, … })': {
    'services[].': alloc.services[0]!,
    'health.': { ...alloc.health, checks: undefined },
    'health.checks[].': alloc.health.checks[0]!,
  },
  'shutdown of an alloc, new ShutdownSequencer({ … })': { '': parseStop({}) },
  'replace(current, next, { … })': { '': parseReplace({}) },
};

const UNITS: Readonly<Record<string, number>> = { s: 1_000, minute: 60_000, minutes: 60_000 };

/** `Default 3 minutes.` → 180000; `undefined` for a default that is not one value. */
function documented(text: string): unknown {
  const [, words = ''] = /Default:? ([^.;]+?)(?:\.|;|$)/.exec(text) ?? [];
  const [, amount, unit] = /^(\d+)(?: (s|minutes?))?$/.exec(words) ?? [];
  if (amount !== undefined) return Number(amount) * (unit === undefined ? 1 : UNITS[unit]!);
  if (words === 'never') return Infinity;
  const [, word] = /^`([\w-]+)`$/.exec(words) ?? [];
  return word === 'true' ? true : word === 'false' ? false : word;
}

describe('G-2 the defaults that are documented are those of the code', () => {
  const sections = optionSections();
  const cases = Object.entries(EFFECTIVE).flatMap(([section, blocks]) =>
    Object.entries(blocks).flatMap(([prefix, values]) =>
      (sections.get(section) ?? []).flatMap(({ name, text }) => {
        const said = documented(text);
        const key = name.slice(prefix.length);
        return said !== undefined && name.startsWith(prefix) && key in values
          ? [{ name: `${section}: ${name}`, said, real: (values as Readonly<Record<string, unknown>>)[key] }]
          : [];
      }),
    ),
  );

  it.each(cases)('$name = $said', ({ said, real }) => {
    expect(real).toBe(said);
  });

  it('most of them are one value, and so were looked at', () => {
    expect(cases.length).toBeGreaterThan(17);
  });

  it('every option says what it is for', () => {
    const silent = [...sections].flatMap(([section, rows]) =>
      rows.filter(({ text }) => text === '').map(({ name }) => `${section}: ${name}`),
    );
    expect(silent).toEqual([]);
  });
});
