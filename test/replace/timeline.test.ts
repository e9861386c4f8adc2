import { describe, expect, it } from 'vitest';
import { type AllocEnv, type AllocSettings, type ReplaceResult, replace } from 'handover';
import { SERVED, world } from '../alloc/world.js';

const PORT = { port: 8080 };
const CHECKED: AllocSettings = { health: { checks: [{ name: 'up', type: 'custom' }], minHealthyTime: '5s' } };

/** Which answers the check gives of whom, as the test says. */
async function pair(settings: AllocSettings, more: AllocEnv = {}, spec = PORT) {
  const w = world(more);
  const up = { a: true, b: true };
  const checks: AllocEnv['checks'] = { up: async ({ id }) => up[id as 'a' | 'b'] };
  const a = w.alloc('a', settings, spec, { checks });
  await w.clock.until(a.start());
  await w.clock.until(a.until('healthy'));
  return { ...w, a, b: w.alloc('b', settings, spec, { checks }), up };
}

function outage({ outage: found }: ReplaceResult, w: { clock: { wall(): number; now(): number } }) {
  const start = w.clock.wall() - w.clock.now();
  return found && { from: Math.round(found.from - start), ms: Math.round(found.ms) };
}

describe('outage', () => {
  it('RO-1: with services, from the deregistration to the registration of the next', async () => {
    const w = await pair({ ...SERVED, ...CHECKED, shutdown: { shutdownDelay: '7s' } });
    w.host.script('a', { exitDelay: '2s' });
    w.host.script('b', { start: '3s' });
    w.up.b = false;
    const done = replace(w.a, w.b);
    await w.clock.advance('20s');
    w.up.b = true;
    const found = outage(await w.clock.until(done), w);
    // It ended at 14 s and the next one started at 17 s; its check passes with the first try after 25 s.
    expect(found?.from).toBe(5_000);
    expect(found?.ms).toBeGreaterThanOrEqual(20_000);
    expect(found?.ms).toBeLessThanOrEqual(21_000);
  });

  it('RO-1: without services, from the first signal to the first passing check', async () => {
    const w = await pair({ ...CHECKED, shutdown: { shutdownDelay: '7s' } });
    w.host.script('a', { exitDelay: '2s' });
    w.host.script('b', { start: '3s' });
    expect(outage(await w.clock.until(replace(w.a, w.b)), w)).toEqual({ from: 12_000, ms: 5_000 });
  });

  it('RO-1: services without a registrar are as good as none', async () => {
    const w = await pair({ ...SERVED, shutdown: { shutdownDelay: '7s' } }, { registrar: undefined });
    w.host.script('b', { start: '3s' });
    expect(outage(await w.clock.until(replace(w.a, w.b)), w)).toEqual({ from: 17_000, ms: 3_000 });
  });

  it('RO-1: from the first loss to the last return: a next one whose check flaps', async () => {
    const w = await pair(CHECKED);
    const answers = [true, true, false, false, true];
    const from = w.clock.now();
    Object.defineProperty(w.up, 'b', { get: () => answers.shift() ?? true });
    w.host.script('b', { start: '3s' });
    const result = await w.clock.until(replace(w.a, w.b));
    // It passes at 3 s and 4 s, fails at 5 s and 5.1 s, and passes at 5.3 s.
    expect(outage(result, w)).toEqual({ from, ms: 5_300 });
  });

  it('RO-1: none where one serves all the time', async () => {
    const w = await pair({ ...SERVED, ...CHECKED }, {}, {} as typeof PORT);
    expect((await w.clock.until(replace(w.a, w.b))).outage).toBeUndefined();
  });

  it('RO-1: none begins that was there before; what is never over lasts to the result', async () => {
    const w = await pair(CHECKED);
    w.up.a = false;
    await w.clock.advance('2s');
    expect((await w.clock.until(replace(w.a, w.b))).outage).toBeUndefined();

    const again = await pair(CHECKED);
    again.host.script('b', { exitAfter: 0, exit: { code: 1 } });
    again.up.b = false;
    const from = again.clock.now();
    const result = await again.clock.until(replace(again.a, again.b));
    expect([result.outcome, outage(result, again)]).toEqual(['failed', { from, ms: again.clock.now() - from }]);
  });
});

describe('timeline', () => {
  it('RO-1: each state of both with its begin and length, in order; JSON', async () => {
    const w = await pair(CHECKED);
    w.host.script('b', { prestart: '1m', start: '3s' });
    const start = w.clock.wall();
    const { timeline } = await w.clock.until(replace(w.a, w.b));
    const steps = timeline
      .filter(({ step }) => !step.startsWith('stop: '))
      .map(({ id, step, at, ms }) => `${at - start} ${id} ${step} ${ms}`);
    expect(steps).toEqual([
      ...['0 a running 0', '0 b pending 0', '0 b prestarting 60000', '0 a held 60000', '60000 b prepared 0'],
      ...['60000 b waiting 0', '60000 a draining 0', '60000 a stopping 0', '60000 a stopped 0'],
      ...['60000 b starting 3000', '63000 b running 5000'],
    ]);
    expect(JSON.parse(JSON.stringify(timeline))).toEqual(timeline);
  });
});
