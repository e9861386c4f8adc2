import { describe, expect, it } from 'vitest';
import { type AllocView, type ExclusiveResource, replace } from 'handover';
import { ORDER_GATES, planReplace } from '../../src/replace/plan.js';
import { view } from '../alloc/scripted-peer.js';
import { SERVED, outcomeOf, world } from '../alloc/world.js';

const port = (key: string): ExclusiveResource => ({ kind: 'port', key, scope: 'host', needed: 'start' });
const alloc = (id: string, exclusive: readonly ExclusiveResource[] = [], more: Partial<AllocView> = {}): AllocView =>
  view('running', { id, exclusive, ...more });

const A = alloc('a', [port('80/tcp')]);
const CLASH = alloc('b', [port('80/tcp')]);
const FREE = alloc('b', [port('81/tcp')]);

describe('planReplace', () => {
  it.each([
    { next: CLASH, o: {}, plan: { order: 'stop-first', gate: 'prepared' }, why: 'a shared port' },
    { next: FREE, o: {}, plan: { order: 'start-first', gate: 'healthy' }, why: 'nothing shared' },
    { next: FREE, o: { order: 'stop-first' }, plan: { order: 'stop-first', gate: 'prepared' }, why: 'by choice' },
    { next: FREE, o: { order: 'start-first' }, plan: { order: 'start-first', gate: 'healthy' }, why: 'by choice' },
    {
      next: FREE,
      o: { order: 'start-first', gate: 'healthy' },
      plan: { order: 'start-first', gate: 'healthy' },
      why: 'both',
    },
    { next: CLASH, o: { gate: 'none' }, plan: { order: 'stop-first', gate: 'none' }, why: 'no gate' },
    {
      next: CLASH,
      o: { order: undefined, gate: undefined },
      plan: { order: 'stop-first', gate: 'prepared' },
      why: 'undefined is the default',
    },
  ] as const)('RO-1 AL-6 $o → $plan ($why)', ({ next, o, plan }) => {
    expect(planReplace(A, next, o)).toEqual(plan);
  });

  it.each([
    { next: CLASH, o: { gate: 'healthy' }, code: 'ERR_GATE_DEADLOCK' },
    { next: FREE, o: { order: 'stop-first', gate: 'healthy' }, code: 'ERR_GATE_DEADLOCK' },
    { next: FREE, o: { order: 'start-first', gate: 'prepared' }, code: 'ERR_INVALID_OPTION' },
    { next: FREE, o: { order: 'start-first', gate: 'none' }, code: 'ERR_INVALID_OPTION' },
    { next: CLASH, o: { order: 'start-first' }, code: 'ERR_OVERLAP_IMPOSSIBLE' },
  ] as const)('AL-6 S61 $o is refused with $code', ({ next, o, code }) => {
    expect(() => planReplace(A, next, o)).toThrow(expect.objectContaining({ code }));
  });

  it('AL-6: every cell of order × gate does what it says', () => {
    for (const [order, gates] of Object.entries(ORDER_GATES)) {
      for (const [gate, verdict] of Object.entries(gates)) {
        const plan = (): unknown => planReplace(A, FREE, { order, gate } as never);
        if (verdict === 'default' || verdict === 'ok') expect(plan()).toEqual({ order, gate });
        else expect(plan, `${order} with ${gate}`).toThrow();
        if (verdict === 'default') expect(planReplace(A, FREE, { order } as never)).toEqual({ order, gate });
      }
    }
  });

  it('DP-7: the refusal names the resources and the way out', () => {
    expect(() => planReplace(A, CLASH, { order: 'start-first' })).toThrow(/port 80\/tcp.*stop-first/);
    expect(() => planReplace(A, CLASH, { gate: 'healthy' })).toThrow(/start-first/);
  });

  it('RO-1: what has ended holds nothing any more', () => {
    const ended = alloc('a', A.exclusive, { state: 'failed', terminal: true, stopBudget: 'never' });
    expect(planReplace(ended, CLASH, {})).toEqual({ order: 'start-first', gate: 'healthy' });
    expect(planReplace(undefined, CLASH, { order: 'start-first' })).toEqual({ order: 'start-first', gate: 'healthy' });
  });

  it("SS-2: a previous alloc with killTimeout 'never' is refused: there would be no bound", () => {
    const endless = alloc('a', [], { stopBudget: 'never' });
    expect(() => planReplace(endless, FREE, {})).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION', details: { path: 'shutdown.killTimeout' } }),
    );
  });
});

describe('replace() refuses before it touches anything', () => {
  it.each([
    { o: { order: 'first' }, path: 'order' },
    { o: { gate: 'ready' }, path: 'gate' },
    { o: { gateDeadline: '5' }, path: 'gateDeadline' },
    { o: { onNextFailed: 'revert' }, path: 'onNextFailed' },
    { o: { retain: '1h' }, path: 'retain' },
  ])('G-2 option $path', async ({ o, path }) => {
    const w = world();
    const a = await w.running('a', SERVED);
    const from = w.sequence().length;
    const { error } = await outcomeOf(replace(a, w.alloc('b'), o as never));
    expect(error).toMatchObject({ code: 'ERR_INVALID_OPTION', details: { path } });
    expect([a.state, w.sequence().length, w.log.types().includes('replace:ended')]).toEqual(['running', from, false]);
    expect(await w.leftovers()).toBe(0);
  });

  it('RO-1: a next one that was started, or has ended', async () => {
    const w = world();
    const [a, b, c] = [await w.running('a'), await w.running('b'), w.alloc('c')];
    await c.discard();
    for (const next of [b, c]) {
      expect((await outcomeOf(replace(a, next))).error).toMatchObject({ details: { path: 'next' } });
    }
    expect(w.host.running()).toEqual(['a/web', 'b/web']);
  });

  it('RO-1: a previous one that is on its way to its start', async () => {
    const w = world();
    const a = w.alloc('a');
    await w.clock.until(a.prestart());
    const { error } = await outcomeOf(replace(a, w.alloc('b')));
    expect(error).toMatchObject({ details: { path: 'current' } });
    expect(a.state).toBe('prepared');
  });

  it('RO-1: one that nobody has touched is nothing to replace, as at the first run of a deploy script', async () => {
    const w = world();
    const a = w.alloc('a');
    const { outcome, stop } = await w.clock.until(replace(a, w.alloc('b')));
    expect([outcome, stop]).toEqual(['replaced', undefined]);
    expect(w.host.running()).toEqual(['b/web']);
    expect(a.state).toBe('discarded');
  });

  it('AL-6 AL-7: a previous one that is being stopped or replaced already', async () => {
    const w = world();
    const a = await w.running('a');
    w.host.script('b', { prestart: '1m' });
    const first = replace(a, w.alloc('b'));
    const { error } = await outcomeOf(replace(a, w.alloc('c')));
    expect(error).toMatchObject({ code: 'ERR_INVALID_OPTION', details: { path: 'current' } });
    expect((await w.clock.until(first)).outcome).toBe('replaced');
    expect(w.host.running()).toEqual(['b/web']);
  });
});
