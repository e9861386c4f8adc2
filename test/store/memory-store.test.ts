import { describe, expect, it } from 'vitest';
import { describeStateStore, memoryStore } from 'handover/testing';

describeStateStore('memoryStore', { runner: { describe, it }, make: async () => memoryStore([['other', 1]]) });

describe('memoryStore', () => {
  it('ST-1 begins with what it is given, and counts the batches that were made', async () => {
    const entries: [string, unknown][] = [
      ['b', [1]],
      ['a', null],
    ];
    const store = memoryStore(entries);
    (entries[0]![1] as number[]).push(2);
    expect(await store.list('')).toEqual([
      ['a', null],
      ['b', [1]],
    ]);
    expect(store.batches).toBe(0);
    await store.batch([{ del: 'a' }, { del: 'b' }]);
    await store.batch([]);
    await expect(store.batch([{ put: 'a', value: undefined }])).rejects.toThrow('ops.0.value');
    expect(store.batches).toBe(2);
  });

  it('ST-1 a batch takes effect at once, so that a process that is killed then has written it', async () => {
    const store = memoryStore();
    void store.batch([{ put: 'a', value: 1 }]);
    expect(await store.list('')).toEqual([['a', 1]]);
  });

  it('ST-1 begins with nothing that no store can have', () => {
    expect(() => memoryStore([['', 1]])).toThrow(expect.objectContaining({ code: 'ERR_INVALID_OPTION' }));
    expect(() => memoryStore([['a', NaN]])).toThrow('of the key "a" is not JSON: it is NaN');
  });
});
