import type { AllocLifecycle } from '../alloc/lifecycle.js';
import { isServing, isTerminal } from '../alloc/states.js';
import type { AllocStatus, AllocStopReport } from '../alloc/types.js';
import type { Clock } from '../clock.js';
import type { ReplaceResult, TimelineEntry } from './types.js';

interface Moment {
  readonly wall: number;
  readonly now: number;
}

/** Watches both allocs of a replacement and keeps what happened when. */
export class Timeline {
  readonly #entries: TimelineEntry[] = [];
  readonly #open = new Map<string, { readonly step: string; readonly since: Moment }>();
  readonly #ends: (() => void)[] = [];
  #served: boolean;
  #lostAt: Moment | undefined;
  #backAt: Moment | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly previous: AllocLifecycle | undefined,
    private readonly next: AllocLifecycle,
  ) {
    for (const alloc of [previous, next]) {
      if (alloc === undefined) continue;
      this.#begin(alloc.id, alloc.state);
      this.#ends.push(
        alloc.on('alloc:changed', () => this.#moved(alloc)),
        alloc.on('alloc:health', () => this.#weigh()),
      );
    }
    this.#served = this.#serves();
  }

  /** Ends the watch. */
  close(stop: AllocStopReport | undefined): Pick<ReplaceResult, 'timeline' | 'outage'> {
    for (const end of this.#ends) end();
    for (const [id, { step, since }] of this.#open) this.#finish(id, step, since);
    // Of what came at the same time, the steps of the stop lead to the states.
    const timeline = [...this.#steps(stop), ...this.#entries].sort((a, b) => a.at - b.at);
    if (this.#lostAt === undefined) return { timeline };
    const ms = (this.#backAt?.now ?? this.clock.now()) - this.#lostAt.now;
    return { timeline, outage: { from: this.#lostAt.wall, ms } };
  }

  #steps(stop: AllocStopReport | undefined): readonly TimelineEntry[] {
    const id = this.previous?.id ?? '';
    const phases = stop?.tasks.flatMap((report) => report.phases) ?? [];
    return phases
      .filter(({ result }) => result !== 'skipped')
      .map(({ phase, at, ms }) => ({ at, id, step: `stop: ${phase}`, ms }));
  }

  #moved(alloc: AllocLifecycle): void {
    const open = this.#open.get(alloc.id);
    if (open !== undefined) this.#finish(alloc.id, open.step, open.since);
    this.#open.delete(alloc.id);
    if (isTerminal(alloc.state)) this.#finish(alloc.id, alloc.state, this.#moment());
    else this.#begin(alloc.id, alloc.state);
    this.#weigh();
  }

  /** Whether service has just been lost, or has come back. The first loss and the last return count. */
  #weigh(): void {
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
    return [this.previous, this.next].some((alloc) => alloc !== undefined && canBeReached(alloc.status(), alloc));
  }

  #begin(id: string, step: string): void {
    this.#open.set(id, { step, since: this.#moment() });
  }

  #finish(id: string, step: string, since: Moment): void {
    this.#entries.push({ at: since.wall, id, step, ms: this.clock.now() - since.now });
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
