import { describe, expect, it } from 'vitest';
import { Machine, type Table, completeTable } from '../../src/internal/machine.js';

type State = 'closed' | 'open' | 'gone';
type Event = 'push' | 'pull' | 'burn';

const DOOR = {
  closed: { push: 'open', burn: 'gone' },
  open: { push: 'open', pull: 'closed', burn: 'gone' },
  gone: {},
} as const satisfies Table<State, Event>;

const door = (moves: unknown[] = []): Machine<State, Event> => {
  const machine: Machine<State, Event> = new Machine<State, Event>(DOOR, 'closed', (from, to, event) =>
    moves.push([from, event, to, machine.state]),
  );
  return machine;
};

describe('Machine', () => {
  it('AL-1 moves along the arrows of its table, and tells when the new state can be read', () => {
    const moves: unknown[] = [];
    const machine = door(moves);
    expect([machine.send('push'), machine.send('pull'), machine.send('burn')]).toEqual([true, true, true]);
    expect(moves).toEqual([
      ['closed', 'push', 'open', 'open'],
      ['open', 'pull', 'closed', 'closed'],
      ['closed', 'burn', 'gone', 'gone'],
    ]);
  });

  it.each<[Event[], State, Event]>([
    [[], 'closed', 'pull'],
    [['push'], 'open', 'push'],
    [['burn'], 'gone', 'push'],
    [['burn'], 'gone', 'burn'],
  ])(
    'AL-1 what is not an arrow, or leads nowhere else, changes and tells nothing: %j %s %s',
    (before, state, event) => {
      const moves: unknown[] = [];
      const machine = door(moves);
      before.forEach((one) => machine.send(one));
      moves.length = 0;
      expect([machine.send(event), machine.state, moves]).toEqual([false, state, []]);
    },
  );
});

describe('completeTable', () => {
  it('AL-1 has every pair of state and event; what was not named stays', () => {
    expect(completeTable<State, Event>(DOOR)).toEqual({
      closed: { push: 'open', pull: 'closed', burn: 'gone' },
      open: { push: 'open', pull: 'closed', burn: 'gone' },
      gone: { push: 'gone', pull: 'gone', burn: 'gone' },
    });
  });
});
