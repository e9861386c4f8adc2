import { describe, expect, it } from 'vitest';
import { ALLOC_TABLE, type AllocEvent, type AllocState } from 'handover';
import { isBeforeStart, isServing, isTerminal, meets, reachedGate } from '../../src/alloc/states.js';

const STATES = Object.keys(ALLOC_TABLE) as AllocState[];
const EVENTS = Object.keys(ALLOC_TABLE.pending) as AllocEvent[];
const PAIRS = STATES.flatMap((state) => EVENTS.map((event) => ({ state, event, to: ALLOC_TABLE[state][event] })));
const MOVES = PAIRS.filter(({ state, to }) => to !== state);

/** How far along each state is; no arrow leads back but one that is called off. */
const RANK: Readonly<Record<AllocState, number>> = {
  ...{ pending: 0, prestarting: 1, prepared: 2, waiting: 3, starting: 4, running: 5, held: 6, draining: 7 },
  ...{ stopping: 8, unkillable: 9 },
  ...{ complete: 10, stopped: 10, rejected: 10, failed: 10, lost: 10, discarded: 10 },
};

describe('ALLOC_TABLE', () => {
  it('AL-1 S50: every (state, event) pair is defined and leads to a state', () => {
    expect(STATES).toHaveLength(16);
    expect(STATES.filter((state) => Object.keys(ALLOC_TABLE[state]).length !== EVENTS.length)).toEqual([]);
    expect(PAIRS.filter(({ to }) => !STATES.includes(to))).toEqual([]);
  });

  it('AL-1 S50: the terminal ones absorb every event, and are the only ones that do', () => {
    const absorbing = STATES.filter((state) => EVENTS.every((event) => ALLOC_TABLE[state][event] === state));
    expect(absorbing).toEqual(['complete', 'stopped', 'rejected', 'failed', 'lost', 'discarded']);
    expect(STATES.filter(isTerminal)).toEqual(absorbing);
  });

  it('AL-1 S50: states never go back, but for a hold or a drain that is called off', () => {
    const back = MOVES.filter(({ state, to }) => RANK[to] <= RANK[state]);
    expect(back).toEqual([
      { state: 'held', event: 'callOff', to: 'running' },
      { state: 'draining', event: 'callOff', to: 'running' },
    ]);
  });

  it('AL-1: every state can be reached from pending', () => {
    const reached = new Set<AllocState>(['pending']);
    for (const state of reached) for (const event of EVENTS) reached.add(ALLOC_TABLE[state][event]);
    expect(STATES.filter((state) => !reached.has(state))).toEqual([]);
  });

  it('AL-1: every state that is not an end can end', () => {
    const ends = (from: AllocState): boolean => {
      const seen = new Set<AllocState>([from]);
      for (const state of seen) for (const event of EVENTS) seen.add(ALLOC_TABLE[state][event]);
      return [...seen].some(isTerminal);
    };
    expect(STATES.filter((state) => !ends(state))).toEqual([]);
  });

  it('AL-13: an exit once draining is a clean stop, an exit before is its own doing', () => {
    expect([ALLOC_TABLE.held.exitedBadly, ALLOC_TABLE.held.exitedWell]).toEqual(['failed', 'complete']);
    for (const state of ['draining', 'stopping', 'unkillable'] as const) {
      expect([ALLOC_TABLE[state].exitedBadly, ALLOC_TABLE[state].exitedWell, ALLOC_TABLE[state].lost]).toEqual([
        'stopped',
        'stopped',
        'stopped',
      ]);
    }
  });

  it('AL-1: only what has not been started can be discarded, and only what runs can be held', () => {
    const discardable = STATES.filter((state) => ALLOC_TABLE[state].discard === 'discarded' && !isTerminal(state));
    expect(discardable).toEqual([...STATES.filter(isBeforeStart), 'starting']);
    expect(MOVES.filter(({ event }) => event === 'hold').map(({ state }) => state)).toEqual(['running']);
  });
});

describe('gates', () => {
  it('AL-3: what each state holds', () => {
    const held = Object.fromEntries(
      STATES.map((state) => [state, [reachedGate(state, false), reachedGate(state, true)]]),
    );
    expect(held).toEqual({
      ...{ pending: ['none', 'none'], prestarting: ['none', 'none'] },
      ...{ prepared: ['prepared', 'prepared'], waiting: ['prepared', 'prepared'], starting: ['prepared', 'prepared'] },
      ...{ running: ['prepared', 'healthy'], held: ['prepared', 'healthy'] },
      ...{ draining: ['none', 'none'], stopping: ['none', 'none'], unkillable: ['none', 'none'] },
      ...{ complete: ['none', 'none'], stopped: ['none', 'none'], rejected: ['none', 'none'] },
      ...{ failed: ['none', 'none'], lost: ['none', 'none'], discarded: ['none', 'none'] },
    });
    expect(STATES.filter(isServing)).toEqual(['running', 'held']);
  });

  it('AL-3: a higher gate holds the lower ones', () => {
    const gates = ['none', 'prepared', 'healthy'] as const;
    expect(gates.map((reached) => gates.map((gate) => meets(reached, gate)))).toEqual([
      [true, false, false],
      [true, true, false],
      [true, true, true],
    ]);
  });
});
