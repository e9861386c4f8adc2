import type { AllocLifecycle } from '../alloc/lifecycle.js';
import { isServing } from '../alloc/states.js';
import type { AllocStatus, AllocStopReport } from '../alloc/types.js';
import type { Clock } from '../clock.js';
import type { ReplaceResult, TimelineEntry } from './types.js';

interface Moment {
  readonly wall: number;
  readonly now: number;
}

/** A step that may still go on: its length is known when it ends. */
type Step = Omit<TimelineEntry, 'ms'> & { ms: number };

/** Watches both allocs of a replacement and keeps what happened when. */
export class Timeline {
  readonly #steps: Step[] = [];
  /** Ends the step that an alloc is in. */
  readonly #finish = new Map<string, () => void>();
  /** As of the latest event, which may be told later than it happens. */
  readonly #latest = new Map<AllocLifecycle, AllocStatus>();
  readonly #ends: (() => void)[] = [];
  #served: boolean;
  #lostAt: Moment | undefined;
  #backAt: Moment | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly previous: AllocLifecycle | undefined,
    next: AllocLifecycle,
  ) {
    for (const alloc of [previous, next]) {
      if (alloc === undefined) continue;
      this.#latest.set(alloc, alloc.status());
      this.#enter(alloc.status());
      this.#ends.push(
        alloc.on('alloc:changed', ({ alloc: status }) => {
          this.#enter(status);
          this.#weigh(alloc, status);
        }),
        alloc.on('alloc:health', ({ alloc: status }) => this.#weigh(alloc, status)),
      );
    }
    this.#served = this.#serves();
  }

  /** Ends the watch. */
  close(stop: AllocStopReport | undefined): Pick<ReplaceResult, 'timeline' | 'outage'> {
    for (const end of this.#ends) end();
    for (const finish of this.#finish.values()) finish();
    // Of what began at the same time, the phases of the stop lead to the states.
    const timeline = [...this.#phases(stop), ...this.#steps].sort((a, b) => a.at - b.at);
    if (this.#lostAt === undefined) return { timeline };
    const ms = (this.#backAt?.now ?? this.clock.now()) - this.#lostAt.now;
    return { timeline, outage: { from: this.#lostAt.wall, ms, ...(this.#backAt === undefined && { open: true }) } };
  }

  #phases(stop: AllocStopReport | undefined): readonly TimelineEntry[] {
    const id = this.previous?.id ?? '';
    const phases = stop?.tasks.flatMap((report) => report.phases) ?? [];
    return phases
      .filter(({ result }) => result !== 'skipped')
      .map(({ phase, at, ms }) => ({ at, id, step: `stop: ${phase}`, ms }));
  }

  #enter({ id, state, terminal }: AllocStatus): void {
    this.#finish.get(id)?.();
    const { wall, now } = this.#moment();
    const step: Step = { at: wall, id, step: state, ms: 0 };
    this.#steps.push(step);
    // An end takes no time.
    this.#finish.set(id, () => (step.ms = terminal ? 0 : this.clock.now() - now));
  }

  /** Whether service has just been lost, or has come back. The first loss and the last return count. */
  #weigh(alloc: AllocLifecycle, status: AllocStatus): void {
    this.#latest.set(alloc, status);
    const serves = this.#serves();
    if (serves === this.#served) return;
    this.#served = serves;
    if (serves) this.#backAt = this.#moment();
    else {
      this.#lostAt ??= this.#moment();
      this.#backAt = undefined;
    }
  }

  #serves(): boolean {
    return [...this.#latest].some(([alloc, status]) => canBeReached(status, alloc));
  }

  #moment(): Moment {
    return { wall: this.clock.wall(), now: this.clock.now() };
  }
}

/**
 * Whether clients get an answer from the alloc, as far as we can tell: it is registered where it has services, passes
 * where it has checks, or else simply runs. Without services it serves up to its first signal.
 */
function canBeReached({ state, registered, health }: AllocStatus, { env, spec }: AllocLifecycle): boolean {
  if (!isServing(state) && state !== 'draining') return false;
  if (env.registrar !== undefined && (spec.services ?? []).length > 0) return registered.length > 0;
  return (spec.health?.checks ?? []).length === 0 || health === 'passing';
}
