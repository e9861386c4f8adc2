import { describe, expect, it } from 'vitest';
import { fixture, SECOND } from './fixture.js';
import { pullError } from './scripted-source.js';

const tick = () => new Promise((resolve) => setImmediate(resolve));

describe('queue', () => {
  const wanted = ['a:1', 'b:1', 'c:1', 'd:1', 'e:1'];

  it('IC-7 S24 two at once, first come first served; a failed pull frees its slot', async () => {
    const { images, source } = fixture({ pull: { concurrency: 2 } });
    const held = wanted.map((name) => source.hold(`fetch ${name}`));
    wanted.forEach((name) => source.registry.set(name, `sha256:${name[0]!}`));
    const all = wanted.map((name) => images.acquire(name, { owner: 'o' }));
    const running = () => source.calls.filter((call) => call.startsWith('fetch'));
    await tick();
    expect(running()).toEqual(['fetch a:1', 'fetch b:1']);
    expect(images.explain('e:1').progress).toMatchObject({ phase: 'queued', queuePosition: 2 });
    held[1]!.fail(pullError('b:1', 'unauthorized', false));
    await expect(all[1]).rejects.toMatchObject({ details: { reason: 'unauthorized' } });
    await tick();
    expect(running()).toEqual(['fetch a:1', 'fetch b:1', 'fetch c:1']);
    held.forEach((one) => one.go());
    await Promise.all([all[0], all[2], all[3], all[4]]);
  });

  it('IC-7 case C62 an aborted waiter leaves the queue; what is present goes by it', async () => {
    const { images, source } = fixture({ pull: { concurrency: 1 } });
    const held = source.hold('fetch redis:7');
    const first = images.acquire('redis:7', { owner: 'a' });
    await held.reached;
    const leave = new AbortController();
    const waiting = images.acquire('redis:8', { owner: 'b', signal: leave.signal });
    await tick();
    source.put('here:1', 'sha256:here');
    await expect(images.acquire('here:1', { owner: 'c' })).resolves.toBeDefined();
    leave.abort(new Error('bye'));
    await expect(waiting).rejects.toThrow('bye');
    await tick();
    expect(images.explain('redis:8').state).toBe('absent');
    held.go();
    await first;
    expect(source.count('fetch redis:8')).toBe(0);
  });

  it('IC-3 IC-7 a start caller promotes the prefetch that it joins', async () => {
    const { images, source } = fixture({ pull: { concurrency: 1 } });
    wanted.forEach((name) => source.registry.set(name, `sha256:${name[0]!}`));
    const held = source.hold('fetch a:1');
    const all = [images.acquire('a:1', { owner: 'o' })];
    await held.reached;
    for (const name of ['b:1', 'c:1']) all.push(images.acquire(name, { owner: 'o', priority: 'prefetch' }));
    all.push(images.acquire('c:1', { owner: 'p' }));
    await tick();
    expect(images.explain('c:1').progress?.queuePosition).toBe(0);
    held.go();
    await Promise.all(all);
    expect(source.calls.filter((call) => call.startsWith('fetch'))).toEqual(['fetch a:1', 'fetch c:1', 'fetch b:1']);
  });

  it('IC-7 case C63 a fetch that ignores its abort holds its slot for abortGrace, then it is given away with a warning', async () => {
    const { images, source, clock, told } = fixture({ pull: { concurrency: 1, linger: 0 } });
    source.hold('fetch redis:7');
    const leave = new AbortController();
    const gone = images.acquire('redis:7', { owner: 'a', signal: leave.signal });
    await tick();
    leave.abort(new Error('bye'));
    await expect(gone).rejects.toThrow('bye');
    const next = images.acquire('redis:8', { owner: 'b' });
    await clock.advance(30 * SECOND - 1);
    expect(source.count('fetch redis:8')).toBe(0);
    await clock.advance(1);
    await expect(next).resolves.toBeDefined();
    expect(told()).toContain('warning:abort-ignored');
  });

  it('IC-7 IC-17 what a stranger brought while we waited in line is used, and is not ours', async () => {
    const { images, source, clock } = fixture({ pull: { concurrency: 1 } });
    const held = source.hold('fetch redis:7');
    const first = images.acquire('redis:7', { owner: 'a' });
    await held.reached;
    const second = images.acquire('redis:8', { owner: 'b' });
    await tick();
    source.put('redis:8', 'sha256:b');
    held.go();
    await first;
    await (await second).release();
    await clock.advance('1h');
    expect(source.count('fetch redis:8')).toBe(0);
    expect(source.names.get('redis:8')).toBe('sha256:b');
  });
});
