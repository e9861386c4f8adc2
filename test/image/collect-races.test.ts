import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { account, idle, tags } from './collecting.js';
import { changes, fixture, MINUTE } from './fixture.js';

const tick = () => new Promise((resolve) => setImmediate(resolve));

describe('S37 collect meets the rest', () => {
  it('S37 an acquire while it runs: held, or removed first and pulled again, never neither', async () => {
    for (const line of ['find sha256:a', 'users sha256:a', 'remove redis:7']) {
      const all = await idle();
      const step = all.source.hold(line);
      const collected = all.images.collect();
      await step.reached;
      const acquired = all.images.acquire('redis:7', { owner: 'b' });
      await tick();
      step.go();
      const [lease, result] = await Promise.all([acquired, collected]);
      expect(all.source.artifact(lease.imageId), line).toBeDefined();
      expect(all.images.explain('redis:7')).toMatchObject({ state: 'held', holders: [{ owner: 'b' }] });
      const answer = account(result).find((one) => one.startsWith('sha256:a'));
      expect(answer).toBe(all.source.count('fetch redis:7') === 1 ? 'sha256:a gone' : 'sha256:a held');
    }
  });

  it('IC-16 two of them, and a planned removal: one delete, one account', async () => {
    const all = await idle();
    const step = all.source.hold('remove redis:7');
    await all.clock.advance(3 * MINUTE);
    await step.reached;
    const both = Promise.all([all.images.collect(), all.images.collect()]);
    await tick();
    step.go();
    for (const result of await both) expect(account(result)).toContain('sha256:a gone');
    expect(changes(all.source.calls)).toEqual(['remove redis:7', 'remove redis:8']);
    expect(all.clock.pending).toBe(0);
  });

  it('IC-18 it waits for removals that are under way', async () => {
    const all = await idle();
    const step = all.source.hold('remove redis:7');
    await all.clock.advance(3 * MINUTE);
    let done = false;
    const collected = all.images.collect().then(() => (done = true));
    await all.clock.advance(MINUTE);
    expect(done).toBe(false);
    step.go();
    await collected;
    expect(tags(all)).toEqual([]);
  });

  it('IC-16 a removal that turns out not to be ours, met while it runs, is told as such', async () => {
    const all = await idle();
    all.source.put('mine:1', 'sha256:a');
    const step = all.source.hold('remove redis:7');
    await all.clock.advance(3 * MINUTE);
    const collected = all.images.collect();
    await tick();
    step.go();
    expect(account(await collected)).toEqual(['sha256:a not-ours']);
  });

  it('G-4 aborted: rejects with the reason at once, what was removed stays removed, the rest stays planned', async () => {
    const all = await idle();
    const names = ['a:1', 'b:1', 'c:1', 'd:1', 'e:1'];
    for (const name of names) {
      all.source.registry.set(name, `sha256:${name}`);
      await (await all.images.acquire(name, { owner: 'o' })).release();
    }
    const steps = ['redis:7', 'redis:8', 'a:1', 'b:1'].map((name) => all.source.hold(`remove ${name}`));
    const caller = new AbortController();
    const collected = all.images.collect({ signal: caller.signal });
    await steps[3]!.reached;
    caller.abort(new Error('enough'));
    await expect(collected).rejects.toThrow('enough');
    expect(getEventListeners(caller.signal, 'abort')).toHaveLength(0);
    steps.forEach((step) => step.go());
    await all.clock.advance(0);
    expect(tags(all)).toEqual(['c:1', 'd:1', 'e:1']);
    await all.clock.advance(3 * MINUTE);
    expect(tags(all)).toEqual([]);
  });

  it('G-4 aborted before it began: nothing is asked', async () => {
    const all = await idle();
    const signal = AbortSignal.abort(new Error('enough'));
    for (const dryRun of [true, false]) await expect(all.images.collect({ signal, dryRun })).rejects.toThrow('enough');
    expect(all.source.calls).toEqual([]);
  });

  it('IC-23 closed: ERR_CLOSED; what was begun ends, nothing else is removed', async () => {
    const all = await idle();
    const step = all.source.hold('users sha256:a');
    all.source.hold('users sha256:b');
    const collected = all.images.collect();
    await step.reached;
    const closed = all.images.close();
    await expect(collected).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    step.go();
    await all.clock.until(closed);
    expect(tags(all)).toEqual(['redis:8']);
    await expect(all.images.collect()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    expect(all.clock.pending).toBe(0);
  });

  it('IC-23 closed while it looks at what is there: nothing is removed', async () => {
    const all = await idle();
    const step = all.source.hold('find sha256:a');
    const collected = all.images.collect();
    await step.reached;
    const closed = all.images.close();
    await expect(collected).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    step.go();
    await closed;
    await tick();
    expect(tags(all)).toEqual(['redis:7', 'redis:8']);
    expect(all.images.snapshot()).toEqual([]);
  });

  it.each([null, [], 5, 'x', { dryRun: 1 }, { dry: true }, { signal: {} }])('G-1 %j is refused', async (options) => {
    const { images } = fixture();
    await expect(images.collect(options as never)).rejects.toMatchObject({ code: 'ERR_INVALID_OPTION' });
  });
});
