/** The signals of Linux, from 1 on: there the containers run, whatever system we run on; so numbers are those of Linux. */
const NAMES = [
  ...[
    'HUP',
    'INT',
    'QUIT',
    'ILL',
    'TRAP',
    'ABRT',
    'BUS',
    'FPE',
    'KILL',
    'USR1',
    'SEGV',
    'USR2',
    'PIPE',
    'ALRM',
    'TERM',
  ],
  ...['STKFLT', 'CHLD', 'CONT', 'STOP', 'TSTP', 'TTIN', 'TTOU', 'URG', 'XCPU', 'XFSZ', 'VTALRM', 'PROF', 'WINCH'],
  ...['IO', 'PWR', 'SYS'],
];
/** The real-time signals, as engines spell them; the C library keeps those before them for itself. */
const FIRST_RT = 34;
const REAL_TIME = ['RTMIN', ...range(15, (i) => `RTMIN+${i + 1}`), ...range(14, (i) => `RTMAX-${14 - i}`), 'RTMAX'];
const ALIASES = { IOT: 'ABRT', CLD: 'CHLD', POLL: 'IO' };

const NUMBERS: ReadonlyMap<string, number> = new Map([
  ...NAMES.map((name, i) => [`SIG${name}`, i + 1] as const),
  ...REAL_TIME.map((name, i) => [`SIG${name}`, FIRST_RT + i] as const),
]);
const SPELLINGS: ReadonlyMap<string, string> = new Map([
  ...[...NUMBERS].map(([name, number]) => [String(number), name] as const),
  ...Object.entries(ALIASES).map(([alias, name]) => [`SIG${alias}`, `SIG${name}`] as const),
]);

/** The one spelling of a signal (S70): `TERM`, `term` and `15` are `SIGTERM`. What is none comes out as it may. */
export function signalName(signal: string): string {
  const upper = signal.toUpperCase();
  const name = upper.startsWith('SIG') || SPELLINGS.has(upper) ? upper : `SIG${upper}`;
  return SPELLINGS.get(name) ?? name;
}

/** The number of a signal on Linux, however it is spelt; `undefined` for what no driver can send. */
export function signalNumber(signal: string): number | undefined {
  return NUMBERS.get(signalName(signal));
}

function range(length: number, name: (i: number) => string): readonly string[] {
  return Array.from({ length }, (_, i) => name(i));
}
