import { describe, expect, it } from 'vitest';
import { exitOf, unknownExit } from '../../src/docker/exit.js';

describe('DP-9 who ended it', () => {
  const at = 1;

  it.each([
    { code: 0, sent: [], gives: { code: 0, signal: null, by: 'self' }, why: 'it ended by itself' },
    { code: 3, sent: [], gives: { code: 3, signal: null, by: 'self' }, why: 'it ended by itself' },
    { code: 143, sent: [], gives: { code: 143, signal: null, by: 'self' }, why: 'nobody here sent SIGTERM' },
    { code: 0, sent: ['SIGTERM'], gives: { code: 0, signal: null, by: 'signal' }, why: 'it handled our signal' },
    { code: 143, sent: ['SIGTERM'], gives: { code: null, signal: 'SIGTERM', by: 'signal' }, why: 'it died of it' },
    {
      code: 130,
      sent: ['SIGTERM', 'SIGINT'],
      gives: { code: null, signal: 'SIGINT', by: 'signal' },
      why: 'the second',
    },
    { code: 137, sent: ['SIGKILL'], gives: { code: null, signal: 'SIGKILL', by: 'kill' }, why: 'our kill' },
    { code: 137, sent: ['SIGTERM', 'SIGKILL'], gives: { code: null, signal: 'SIGKILL', by: 'kill' }, why: 'our kill' },
    {
      code: 0,
      sent: ['SIGTERM', 'SIGKILL'],
      gives: { code: 0, signal: null, by: 'signal' },
      why: 'just before the kill',
    },
    { code: 1, sent: ['SIGKILL'], gives: { code: 1, signal: null, by: 'self' }, why: 'just before the kill' },
    { code: 137, sent: [], gives: { code: 137, signal: null, by: 'unknown' }, why: 'a stranger, or the engine' },
    {
      code: 137,
      sent: ['SIGTERM'],
      gives: { code: 137, signal: null, by: 'unknown' },
      why: 'a stranger, or the engine',
    },
  ])('code $code after $sent: $gives.by ($why)', ({ code, sent, gives }) => {
    expect(exitOf({ code, oom: false, at }, new Set(sent))).toEqual({ ...gives, oom: false, at });
  });

  it('out of memory is nobody’s signal but the kernel’s', () => {
    const gives = { code: null, signal: 'SIGKILL', oom: true, by: 'self', at };
    expect(exitOf({ code: 137, oom: true, at }, new Set())).toEqual(gives);
    expect(exitOf({ code: 1, oom: true, at }, new Set())).toMatchObject({ code: 1, oom: true, by: 'self' });
  });

  it('what is gone without a trace says so', () => {
    expect(unknownExit(at)).toEqual({ code: null, signal: null, oom: false, by: 'unknown', at });
  });
});
