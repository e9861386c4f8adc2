import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { replace } from 'handover';
import { turn } from '../alloc/scripted-peer.js';
import { SERVED, outcomeOf, world } from '../alloc/world.js';
import { DRAINS, under } from './under-way.js';

describe('while the previous one is put back', () => {
  it.each(['a', 'b'] as const)(
    'RO-1 G-4: %s is let go of: nothing is undone, at once, and the outcome says so',
    async (who) => {
      const w = await under('start-first', { settings: DRAINS });
      await w.clock.advance('15s');
      expect(w.a.state).toBe('draining');
      w.registrar.register = () => new Promise(() => undefined);
      void w.a.stopping?.cancel();
      await w.clock.advance('8s');
      const signals = w.host.calls.length;
      await w[who].detach();
      const result = await w.done;
      expect([result.outcome, result.remains, w.host.running()]).toEqual(['detached', undefined, ['a/web', 'b/web']]);
      expect(w.host.calls.slice(signals)).toEqual([]);
      expect(w.log.types()).not.toContain('remains');
      expect(await w.leftovers()).toBe(0);
    },
  );

  it('RO-1 G-4: b is let go of while it is removed: the outcome says so, and nothing of it is called remains', async () => {
    const w = await under('start-first', { settings: DRAINS });
    await w.clock.advance('15s');
    void w.a.stopping?.cancel();
    await w.clock.advance('8s');
    expect(w.b.state).toBe('draining');
    await w.b.detach();
    const result = await w.done;
    expect([result.outcome, result.remains, result.serving?.id]).toEqual(['detached', undefined, 'a']);
  });
});

describe('detach', () => {
  const SCENES = [
    { scene: 'preparing', order: 'stop-first', script: { prestart: 'hang' }, after: 0, serves: 'a', left: ['a/web'] },
    { scene: 'draining', order: 'stop-first', script: {}, after: '30s', serves: undefined, left: ['a/web', 'b/web'] },
    { scene: 'stopping', order: 'stop-first', script: {}, after: '80s', serves: undefined, left: ['a/web', 'b/web'] },
    {
      scene: 'starting',
      order: 'start-first',
      script: { start: '1h' },
      after: '1s',
      serves: 'a',
      left: ['a/web', 'b/web'],
    },
    { scene: 'draining', order: 'start-first', script: {}, after: '30s', serves: 'b', left: ['a/web', 'b/web'] },
  ] as const;

  it.each(SCENES)(
    'G-4: both are let go of ($order, $scene): the result is a value, nothing is sent or undone',
    async (row) => {
      const w = await under(row.order, { script: row.script, settings: DRAINS, ofA: { exitDelay: '30m' } });
      await w.clock.advance(row.after);
      const [signals, registered] = [
        w.host.calls.filter((call) => /^(signal|kill|discard|destroy)/.test(call)),
        w.registered(),
      ];
      await w.a.detach();
      await w.b.detach();
      const result = await w.done;
      expect([result.outcome, result.serving?.id]).toEqual(['detached', row.serves]);
      // An exit or a start that is on its way is the world's.
      expect(w.clock.pending).toBe(row.scene === 'stopping' || row.scene === 'starting' ? 1 : 0);
      expect(w.host.remains()).toEqual(row.left);
      expect([w.host.calls.filter((call) => /^(signal|kill|discard|destroy)/.test(call)), w.registered()]).toEqual([
        signals,
        registered,
      ]);
      expect(getEventListeners(w.control.signal, 'abort')).toEqual([]);
      expect(w.log.types().filter((type) => type === 'replace:ended')).toHaveLength(1);
    },
  );

  it('G-4: only the next is let go of: the previous is not stopped for it', async () => {
    const w = await under('stop-first', { script: { prestart: 'hang' } });
    const from = w.clock.now();
    await w.b.detach();
    const result = await w.clock.until(w.done);
    expect([result.outcome, result.serving?.id, w.a.state]).toEqual(['detached', 'a', 'running']);
    expect(w.clock.now()).toBe(from);
    expect(w.registered()).toEqual(['web-a-web-http']);
    expect(await w.leftovers()).toBe(0);
  });

  it('G-4: only the next is let go of, while the previous drains', async () => {
    const w = await under('stop-first', { settings: DRAINS });
    await w.clock.advance('30s');
    await w.b.detach();
    const result = await w.clock.until(w.done);
    expect([result.outcome, result.serving?.id, w.a.state]).toEqual(['detached', 'a', 'running']);
    expect([w.registered(), w.host.running()]).toEqual([['web-a-web-http'], ['a/web']]);
    expect(await w.leftovers()).toBe(0);
  });

  it('G-4: only the previous is let go of: the result comes at once, the next is in its owner’s hands', async () => {
    const w = await under('stop-first', { script: { prestart: '1m' } });
    await w.a.detach();
    expect((await w.done).outcome).toBe('detached');
    await w.clock.advance('2m');
    expect([w.b.state, w.host.running()]).toEqual(['waiting', ['a/web']]);
    await w.b.discard();
    await turn();
    expect([w.host.remains(), w.clock.pending]).toEqual([['a/web'], 0]);
  });

  it('G-4: start-first, only the next is let go of, while the previous drains', async () => {
    const w = await under('start-first', { settings: DRAINS });
    await w.clock.advance('30s');
    await w.b.detach();
    const result = await w.clock.until(w.done);
    expect([result.outcome, w.a.state, w.host.running()]).toEqual(['detached', 'running', ['a/web', 'b/web']]);
    expect(w.registered().toSorted()).toEqual(['web-a-web-http', 'web-b-web-http']);
    expect(await w.leftovers()).toBe(0);
  });

  it('G-4: the previous cannot be killed, and is let go of while the next waits: the result comes', async () => {
    const w = await under('stop-first', { ofA: { ignores: ['SIGTERM', 'SIGKILL'] } });
    await w.clock.advance('5m');
    expect([w.a.state, w.b.state]).toEqual(['unkillable', 'waiting']);
    await w.a.detach();
    const result = await w.clock.until(w.done);
    expect([result.outcome, result.serving, w.host.running()]).toEqual(['detached', undefined, ['a/web']]);
    expect(await w.leftovers()).toBe(0);
  });

  it('G-4 AL-8: an end stays known of a previous one that was let go of after it', async () => {
    const w = await under('stop-first', { script: { prestart: '1m' } });
    w.host.die('a/web');
    await turn();
    await w.a.detach();
    expect((await w.clock.until(w.done)).outcome).toBe('replaced');
    expect(w.host.running()).toEqual(['b/web']);
    expect(await w.leftovers()).toBe(0);
  });

  it('G-4: a replacement of nothing', async () => {
    const w = world();
    const b = w.alloc('b', SERVED);
    const done = outcomeOf(replace(undefined, b));
    await w.clock.advance('1s');
    await b.detach();
    expect((await done).value).toMatchObject({ outcome: 'detached', serving: { id: 'b' } });
    expect([w.host.running(), w.clock.pending]).toEqual([['b/web'], 0]);
  });
});
