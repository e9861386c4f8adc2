import { describe, expect, it } from 'vitest';
import { restFrom, retryAt, validatorOf } from '../../src/process/http-headers.js';

const NOW = Date.parse('2026-01-01T00:00:00Z');

describe('IC-10 Retry-After', () => {
  it.each([
    { header: undefined, at: undefined, why: 'no wish' },
    { header: '120', at: NOW + 120_000, why: 'seconds' },
    { header: 'Thu, 01 Jan 2026 00:01:00 GMT', at: NOW + 60_000, why: 'a date' },
    { header: 'Thursday, 01-Jan-26 00:01:00 GMT', at: NOW + 60_000, why: 'a date as of RFC 850' },
    { header: 'Thu Jan  1 00:01:00 2026', at: NOW + 60_000, why: 'a date as of asctime(), which is in GMT too' },
    { header: '0', at: undefined, why: 'now would be a try without a pause' },
    { header: 'Wed, 31 Dec 2025 23:59:59 GMT', at: undefined, why: 'the past too, as clocks differ' },
    { header: 'soon', at: undefined, why: 'neither' },
    { header: 'Friday', at: undefined, why: 'no date' },
    { header: '-1', at: undefined, why: 'no number of seconds, though a date to JavaScript' },
    { header: '1.5', at: undefined, why: 'no number of seconds, though a date to JavaScript' },
    { header: '999999999', at: NOW + 999_999_999_000, why: 'the longest' },
    { header: '1000000000', at: undefined, why: 'beyond sense' },
  ])('$header: $why', ({ header, at }) => {
    expect(retryAt(header === undefined ? {} : { 'retry-after': header }, NOW)).toBe(at);
  });
});

describe('IC-24 what tells one version from another', () => {
  const date = 'Thu, 01 Jan 2026 00:01:00 GMT';
  it.each([
    { headers: {}, validator: undefined, why: 'nothing is said' },
    { headers: { etag: '"a"' }, validator: '"a"', why: 'a strong ETag' },
    { headers: { etag: 'W/"a"' }, validator: undefined, why: 'a weak one means alike, not equal' },
    { headers: { etag: 'a' }, validator: undefined, why: 'not an ETag' },
    {
      headers: { 'last-modified': 'Thu, 01 Jan 2026 00:00:00 GMT', date },
      validator: 'Thu, 01 Jan 2026 00:00:00 GMT',
      why: 'a minute old: what has changed again in that second shows another',
    },
    {
      headers: { 'last-modified': 'Thu, 01 Jan 2026 00:00:01 GMT', date },
      validator: undefined,
      why: 'too young: it may change again within the second',
    },
    {
      headers: { 'last-modified': 'Thu, 01 Jan 2026 00:00:00 GMT' },
      validator: undefined,
      why: 'how old it is cannot be told',
    },
    { headers: { 'last-modified': 'yesterday', date }, validator: undefined, why: 'no date' },
    {
      headers: { etag: 'W/"a"', 'last-modified': 'Thu, 01 Jan 2026 00:00:00 GMT', date },
      validator: 'Thu, 01 Jan 2026 00:00:00 GMT',
      why: 'the date is better than a weak ETag',
    },
    {
      headers: { etag: '"a"', 'last-modified': 'Thu, 01 Jan 2026 00:00:00 GMT', date },
      validator: '"a"',
      why: 'a strong ETag is best',
    },
  ])('$headers: $why', ({ headers, validator }) => {
    expect(validatorOf(headers)).toBe(validator);
  });

  it.each([
    { range: 'bytes 4-9/10', total: 10, why: 'the rest' },
    { range: 'Bytes 4-9/10', total: 10, why: 'units know no case' },
    { range: undefined, total: undefined, why: 'it does not say what it is' },
    { range: 'bytes 0-9/10', total: undefined, why: 'the whole' },
    { range: 'bytes 3-9/10', total: undefined, why: 'too much' },
    { range: 'bytes 5-9/10', total: undefined, why: 'a gap' },
    { range: 'bytes 4-8/10', total: undefined, why: 'not to the end' },
    { range: 'bytes 4-10/10', total: undefined, why: 'beyond the end' },
    { range: 'bytes 4-9/*', total: undefined, why: 'a whole of unknown length' },
    { range: 'bytes */10', total: undefined, why: 'nothing' },
    { range: 'lines 4-9/10', total: undefined, why: 'not bytes' },
    { range: 'bytes 4-9/10, bytes 0-1/10', total: undefined, why: 'more than one part' },
  ])('a 206 with $range: $why', ({ range, total }) => {
    const headers = range === undefined ? {} : { 'content-range': range };
    expect(restFrom(4, '"a"', headers)).toBe(total);
  });

  it.each([
    { validator: '"a"', headers: { etag: '"a"' }, total: 10, why: 'the same' },
    { validator: '"a"', headers: { etag: '"b"' }, total: undefined, why: 'a part of another version' },
    { validator: '"a"', headers: { etag: 'W/"a"' }, total: undefined, why: 'a part of one that is merely alike' },
    { validator: '"a"', headers: { 'last-modified': 'x' }, total: 10, why: 'it went by the ETag' },
    { validator: 'x', headers: { 'last-modified': 'x' }, total: 10, why: 'the same date' },
    { validator: 'x', headers: { 'last-modified': 'y' }, total: undefined, why: 'another date' },
    { validator: 'x', headers: { etag: '"b"' }, total: 10, why: 'it went by the date, which need not come again' },
  ])('a 206 for $validator with $headers: $why', ({ validator, headers, total }) => {
    expect(restFrom(4, validator, { 'content-range': 'bytes 4-9/10', ...headers })).toBe(total);
  });
});
