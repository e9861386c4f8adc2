import { describe, expect, it } from 'vitest';
import { parseFlags } from '../../examples/demo/flags.js';
import { UsageError } from '../../examples/demo/usage-error.js';

describe('the flags of the demo', () => {
  it.each([
    { argv: ['--nonsense'], problem: /--nonsense/ },
    { argv: ['stray'], problem: /stray/ },
    { argv: ['--docker'], problem: /--from REF and --to REF/ },
    { argv: ['--docker', '--from', 'a'], problem: /--to/ },
    { argv: ['--from', 'a'], problem: /--from goes with --docker/ },
    { argv: ['--docker', '--from', 'a', '--to', 'b', '--port', 'x'], problem: /--port must be a port/ },
    { argv: ['--docker', '--from', 'a', '--to', 'b', '--port', '0x50'], problem: /--port must be a port/ },
    { argv: ['--docker', '--from', 'a', '--to', 'b', '--path', 'x'], problem: /--path must start/ },
    { argv: ['--docker', '--from', 'a', '--to', 'b', '--path', '/a b'], problem: /--path must .* percent-encoded/ },
    { argv: ['--docker', '--from', '', '--to', 'b'], problem: /--from REF and --to REF/ },
    { argv: ['--path', '/'], problem: /--path goes with --docker/ },
    { argv: ['--container-port', '8080'], problem: /--container-port goes with --docker/ },
    { argv: ['--docker', '--from', '-x', '--to', 'b'], problem: /--from/ },
  ])('$argv is refused with what is wrong', ({ argv, problem }) => {
    expect(() => parseFlags(argv)).toThrow(UsageError);
    expect(() => parseFlags(argv)).toThrow(problem);
    expect(() => parseFlags(argv)).toThrow(/^.+$/);
  });

  it('with --docker, what was not said has its default', () => {
    expect(parseFlags(['--docker', '--from', 'a', '--to', 'b'])).toEqual({
      kind: 'docker',
      ...{ json: false, from: 'a', to: 'b', port: undefined, containerPort: 8080, path: '/' },
    });
  });

  it('without flags it runs processes', () => {
    expect(parseFlags([])).toEqual({ kind: 'process', json: false });
  });
});
