import { describe, expect, it } from 'vitest';
import { deferred } from '../../src/internal/deferred.js';

describe('deferred', () => {
  it('settles once, by either end', async () => {
    const good = deferred<number>();
    good.resolve(1);
    good.resolve(2);
    good.reject(new Error('too late'));
    expect(await good.promise).toBe(1);
    const bad = deferred();
    bad.reject('reason');
    bad.resolve();
    await expect(bad.promise).rejects.toBe('reason');
  });

  it('follows a promise that it is resolved with', async () => {
    const outer = deferred<number>();
    const inner = deferred<number>();
    outer.resolve(inner.promise);
    inner.resolve(3);
    expect(await outer.promise).toBe(3);
  });
});
