import { expect, it } from 'vitest';
import { signalName, signalNumber } from '../../src/internal/signal-names.js';

it.each([
  ['TERM', 'SIGTERM', 15],
  ['sigterm', 'SIGTERM', 15],
  ['15', 'SIGTERM', 15],
  ['SIGCLD', 'SIGCHLD', 17],
  ['sys', 'SIGSYS', 31],
  ['34', 'SIGRTMIN', 34],
  ['SIGRTMIN+3', 'SIGRTMIN+3', 37],
  ['37', 'SIGRTMIN+3', 37],
  ['rtmin+15', 'SIGRTMIN+15', 49],
  ['SIGRTMAX-14', 'SIGRTMAX-14', 50],
  ['64', 'SIGRTMAX', 64],
] as const)('S70 %s is %s, number %i', (given, name, number) => {
  expect([signalName(given), signalNumber(given)]).toEqual([name, number]);
});

it.each(['', 'SIG', 'SIGFOO', '0', '32', '65', '015', '9 ', 'SIG15', 'SIGRTMIN+0', 'SIGRTMIN+16', 'SIGRTMIN-1'])(
  'S70 "%s" is none, as engines see it',
  (word) => {
    expect(signalNumber(word)).toBeUndefined();
  },
);
