import type { AllocLifecycle, HandoverEvent } from 'handover';

/** Where the two updates take place: what is started, and how it is cleared away. */
export interface World {
  /** What the client asks for. */
  readonly url: string;
  /** What is updated, in a few words. */
  readonly what: string;
  /** Version 1 for one run, not started yet. `run` keeps the two runs apart. */
  previous(run: string): AllocLifecycle;
  /** Version 2 for one run; its content is not there yet. */
  next(run: string): AllocLifecycle;
  /** After one run: nothing of it is left, version 2's content included. */
  reset(): Promise<void>;
  /** Nothing is left at all. */
  end(): Promise<void>;
}

/** Told of every event of every primitive. */
export type OnEvent = (event: HandoverEvent) => void;

/** How long a version may take from its start until it answers. */
export const HEALTHY_DEADLINE = '30s';

/** Short times, so that nobody has to wait for a demo. */
export const HEALTH = { minHealthyTime: '300ms', healthyDeadline: HEALTHY_DEADLINE } as const;
