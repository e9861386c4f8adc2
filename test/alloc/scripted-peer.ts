import type { AllocPeer, AllocState, AllocView, Call, Gate, Sighting } from 'handover';
import { abortable } from '../../src/internal/signals.js';
import { isTerminal } from '../../src/alloc/states.js';

/** What one subscription to a scripted peer does, in order. */
export type Step =
  | AllocView
  | 'absent'
  | 'unreachable'
  /** The feed throws. */
  | 'throw'
  /** The feed ends. */
  | 'end'
  /** The feed says nothing more, but listens to its signal. */
  | 'hang'
  /** The feed says nothing more, whatever happens. */
  | 'deaf';

let revisions = 0;

/** A view of an alloc in a state; each one is newer than the one before. */
export function view(state: AllocState, more: Partial<AllocView> & { readonly reached?: Gate } = {}): AllocView {
  return {
    ...{ id: 'peer', state, reached: 'none', terminal: isTerminal(state), stopBudget: 20_000 },
    ...{ revision: ++revisions, exclusive: [], ...more },
  };
}

/** A peer that follows a script: one list of steps for each subscription; the last one is repeated. */
export function scriptedPeer(...subscriptions: readonly (readonly Step[])[]) {
  const state = { watched: 0, open: 0 };
  const wake: (() => void)[] = [];
  const peer: AllocPeer = {
    id: 'peer',
    async *watch({ signal }: Call): AsyncGenerator<Sighting, void, undefined> {
      const steps = subscriptions[Math.min(state.watched++, subscriptions.length - 1)] ?? [];
      state.open++;
      try {
        for (const step of steps) {
          if (step === 'throw') throw new Error('the feed broke');
          if (step === 'end') return;
          if (step === 'deaf') await new Promise(() => undefined);
          else if (step === 'hang') await abortable(new Promise<never>(() => undefined), signal);
          else {
            yield { seen: step };
            // The next one comes when the test says so.
            await abortable(new Promise<void>((resolve) => wake.push(resolve)), signal);
          }
        }
        await abortable(new Promise<never>(() => undefined), signal);
      } finally {
        state.open--;
      }
    },
  };
  return {
    peer,
    /** Subscriptions so far, and those that are still open. */
    state,
    /** Lets the next step happen. */
    async next(): Promise<void> {
      await turn();
      wake.shift()?.();
      await turn();
    },
  };
}

/** Lets every promise callback run that can. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
