import { FakeClock } from 'handover/testing';
import { describe, expect, it } from 'vitest';
import { Ledger } from '../../src/image/ledger.js';
import { moody } from './lives.js';

describe('IC-21 a write that failed', () => {
  it('what was noted meanwhile is newer than what it had under the same key', async () => {
    const clock = new FakeClock();
    const mood = moody();
    const ledger = new Ledger({ clock, store: mood.store, source: { id: 's' }, warn: () => undefined });
    mood.state.mood = async () => {
      ledger.note('image/s/content/x', () => ({ now: 'held' }));
      throw new Error('disk on fire');
    };
    ledger.note('image/s/content/x', () => undefined);
    await expect(ledger.settled()).rejects.toMatchObject({ code: 'ERR_DRIVER' });
    mood.mend();
    await clock.advance('2m');
    expect(await mood.store.list('')).toEqual([['image/s/content/x', { now: 'held' }]]);
  });
});
