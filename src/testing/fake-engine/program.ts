import type { Written } from './output.js';

/** What a program does that is started with arguments: the same as the test program of the engine suites. */
export interface Deed {
  readonly writes: readonly (readonly [stream: Written['stream'], text: string])[];
  readonly code: number;
  /** After so many milliseconds. */
  readonly after: number;
}

const PROGRAM = '/bin/app';
/** What an image runs by itself. */
export const SERVER = [PROGRAM];

/** @returns `undefined` for a server, which goes on */
export function deedOf(argv: readonly string[]): Deed | undefined {
  const [program = '', verb, first = '', second = '', code = '0', ms = '0'] = argv;
  if (program.startsWith('/') && program !== PROGRAM)
    return { writes: [['stdout', notFound(program)]], code: 126, after: 0 };
  if (verb === 'fill') return { writes: [['stdout', 'x'.repeat(Number(first))]], code: 0, after: 0 };
  if (verb !== 'do') return undefined;
  const writes = [['stdout', first] as const, ['stderr', second] as const];
  return { writes, code: Number(code), after: Number(ms) };
}

function notFound(program: string): string {
  return `OCI runtime exec failed: exec failed: unable to start container process: exec: "${program}": no such file or directory: unknown\r\n`;
}
