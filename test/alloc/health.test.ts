import { describe, expect, it } from 'vitest';
import type { AllocSettings, Check, HandoverEvent } from 'handover';
import { type World, outcomeOf, world } from './world.js';

type Answer = boolean | 'hang' | Error | ((now: number) => boolean);
type Health = NonNullable<AllocSettings['health']>;

/** A started alloc with one custom check that answers as the test says. */
async function checked(health: Omit<Health, 'checks'> = {}, check: Partial<Check> = {}) {
  const w = world();
  const state: { answer: Answer; tries: number[] } = { answer: true, tries: [] };
  const up = async (): Promise<boolean> => {
    state.tries.push(w.clock.now());
    if (state.answer === 'hang') return new Promise(() => undefined);
    if (state.answer instanceof Error) throw state.answer;
    return typeof state.answer === 'function' ? state.answer(w.clock.now()) : state.answer;
  };
  const alloc = w.alloc(
    'a',
    { health: { ...health, checks: [{ name: 'up', type: 'custom', ...check } as Check] } },
    {},
    { checks: { up } },
  );
  const start = async (): Promise<void> => w.clock.until(alloc.start());
  return { ...w, alloc, state, start };
}

function healthEvents({ log }: Pick<World, 'log'>): readonly string[] {
  return log.events.flatMap((event) =>
    event.type === 'alloc:health' ? [`${event.alloc.health}, ${event.alloc.reached}`] : [],
  );
}

describe('AL-9 without checks', () => {
  it('AL-9 case C45: being alive for minHealthyTime is healthy, and not before', async () => {
    const w = world();
    const a = w.alloc('a');
    await w.clock.until(a.start());
    const healthy = a.until('healthy');
    expect([a.status().health, a.status().reached]).toEqual(['passing', 'prepared']);
    expect(a.status().wait).toMatchObject({ for: 'health', until: w.clock.wall() + 300_000 });
    await w.clock.advance(9_999);
    expect(a.status().reached).toBe('prepared');
    await w.clock.advance(1);
    expect((await healthy).reached).toBe('healthy');
    expect(a.status().wait).toBeNull();
    expect(healthEvents(w)).toEqual(['pending, prepared', 'passing, prepared', 'passing, healthy']);
    expect(w.clock.pending).toBe(0);
  });

  it.each([
    { minHealthyTime: undefined, at: 10_000, why: 'undefined means the default' },
    { minHealthyTime: 0, at: 0, why: '0 is a value, not "unset"' },
    { minHealthyTime: '90s', at: 90_000, why: 'as it says' },
  ])('AL-9 G-2 minHealthyTime=$minHealthyTime: healthy at $at ($why)', async ({ minHealthyTime, at }) => {
    const w = world();
    const a = w.alloc('a', { health: { minHealthyTime } });
    await w.clock.until(a.start());
    const from = w.clock.now();
    await w.clock.until(a.until('healthy'));
    expect(w.clock.now() - from).toBe(at);
  });

  it('AL-9 N-H12: an alloc that ends in the window is not healthy', async () => {
    const w = world();
    w.host.script('a', { exitAfter: '9s', exit: { code: 1 } });
    const a = w.alloc('a');
    await w.clock.until(a.start());
    const { error } = await outcomeOf(w.clock.until(a.until('healthy')));
    expect(error).toMatchObject({ code: 'ERR_ALLOC_ENDED', details: { allocId: 'a', state: 'failed' } });
    expect(a.status()).toMatchObject({ health: 'none', reached: 'none', tasks: { web: { phase: 'dead' } } });
    expect(w.clock.pending).toBe(0);
  });
});

describe('AL-9 with checks', () => {
  it('AL-9: no result is pending, the first pass opens the window', async () => {
    const c = await checked();
    c.state.answer = 'hang';
    await c.start();
    await c.clock.advance(900);
    expect([c.alloc.status().health, c.alloc.status().checks]).toEqual(['pending', {}]);
    c.state.answer = true;
    await c.clock.advance(200);
    expect(c.alloc.status().health).toBe('passing');
    expect(c.alloc.status().checks['up']).toMatchObject({ code: 'check-passing' });
    const from = c.clock.now();
    await c.clock.until(c.alloc.until('healthy'));
    expect(c.clock.now() - from).toBeGreaterThan(9_700);
    expect(c.clock.now() - from).toBeLessThanOrEqual(10_000);
  });

  it('AL-9 S54 N-H8: a failure inside the window starts it anew', async () => {
    const c = await checked({}, { interval: '1s' });
    await c.start();
    await c.clock.advance('9s');
    c.state.answer = false;
    await c.clock.advance('1s');
    expect(c.alloc.status()).toMatchObject({ health: 'failing', reached: 'prepared' });
    c.state.answer = true;
    await c.clock.advance('1s');
    const passing = c.clock.now();
    await c.clock.until(c.alloc.until('healthy'));
    expect(c.clock.now() - passing).toBeGreaterThan(8_900);
    expect(c.clock.now()).toBeGreaterThanOrEqual(19_000);
  });

  it('AL-9 S54: flapping for ever is never healthy, and ends at the deadline', async () => {
    const c = await checked({ minHealthyTime: '10s', healthyDeadline: '1m' }, { interval: '5s' });
    c.state.answer = (now) => now % 10_000 < 5_000;
    await c.start();
    const { error } = await outcomeOf(c.clock.until(c.alloc.until('healthy')));
    expect(error).toMatchObject({ code: 'ERR_UNHEALTHY', details: { allocId: 'a' } });
    expect(c.clock.now()).toBe(60_000);
    expect(healthEvents(c).length).toBeGreaterThan(10);
  });

  it('AL-9: the deadline counts from the start, never from the pull', async () => {
    const c = await checked({ healthyDeadline: '1m' });
    c.host.script('a', { prestart: '2h', start: '50s' });
    c.state.answer = new Error('connection refused');
    await c.start();
    const from = c.clock.now();
    expect(from).toBe(2 * 3_600_000 + 50_000);
    const { error } = await outcomeOf(c.clock.until(c.alloc.until('healthy')));
    expect(c.clock.now() - from).toBe(60_000);
    expect(error).toMatchObject({ code: 'ERR_UNHEALTHY', details: { checks: ['up'] } });
    expect((error as Error).message).toContain('connection refused');
    expect(c.alloc.state).toBe('running');
  });

  it('AL-9: the last look decides at the deadline, not a stale result', async () => {
    const c = await checked({ minHealthyTime: 0, healthyDeadline: '1m' }, { interval: '1h' });
    c.state.answer = false;
    await c.start();
    await c.clock.advance('59s');
    const before = c.state.tries.length;
    c.state.answer = true;
    await c.clock.until(c.alloc.until('healthy'));
    expect(c.clock.now()).toBe(60_000);
    expect(c.state.tries.slice(before)).toEqual([60_000]);
  });

  it('AL-9: a pass at the last look does not make up for minHealthyTime', async () => {
    const c = await checked({ minHealthyTime: '10s', healthyDeadline: '1m' }, { interval: '1h' });
    c.state.answer = false;
    await c.start();
    await c.clock.advance('59s');
    c.state.answer = true;
    const { error } = await outcomeOf(c.clock.until(c.alloc.until('healthy')));
    expect(error).toMatchObject({ code: 'ERR_UNHEALTHY', details: { checks: [] } });
  });

  it('AL-9: a window that is full at the deadline is in time', async () => {
    const c = await checked({ minHealthyTime: '1m', healthyDeadline: '1m' });
    await c.start();
    await c.clock.until(c.alloc.until('healthy'));
    expect(c.clock.now()).toBe(60_000);
  });

  it('AL-9: a check that hangs fails at its own timeout', async () => {
    const c = await checked({}, { timeout: '3s' });
    c.state.answer = 'hang';
    await c.start();
    await c.clock.advance('2999ms');
    expect(c.alloc.status().health).toBe('pending');
    await c.clock.advance(1);
    expect(c.alloc.status().checks['up']?.message).toContain('did not answer within 3000 ms');
    expect(c.alloc.status().health).toBe('failing');
    expect(await c.leftovers()).toBe(0);
  });

  it('AL-9: observed afterwards too: the level is lost and comes back', async () => {
    const c = await checked();
    await c.start();
    await c.clock.until(c.alloc.until('healthy'));
    c.state.answer = false;
    await c.clock.advance('1s');
    expect(c.alloc.status()).toMatchObject({ health: 'failing', reached: 'prepared' });
    c.state.answer = true;
    await c.clock.advance('10s');
    expect(c.alloc.status().reached).toBe('prepared');
    await c.clock.advance('1s');
    expect(c.alloc.status().reached).toBe('healthy');
    expect(await c.leftovers()).toBe(0);
  });

  it('AL-9: not any more once it was told to stop', async () => {
    const c = await checked();
    c.host.script('a', { exitDelay: '1m' });
    await c.start();
    await c.clock.until(c.alloc.until('healthy'));
    c.alloc.stop({ reason: 'operator' });
    await c.clock.advance('100ms');
    expect(c.alloc.state).toBe('stopping');
    const tries = c.state.tries.length;
    c.state.answer = false;
    await c.clock.advance('4s');
    expect([c.state.tries.length, c.alloc.status().health]).toEqual([tries, 'passing']);
  });

  it('AL-9: after the deadline it may still become healthy', async () => {
    const c = await checked({ healthyDeadline: '20s' });
    c.state.answer = false;
    await c.start();
    await c.clock.advance('30s');
    await expect(c.alloc.until('healthy')).rejects.toThrow('did not become healthy');
    c.state.answer = true;
    await c.clock.advance('15s');
    expect((await c.alloc.until('healthy')).reached).toBe('healthy');
  });

  it('G-7: a check that goes on passing is no news', async () => {
    const c = await checked();
    await c.start();
    await c.clock.until(c.alloc.until('healthy'));
    const { revision } = c.alloc.status();
    const events = c.log.events.length;
    const tries = c.state.tries.length;
    await c.clock.advance('10m');
    expect(c.state.tries.length - tries).toBeGreaterThan(500);
    expect([c.alloc.status().revision, c.log.events.length]).toEqual([revision, events]);
  });

  it('G-7: each health event has one change, and the status says the same', async () => {
    const c = await checked();
    const wrong: string[] = [];
    c.alloc.on('alloc:health', ({ alloc }: HandoverEvent<'alloc:health'>) => {
      if (alloc.revision > c.alloc.status().revision) wrong.push('told before it could be read');
      if (alloc.reached === 'healthy' && alloc.health !== 'passing') wrong.push('healthy without passing');
    });
    await c.start();
    await c.clock.until(c.alloc.until('healthy'));
    c.state.answer = false;
    await c.clock.advance('5s');
    c.state.answer = true;
    await c.clock.advance('20s');
    expect(wrong).toEqual([]);
    expect(healthEvents(c)).toEqual([
      ...['pending, prepared', 'passing, prepared', 'passing, healthy'],
      ...['failing, prepared', 'passing, prepared', 'passing, healthy'],
    ]);
  });

  it('AL-9: a custom check sees the status, and its signal aborts at the timeout', async () => {
    const w = world();
    const seen: unknown[] = [];
    const up: NonNullable<Parameters<typeof w.alloc>[3]>['checks'] = {
      up: async (at, { signal }) => {
        seen.push([at.id, at.state]);
        await new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error)));
        return true;
      },
    };
    const a = w.alloc('a', { health: { checks: [{ name: 'up', type: 'custom' }] } }, {}, { checks: up });
    await w.clock.until(a.start());
    await w.clock.advance('1s');
    expect(seen[0]).toEqual(['a', 'running']);
    expect(a.status().checks['up']?.code).toBe('check-failing');
    expect(await w.leftovers()).toBe(0);
  });

  it('AL-9: an answer that is not true is no pass', async () => {
    const c = await checked();
    c.state.answer = 'yes' as never;
    await c.start();
    await c.clock.advance(0);
    expect(c.alloc.status().health).toBe('failing');
  });
});
