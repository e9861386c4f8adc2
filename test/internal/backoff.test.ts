import { describe, expect, it } from 'vitest';
import { FakeClock } from 'handover/testing';
import { backoff } from '../../src/internal/backoff.js';

const options = { first: 1_000, max: 30_000 };

describe('backoff', () => {
  it('IC-9 doubles from the first delay to the longest', () => {
    const delays = [1, 2, 3, 4, 5, 6, 7].map((n) => backoff({ ...options, jitter: 'none' }, n, new FakeClock()));
    expect(delays).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
  });

  it.each([0, 0.25, 0.999])('IC-9 full jitter is anywhere from 0 to the delay: random %d', (random) => {
    expect(backoff({ ...options, jitter: 'full' }, 3, { random: () => random })).toBe(4_000 * random);
  });

  it('IC-9 any number of failures has a delay', () => {
    expect(backoff({ ...options, jitter: 'none' }, 100_000, new FakeClock())).toBe(30_000);
  });
});
