import { describe, expect, it } from 'vitest';
import { HandoverError } from 'handover';
import { storeError } from '../../src/lmdb/client.js';

describe('storeError', () => {
  it.each([
    'MDB_CORRUPTED: Located page was wrong type',
    'MDB_PAGE_NOTFOUND: Requested page not found',
    'MDB_INVALID: File is not an LMDB file',
    'MDB_VERSION_MISMATCH: Database environment version mismatch',
  ])('ST-1 what LMDB calls damage is ERR_STORE_CORRUPT: %s', (text) => {
    const cause = new Error(text);
    const error = storeError('/state.db', 'read', cause);
    expect(error).toMatchObject({ code: 'ERR_STORE_CORRUPT', details: { path: '/state.db' }, retryable: false, cause });
    expect(error.message).toContain(text);
  });

  it.each([
    { operation: 'write', retryable: true },
    { operation: 'open', retryable: false },
  ])('G-8 the system’s refusal to $operation is ERR_DRIVER, retryable=$retryable', ({ operation, retryable }) => {
    const cause = new Error('No space left on device');
    expect(storeError('/state.db', operation, cause)).toMatchObject({
      ...{ code: 'ERR_DRIVER', details: { driver: 'lmdb', operation, path: '/state.db' }, retryable, cause },
      message: `The store /state.db failed to ${operation}: No space left on device`,
    });
    expect(storeError('/state.db', operation, 'odd').message).toContain('odd');
  });

  it('G-6 an error of ours stays what it is', () => {
    const error = new HandoverError('ERR_CLOSED', 'closed', { details: {} });
    expect(storeError('/state.db', 'read', error)).toBe(error);
  });
});
