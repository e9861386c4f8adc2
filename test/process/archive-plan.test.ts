import { describe, expect, it } from 'vitest';
import { ArchivePlan } from '../../src/process/archive-plan.js';

type Entry = readonly [path: string, type?: string, linkpath?: string, size?: number];

const RESERVED = new Map([
  ['.handover.json', 'the record'],
  ['logs/out.log', 'the output'],
]);

function problem(...entries: readonly Entry[]): string | undefined {
  const plan = new ArchivePlan(RESERVED);
  for (const [path, type = 'File', linkpath, size = 0] of entries) plan.add({ path, type, linkpath, size });
  return plan.problem;
}

describe('what an archive may have in it', () => {
  it.each<readonly Entry[]>([
    [['bin/app'], ['./bin/b'], ['bin/', 'Directory'], ['bin/', 'Directory'], ['a', 'OldFile'], ['c', 'ContiguousFile']],
    [['./', 'Directory'], ['x']],
    [['a..b/..c', 'File']],
    [['logs', 'Directory'], ['logs/other.log']],
    [['bin/l', 'SymbolicLink', '../lib/x']],
    [['l', 'SymbolicLink', 'a/b/c']],
    [['l', 'SymbolicLink', './a']],
    [['a/b/l', 'SymbolicLink', '../..']],
    [['a'], ['b', 'Link', 'a'], ['c', 'Link', './b']],
  ])('%j', (...entries) => {
    expect(problem(...entries)).toBe(undefined);
  });
});

describe('what it may not', () => {
  it.each<readonly [...Entry[], string]>([
    [['/etc/passwd'], 'does not stay inside'],
    [['../x'], 'does not stay inside'],
    [['a/../../x'], 'does not stay inside'],
    [['a/..', 'Directory'], 'does not stay inside'],
    [['a\0b'], 'does not stay inside'],
    [['.'], 'the place of the folder itself'],
    [['./', 'SymbolicLink', 'a'], 'the place of the folder itself'],
    [['dev', 'CharacterDevice'], 'is a CharacterDevice'],
    [['dev', 'BlockDevice'], 'is a BlockDevice'],
    [['pipe', 'FIFO'], 'is a FIFO'],
    [['l', 'SymbolicLink', '/etc'], 'leads outside, to "/etc"'],
    [['l', 'SymbolicLink', '..'], 'leads outside'],
    [['l', 'SymbolicLink', ''], 'leads outside'],
    [['l', 'SymbolicLink', 'a\0'], 'leads outside'],
    [['l', 'SymbolicLink'], 'leads outside'],
    [['a/l', 'SymbolicLink', '../../x'], 'leads outside'],
    [['a/l', 'SymbolicLink', './../../x'], 'leads outside'],
    // Of a name that is a link to where it stands, ".." is the folder above.
    [['l', 'SymbolicLink', 'a/..'], 'leads outside'],
    [['l', 'SymbolicLink', 'a/../b'], 'leads outside'],
    [['l', 'Link', '/etc/passwd'], 'no file before it'],
    [['l', 'Link', '../x'], 'no file before it'],
    [['l', 'Link', 'later'], 'no file before it'],
    [['s', 'SymbolicLink', 'x'], ['l', 'Link', 's'], 'no file before it'],
    [['d', 'Directory'], ['l', 'Link', 'd'], 'no file before it'],
    [['d', 'SymbolicLink', 'x'], ['d/passwd'], 'is below "d", which is a symlink'],
    [['d', 'SymbolicLink', 'x'], ['d/e/passwd'], 'is below "d", which is a symlink'],
    [['d'], ['d/x'], 'is below "d", which is a file'],
    [['a'], ['a'], 'is in it twice'],
    [['a', 'SymbolicLink', 'x'], ['a'], 'is in it twice'],
    [['a', 'SymbolicLink', 'x'], ['a', 'Directory'], 'is in it twice'],
    [['d/x'], ['d', 'SymbolicLink', 'y'], 'is in it twice'],
    [['.handover.json'], 'would take the place of the record'],
    [['./.handover.json', 'Directory'], 'would take the place of the record'],
    [['logs/out.log'], 'would take the place of the output'],
    [['logs', 'SymbolicLink', 'x'], 'would take the place of the output'],
    [
      ['big', 'File', '', 2 ** 33],
      ['b2', 'File', '', 2 ** 33],
      ['b3', 'File', '', 1],
      'makes it larger than 17179869184 bytes',
    ],
  ])('%j', (...given) => {
    const why = given.pop() as string;
    const entries = given as unknown as readonly Entry[];
    expect(problem(...entries)).toContain(why);
    expect(problem(...entries)).toContain(`its entry ${JSON.stringify(entries.at(-1)?.[0])}`);
    expect(problem(...entries.slice(0, -1))).toBe(undefined);
  });

  it('more entries than anybody means', () => {
    const all = Array.from({ length: 100_000 }, (_, i): Entry => [`f${i}`]);
    expect(problem(...all)).toBe(undefined);
    expect(problem(...all, ['last'])).toContain('"last" is one too many: more than 100000');
  });

  it('the first one is told', () => {
    expect(problem(['/a'], ['/b'])).toContain('"/a"');
  });
});
