import type { TaskHandle } from '../driver/driver.js';
import type { Ground, Wait } from '../env.js';
import type { ExitResult, ShutdownBudget, ShutdownRun, ShutdownTarget, StopReason } from '../shutdown/types.js';
import type { Why } from './board.js';
import { type AllocParts, budgetOf } from './parts.js';
import type { AllocEvent } from './states.js';
import type { AllocState } from './types.js';

/** What a stop does to its alloc. */
export interface StopPorts {
  readonly id: string;
  readonly ground: Ground;
  readonly budget: ShutdownBudget;
  /** Aborts when the alloc is let go of. */
  readonly life: AbortSignal;
  readonly state: () => AllocState;
  /** What the alloc waits for by itself. */
  readonly wait: () => Wait | null;
  send(event: AllocEvent, why: Why, wait?: Wait): void;
  /** Ends an alloc that has not been started. */
  discard(): Promise<void>;
  /** Settles when a start in progress has. */
  started(): Promise<void>;
  /** Calls a start in progress off. */
  callOffStart(): void;
  /** What is running. */
  target(): ShutdownTarget;
  /** Hands the target to the sequencer. */
  sequence(target: ShutdownTarget, reason: StopReason): ShutdownRun;
  /** The task has ended; `undefined`: how is not known. */
  exited(exit: ExitResult | undefined): void;
  /** The stop is over and the alloc runs on: it can be stopped again. */
  calledOff(): void;
}

/**
 * Gives one stop what it works with.
 *
 * @param calledOff - told when it is over and the alloc runs on
 */
export function stopPorts(parts: AllocParts, calledOff: () => void): StopPorts {
  const { id, ground, board, task, services, sequencer, launch, upkeep, life } = parts;
  return {
    ...{ id, ground, budget: budgetOf(parts), life: life.signal },
    state: () => board.state,
    wait: () => board.status.wait,
    send: (event, why, wait) => send(parts, event, why, wait),
    discard: () => launch.discard(),
    started: () => launch.settled(),
    callOffStart: () => launch.callOffStart(),
    target: () => task.handle as TaskHandle,
    sequence: (target, reason) => sequencer.run(target, { services: services.standing, reason }),
    exited: (exit) => upkeep.exited(exit),
    calledOff: () => {
      calledOff();
      upkeep.calledOff();
    },
  };
}

function send({ board, task, upkeep }: AllocParts, event: AllocEvent, why: Why, wait?: Wait): void {
  const told = event === 'signal';
  if (told) upkeep.told();
  board.send(event, why, {
    peers: { ...board.status.peers, ...(wait?.on !== undefined && { next: wait.on }) },
    wait: wait ?? (event === 'callOff' ? upkeep.wait : null),
    ...(told && { tasks: { [task.name]: { phase: 'stopping' } } }),
  });
}
