import { type Clock, systemClock } from 'handover';

/** The system's clock, and how many of its timers are armed. */
export interface CountingClock extends Clock {
  readonly armed: number;
}

export function countingClock(): CountingClock {
  const open = new Set<object>();
  return {
    ...{ now: systemClock.now, wall: systemClock.wall, random: systemClock.random },
    get armed() {
      return open.size;
    },
    timer(ms, fire, o) {
      if (ms === Infinity) return () => undefined;
      const timer = {};
      open.add(timer);
      const ring = (): void => {
        open.delete(timer);
        fire();
      };
      const cancel = systemClock.timer(ms, ring, o);
      return () => {
        open.delete(timer);
        cancel();
      };
    },
  };
}
