import { expect, it } from 'vitest';
import { eventLog } from 'handover/testing';

it('G-7 eventLog keeps events in order, as env.onEvent gets them', () => {
  const log = eventLog();
  const reason = { code: 'x', message: 'x', at: 1 };
  const { onEvent } = log;
  onEvent({ type: 'warning', at: 1, subject: 'a', reason });
  onEvent({ type: 'shutdown:phase', at: 2, id: 'a1', phase: 'drain', wait: null });
  expect(log.types()).toEqual(['warning', 'shutdown:phase']);
  expect(log.events[0]).toEqual({ type: 'warning', at: 1, subject: 'a', reason });
});
