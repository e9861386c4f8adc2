import { describe, expect, it } from 'vitest';
import { FakeClock } from 'handover/testing';
import { FetchLimits } from '../../src/image/limits.js';
import { fixture, MINUTE, SECOND } from './fixture.js';
import { type Step, untilAborted } from './scripted-source.js';

describe('IC-8 limits', () => {
  const hang = ({ line, call }: Step) => (line.startsWith('fetch') ? untilAborted(call) : undefined);

  it('S23 beginTimeout: no sign of life at all', async () => {
    const { images, source, clock } = fixture({ pull: { attempts: 1 } });
    source.before = hang;
    const asked = images.acquire('redis:7', { owner: 'a' });
    asked.catch(() => undefined);
    await clock.advance(5 * MINUTE - 1);
    expect(images.explain('redis:7').state).toBe('pulling');
    await clock.advance(1);
    await expect(asked).rejects.toMatchObject({
      details: { reason: 'timed-out', limit: 'beginTimeout', attempts: 1 },
      retryable: true,
    });
  });

  it.each([
    { phase: 'downloading', stalls: true },
    { phase: 'resolving', stalls: true },
    { phase: 'extracting', stalls: false },
    { phase: 'queued', stalls: false },
  ] as const)('S19 S20 case C7 silence while $phase ends the attempt: $stalls', async ({ phase, stalls }) => {
    const { images, source, clock } = fixture({ pull: { attempts: 1, stallTimeout: '1m' } });
    source.before = (step) => {
      if (!step.line.startsWith('fetch')) return undefined;
      step.onProgress({ phase, bytes: { done: 1 } });
      clock.timer(30 * SECOND, () => step.onProgress({ phase, bytes: { done: 2 } }));
      return untilAborted(step.call);
    };
    const asked = images.acquire('redis:7', { owner: 'a' });
    asked.catch(() => undefined);
    await clock.advance(90 * SECOND - 1);
    expect(images.explain('redis:7').state).toBe('pulling');
    await clock.advance(1);
    expect(images.explain('redis:7').state).toBe(stalls ? 'absent' : 'pulling');
    if (stalls) {
      await expect(asked).rejects.toMatchObject({ details: { reason: 'stalled', limit: 'stallTimeout' } });
    }
    await images.close();
    expect(clock.pending).toBe(0);
  });

  it('case C7 IC-8 the error of a stall names the last line of the engine', async () => {
    const { images, source, clock } = fixture({ pull: { attempts: 1, stallTimeout: '1m' } });
    const note = '506c40f60539: Layer already being pulled by another client. Waiting.';
    source.before = (step) => {
      if (!step.line.startsWith('fetch')) return undefined;
      step.onProgress({ phase: 'downloading', bytes: { done: 0 }, note });
      return untilAborted(step.call);
    };
    const asked = images.acquire('redis:7', { owner: 'a' });
    await expect(clock.until(asked)).rejects.toMatchObject({
      retryable: true,
      details: { reason: 'stalled' },
      message: expect.stringContaining(`after "${note}"`) as string,
    });
    source.before = () => undefined;
    await clock.advance('10s');
    await expect(images.acquire('redis:7', { owner: 'a' })).resolves.toBeDefined();
  });

  it('S22 slow but moving is no stall', async () => {
    const { images, source, clock } = fixture({ pull: { attempts: 1, stallTimeout: '1m' } });
    source.before = async (step) => {
      if (!step.line.startsWith('fetch')) return;
      for (let done = 1; done < 100; done += 1) {
        step.onProgress({ phase: 'downloading', bytes: { done } });
        await new Promise<void>((resolve) => clock.timer(59 * SECOND, resolve));
      }
    };
    await expect(clock.until(images.acquire('redis:7', { owner: 'a' }))).resolves.toBeDefined();
  });

  it('IC-8 timeout bounds the whole pull, retries included; it belongs to the flight', async () => {
    const { images, source, clock } = fixture({ pull: { timeout: '30s', beginTimeout: '12s' } });
    source.before = hang;
    const both = [images.acquire('redis:7', { owner: 'a' }), images.acquire('redis:7', { owner: 'b' })];
    const results = await clock.until(Promise.allSettled(both));
    for (const result of results) {
      expect(result).toMatchObject({
        reason: { details: { reason: 'timed-out', limit: 'timeout' }, cause: { details: { limit: 'beginTimeout' } } },
      });
    }
    expect(clock.now()).toBe(30 * SECOND);
    expect(clock.pending).toBe(0);
  });

  it('IC-8 a stall is tried again, and a late acquire after it starts a fresh pull', async () => {
    const { images, source, clock } = fixture({ pull: { attempts: 2, beginTimeout: '1m' } });
    source.before = hang;
    await expect(clock.until(images.acquire('redis:7', { owner: 'a' }))).rejects.toMatchObject({
      details: { attempts: 2 },
    });
    source.before = () => undefined;
    await clock.advance(10 * SECOND);
    await expect(images.acquire('redis:7', { owner: 'a' })).resolves.toBeDefined();
    expect(source.count('fetch redis:7')).toBe(3);
  });

  it('IC-8 a source that goes on telling after a limit has passed is told of no second one', async () => {
    const clock = new FakeClock();
    const told: string[] = [];
    const limits = new FetchLimits(clock, { beginTimeout: 10, stallTimeout: 10 }, (limit) => told.push(limit));
    limits.alive('downloading');
    await clock.advance(10);
    limits.alive('downloading');
    await clock.advance(10);
    expect(told).toEqual(['stallTimeout']);
    expect(clock.pending).toBe(0);
  });

  it('S21 a silence that may be long restarts the clock: no abort sooner than that after the next bytes', async () => {
    const { images, source, clock } = fixture({ pull: { attempts: 1, stallTimeout: '1m' } });
    source.before = (step) => {
      if (!step.line.startsWith('fetch')) return undefined;
      const tell = (phase: 'downloading' | 'extracting', done: number) => step.onProgress({ phase, bytes: { done } });
      tell('downloading', 1);
      clock.timer(30 * SECOND, () => tell('extracting', 1));
      clock.timer(30 * SECOND + 5 * MINUTE, () => tell('downloading', 2));
      return untilAborted(step.call);
    };
    const asked = images.acquire('redis:7', { owner: 'a' });
    asked.catch(() => undefined);
    await clock.advance(30 * SECOND + 6 * MINUTE - 1);
    expect(images.explain('redis:7').state).toBe('pulling');
    await clock.advance(1);
    await expect(asked).rejects.toMatchObject({ details: { limit: 'stallTimeout' } });
  });
});
