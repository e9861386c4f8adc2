import { describe, expect, it } from 'vitest';
import { UsageError, parseFlags } from '../../examples/demo/flags.js';

describe('the flags of the demo', () => {
  it.each([
    { argv: ['--nonsense'], problem: /--nonsense/ },
    { argv: ['stray'], problem: /stray/ },
    { argv: ['--docker'], problem: /--from REF and --to REF/ },
    { argv: ['--docker', '--from', 'a'], problem: /--to/ },
    { argv: ['--docker', '--from', 'a', '--to', 'a'], problem: /two images/ },
    { argv: ['--from', 'a'], problem: /--from goes with --docker/ },
    { argv: ['--docker', '--from', 'a', '--to', 'b', '--port', 'x'], problem: /--port must be a port/ },
    { argv: ['--docker', '--from', 'a', '--to', 'b', '--path', 'x'], problem: /--path must start/ },
  ])('$argv is refused with what is wrong', ({ argv, problem }) => {
    expect(() => parseFlags(argv)).toThrow(UsageError);
    expect(() => parseFlags(argv)).toThrow(problem);
  });

  it('without flags it runs processes', () => {
    expect(parseFlags([])).toEqual({ kind: 'process', json: false });
  });
});
