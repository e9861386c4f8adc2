import { describe, expect, it } from 'vitest';
import { summary } from '../../examples/demo/client.js';
import type { Update } from '../../examples/demo/run.js';
import { comparison, legend, outcomes, progressLine, timeline } from '../../examples/demo/text.js';

const update: Update = {
  outageMs: 400,
  failed: 40,
  requests: 900,
  outcome: 'replaced',
  spans: [
    { version: 'v1', state: 'running', from: 0, to: 500 },
    { version: 'v1', state: 'stopping', from: 500, to: 501 },
    { version: 'v2', state: 'prestarting', from: 0, to: 450 },
    { version: 'v2', state: 'running', from: 520, to: 1_000 },
  ],
};

describe('the client of the demo', () => {
  it.each([
    { ok: '+++', outageMs: 0, failed: 0 },
    { ok: '+--+', outageMs: 20, failed: 2 },
    { ok: '+-+-+', outageMs: 20, failed: 2 },
    { ok: '-+', outageMs: 10, failed: 1 },
    { ok: '+-+-', outageMs: null, failed: 2 },
  ])('$ok: out of service for $outageMs ms (null: it was not over)', ({ ok, outageMs, failed }) => {
    const samples = ok.split('').map((mark, i) => ({ start: i * 10, ok: mark === '+' }));
    expect(summary(samples.reverse())).toEqual({ outageMs, failed, requests: ok.length });
  });
});

describe.each([40, 80, 200])('at %i columns', (width) => {
  const lines = [
    ...comparison(
      [
        { name: 'kill first', update: { ...update, outageMs: 4_000 } },
        { name: 'handover', update },
      ],
      width,
    ),
    ...timeline(update, 1_000, width),
    ...legend(width),
    progressLine({ phase: 'downloading', attempt: 1, bytes: { done: 3e6, total: 6e6 } }, width),
  ];

  it('no line is wider', () => {
    expect(lines.filter((line) => line.length > width)).toEqual([]);
  });

  it('a state that was there is seen, however short', () => {
    expect(timeline(update, 1_000, width)[0]).toContain('▃');
  });

  it('the outages are there as figures', () => {
    expect(lines.join('\n')).toContain('4000 ms');
    expect(lines.join('\n')).toContain('400 ms');
  });
});

describe('an update that failed', () => {
  const failed: Update = { ...update, outageMs: null, outcome: 'failed', cause: 'no such tag' };
  const rows = [
    { name: 'kill first', update: failed },
    { name: 'handover', update },
  ];

  it('has the longest bar, and no figure that looks like an end', () => {
    const [first, second] = comparison(rows, 100);
    expect(first).toContain('not over  40 of 900');
    expect(first!.split('█').length).toBeGreaterThan(second!.split('█').length);
  });

  it('says why, once', () => {
    expect(outcomes(rows)).toEqual(['', 'kill first: failed, because: no such tag']);
  });
});
