import { describe, expect, it } from 'vitest';
import { type AllocSettings, replace } from 'handover';
import { SERVED, world } from '../alloc/world.js';
import { pair } from './one-port.js';

const NO = new Error('the registry says no');
const QUICK: AllocSettings = { ...SERVED, health: { minHealthyTime: '1s' } };

/** The previous one is off the registry, and gets its first signal. */
function onceTakenOff({ a }: Awaited<ReturnType<typeof pair>>, then: () => void): void {
  a.on('alloc:changed', ({ alloc }) => {
    if (alloc.state === 'stopping') then();
  });
}

describe('a registry that does not take the next one', () => {
  it('G-9 AL-3: start-first waits for it, says so, and says so again when the gate is missed', async () => {
    const w = world();
    const a = await w.running('a', QUICK);
    const b = w.alloc('b', QUICK);
    w.registrar.failNext(10_000, NO);
    const done = replace(a, b, { order: 'start-first', gateDeadline: '10m' });
    await w.clock.advance('5m');
    expect(b.status()).toMatchObject({
      health: 'passing',
      wait: { for: 'health', until: null, on: 'web-b-web-http', why: expect.stringContaining(NO.message) as string },
    });
    const result = await w.clock.until(done);
    expect(result).toMatchObject({
      outcome: 'kept-previous',
      cause: { code: 'ERR_GATE_MISSED', cause: { code: 'ERR_UNHEALTHY', cause: NO } },
    });
    expect(result.cause?.message).toContain(NO.message);
    expect(await w.leftovers()).toBe(0);
  });

  it('RO-1: stop-first says replaced, with a cause, when it was waited for in vain; the outage is open', async () => {
    const w = await pair(QUICK);
    onceTakenOff(w, () => w.registrar.failNext(10_000, NO));
    const result = await w.clock.until(replace(w.a, w.b));
    expect(result).toMatchObject({
      outcome: 'replaced',
      serving: { id: 'b' },
      cause: { code: 'ERR_UNHEALTHY', cause: NO },
      outage: { open: true },
    });
    expect(w.host.remains()).toEqual(['b/web']);
    expect(await w.leftovers()).toBe(0);
  });

  it('RO-1: stop-first waits for one that is slow to take it: no cause, and the outage is over', async () => {
    const w = await pair(QUICK);
    onceTakenOff(w, () => w.registrar.failNext(3, NO));
    const result = await w.clock.until(replace(w.a, w.b));
    expect(w.registrar.calls.filter((call) => call === 'register web-b-web-http')).toHaveLength(4);
    expect([result.outcome, result.cause, result.outage?.open]).toEqual(['replaced', undefined, undefined]);
    expect(w.registered()).toEqual(['web-b-web-http']);
    expect(await w.leftovers()).toBe(0);
  });
});
