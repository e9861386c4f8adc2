import { describe, expect, it } from 'vitest';
import { type AllocSettings, AllocLifecycle } from 'handover';
import { outcomeOf, world } from './world.js';

describe('the health deadline of one that was opened', () => {
  const health = { minHealthyTime: '5s', healthyDeadline: '20s', checks: [{ name: 'up', type: 'custom' }] } as const;
  const make = (answer: boolean, more: AllocSettings['health'] = {}) => {
    const w = world();
    const env = { ...w.env, checks: { up: async () => answer } };
    const spec = {
      id: 'a',
      tasks: [{ name: 'web', driver: w.driver, spec: { version: 'a' } }],
      health: { ...health, ...more },
    };
    return {
      ...w,
      open: () => AllocLifecycle.open(spec, env),
      start: async () => {
        const a = new AllocLifecycle(spec, env);
        await w.clock.until(a.start());
        return a;
      },
    };
  };

  it('AL-9: counts from the start, however often it is opened', async () => {
    const w = make(false);
    let a = await w.start();
    for (let i = 0; i < 3; i++) {
      await w.clock.advance('8s');
      await a.detach();
      a = await w.open();
    }
    // 24 s after the start: one judgement is waited for (its window, and a check's interval and timeout), no more.
    const from = w.clock.now();
    const { error } = await outcomeOf(w.clock.until(a.until('healthy')));
    expect(error).toMatchObject({ code: 'ERR_UNHEALTHY' });
    expect(w.clock.now() - from).toBe(7_000);
  });

  it('AL-9: shows when it will be over', async () => {
    const w = make(false);
    const started = w.clock.wall();
    const first = await w.start();
    await w.clock.advance('8s');
    await first.detach();
    expect((await w.open()).status().wait).toMatchObject({ for: 'health', until: started + 20_000 });
  });

  it('AL-9: one that has run for long is not taken for unhealthy before it was judged', async () => {
    const w = make(true);
    const first = await w.start();
    await w.clock.until(first.until('healthy'));
    await w.clock.advance('10m');
    await first.detach();
    const a = await w.open();
    expect((await w.clock.until(a.until('healthy'))).reached).toBe('healthy');
  });

  it.each([
    { said: 'never', when: async () => undefined },
    { said: 'the driver does not know its start', when: undefined },
  ])('AL-9: from its opening: $said', async ({ said, when }) => {
    const w = make(false, said === 'never' ? { healthyDeadline: 'never' } : {});
    const first = await w.start();
    await w.clock.advance('15s');
    await first.detach();
    if (when === undefined) {
      const recover = w.driver.recover.bind(w.driver);
      w.driver.recover = async (...asked) => Object.assign((await recover(...asked))!, { startedAt: undefined });
    }
    const a = await w.open();
    const { until } = a.status().wait!;
    expect(until).toBe(said === 'never' ? null : w.clock.wall() + 20_000);
    await a.detach();
  });
});
