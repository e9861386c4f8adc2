import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatDuration, parseDuration } from '../src/duration.js';

describe('parseDuration', () => {
  it.each([
    ['250ms', 250],
    ['90s', 90_000],
    ['1m30s', 90_000],
    ['3m', 180_000],
    ['96h', 345_600_000],
    ['7d', 604_800_000],
    ['1.5h', 5_400_000],
    ['1d2h3m4s5ms', 93_784_005],
    ['5m5ms', 300_005],
    ['5ms', 5],
    ['1.001s', 1_001],
    ['0.5ms', 0.5],
    ['0s', 0],
    ['100s', 100_000],
    ['90d', 7_776_000_000],
    [0, 0],
    [3, 3],
    [1_000.5, 1_000.5],
    [2 ** 40, 2 ** 40],
  ])('G-1 case C59 %j is %d ms', (value, ms) => {
    expect(parseDuration(value, 'removal.delay')).toBe(ms);
  });

  it.each([
    ['30', 'no unit'],
    ['1000000000', 'no unit'],
    ['30s bogus', 'trailing junk'],
    ['bogus30s', 'leading junk'],
    ['-5s', 'negative'],
    ['+5s', 'a sign'],
    ['', 'empty'],
    [' ', 'blank'],
    [' 5s', 'a blank before'],
    ['5s\n', 'a line end'],
    ['5 s', 'a blank inside'],
    ['1,5s', 'not a decimal point'],
    ['.5s', 'no digit before the point'],
    ['5.s', 'no digit after the point'],
    ['1e3s', 'an exponent'],
    ['0x10s', 'hexadecimal'],
    ['5S', 'upper case'],
    ['5min', 'a unit of another grammar'],
    ['5us', 'a unit of another grammar'],
    ['30s1m', 'units the wrong way round'],
    ['1s1s', 'a unit twice'],
    ['PT5S', 'ISO 8601'],
    ['NaN', 'text'],
    ['Infinity', 'text other than never'],
    [Number.NaN, 'not a number'],
    [-1, 'negative'],
    [Number.NEGATIVE_INFINITY, 'negative'],
    [null, 'null'],
    [undefined, 'nothing'],
    [true, 'a flag'],
    [{}, 'an object'],
    [Object.create(null), 'an object without a prototype'],
    [['5s'], 'a list'],
    [Infinity, 'never, where it makes no sense'],
    ['never', 'never, where it makes no sense'],
    [`${'9'.repeat(400)}d`, 'larger than any number'],
  ])('G-1 case C59 %j is refused: %s', (value, _why) => {
    expect(() => parseDuration(value, 'removal.delay')).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_OPTION',
        details: { path: 'removal.delay' },
        message: expect.stringContaining('Option removal.delay: ') as string,
      }),
    );
  });

  it('G-1 a bigint and a symbol are refused like the rest', () => {
    expect(() => parseDuration(5n, 'delay')).toThrow('Option delay: 5 is not a duration');
    expect(() => parseDuration(Symbol('5s'), 'delay')).toThrow('Option delay: Symbol(5s) is not a duration');
  });

  it.each([Infinity, 'never'])('G-1 %j is allowed where never makes sense', (value) => {
    expect(parseDuration(value, 'killTimeout', { never: true })).toBe(Infinity);
  });

  it('G-1 the message shows what was given and what to write', () => {
    expect(() => parseDuration('30', 'delay')).toThrow(
      `Option delay: "30" is not a duration; give milliseconds as a number, or text with units such as '250ms'`,
    );
    expect(() => parseDuration('never', 'delay')).toThrow('Option delay: "never" is not allowed here');
  });

  it('G-1 whatever is given, it is a duration or a typed error', () => {
    fc.assert(
      fc.property(fc.oneof(fc.anything(), fc.string(), fc.stringMatching(/^[0-9.dhms -]{0,9}$/)), (value) => {
        try {
          expect(parseDuration(value, 'delay')).toBeGreaterThanOrEqual(0);
        } catch (error) {
          expect(error).toMatchObject({ code: 'ERR_INVALID_OPTION' });
        }
      }),
    );
  });
});

describe('formatDuration', () => {
  it.each([
    [0, '0ms'],
    [250, '250ms'],
    [999, '999ms'],
    [1_000, '1s'],
    [90_500, '1m30.5s'],
    [60_000, '1m'],
    [3_600_000, '1h'],
    [86_400_001, '1d0.001s'],
    [2 ** 31, '24d20h31m23.648s'],
    [Infinity, 'never'],
    ['1m30s', '1m30s'],
    [0.4, '0ms'],
    [999.6, '1s'],
  ])('G-1 %j is %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  it('G-1 what is written reads back as the same', () => {
    const anyMs = fc.oneof(fc.nat(), fc.nat(100_000), fc.maxSafeNat());
    fc.assert(
      fc.property(anyMs, (ms) => {
        expect(parseDuration(formatDuration(ms), 'x')).toBe(ms);
      }),
    );
  });
});
