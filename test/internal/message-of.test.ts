import { describe, expect, it } from 'vitest';
import { HandoverError } from 'handover';
import { messageOf } from '../../src/internal/message-of.js';

describe('what is said of anything that was caught', () => {
  const unreachable = Object.assign(new AggregateError([new Error('a'), new Error('b')]), { code: 'ECONNREFUSED' });

  it.each([
    [new Error('disk full'), 'disk full'],
    // What `net.connect` rejects with for a name of several addresses.
    [unreachable, 'ECONNREFUSED'],
    [new TypeError(), 'TypeError'],
    ['text', 'text'],
    [undefined, 'undefined'],
    [Object.create(null), 'a thrown object that cannot be shown'],
  ])('G-7 %o: %s', (error, message) => {
    expect(messageOf(error)).toBe(message);
  });

  it('G-6 an error whose cause has no text is JSON all the same', () => {
    const error = new HandoverError('ERR_CLOSED', 'closed', { details: {}, cause: Object.create(null) });

    expect(error.toJSON()).toMatchObject({ cause: 'a thrown object that cannot be shown' });
  });
});
