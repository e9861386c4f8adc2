import type { AllocLifecycle } from '../alloc/lifecycle.js';
import { viewOf } from '../alloc/board.js';
import { messageOf } from '../internal/message-of.js';
import { NextAllocWatcher } from '../alloc/next.js';
import { PrevAllocWatcher } from '../alloc/previous.js';
import { isBeforeStart, isServing, isTerminal } from '../alloc/states.js';
import type { AllocStop } from '../alloc/stop.js';
import type { AllocState, AllocStopReport } from '../alloc/types.js';
import { type Ground, resolveEnv } from '../env.js';
import { HandoverError, findError, isHandoverError } from '../errors.js';
import { Emitter } from '../events.js';
import { deferred } from '../internal/deferred.js';
import { onAbort, withDeadline } from '../internal/signals.js';
import { becauseOf, causeOf, whyKept } from './cause.js';
import type { ReplaceSettings } from './options.js';
import type { ReplacePlan } from './plan.js';
import { Timeline } from './timeline.js';
import type { ReplaceResult } from './types.js';

type Settings = Omit<ReplaceSettings, keyof ReplacePlan> &
  ReplacePlan & {
    /** The previous one, if nobody has touched it: there is nothing to stop, but perhaps something to remove. */
    readonly untouched: AllocLifecycle | undefined;
  };
type Up = { readonly error?: unknown };

/**
 * How long a registry that does not take what serves is waited for: the previous one, before a next one that was lost
 * again is removed, and the next one, before it is told that it serves.
 */
const REGISTER_MS = 60_000;

/** What a cancel finds the previous alloc in: too late, never too late, or it depends on the next one. */
const COMMITTED: Readonly<Partial<Record<AllocState, boolean | 'once-next-starts'>>> = {
  stopping: true,
  stopped: true,
  // There is no way back, but the next one need not be waited for any longer.
  unkillable: false,
  complete: 'once-next-starts',
  failed: 'once-next-starts',
  lost: 'once-next-starts',
};

/**
 * One replacement in progress. It only wires the two lifecycles together, each of which waits for the other by its
 * watcher, and then says what came of it.
 */
export class Replacement {
  readonly #ground: Ground;
  readonly #emitter: Emitter<'replace'>;
  readonly #timeline: Timeline;
  /** Calls the next one's start off. */
  readonly #startCancel = new AbortController();
  #stop: AllocStop | undefined;
  /** Somebody wants the previous one gone for a reason of its own, and the next one not either. */
  #unwanted = false;
  /** Of which allocs something is left. */
  readonly #remains = new Set<string>();

  constructor(
    private readonly current: AllocLifecycle | undefined,
    private readonly next: AllocLifecycle,
    private readonly o: Settings,
  ) {
    this.#ground = resolveEnv(next.env);
    this.#emitter = new Emitter(this.#ground);
    this.#timeline = new Timeline(this.#ground.clock, current, next);
  }

  async run(): Promise<ReplaceResult> {
    if (this.o.signal?.aborted === true) return this.#neverBegun();
    const dispose: (() => void)[] = [];
    try {
      if (this.current !== undefined && isServing(this.current.state)) {
        const { gate, gateDeadline: deadline, onNextFailed: onFailed } = this.o;
        const after = new NextAllocWatcher(this.next, { gate, deadline, onFailed }, this.next.env);
        this.#stop = this.current.beginStop({ reason: 'replaced', after });
        dispose.push(this.#stop.onBypass(() => this.#onBypass()));
      }
      dispose.push(onAbort(this.o.signal, () => void this.#cancel()));
      const up = this.#bringUp().then(
        (): Up => ({}),
        (error: unknown): Up => ({ error }),
      );
      return await this.#conclude(up);
    } finally {
      for (const end of dispose) end();
    }
  }

  // ── what the next one does ──

  /** Brings the next one up to good health. A next one that fails is taken away at once: the gate sees it. */
  async #bringUp(): Promise<void> {
    const { signal } = this.#startCancel;
    try {
      if (this.current === undefined || this.o.order === 'start-first') await this.next.start({ signal });
      else await this.#startAfter(this.current, signal);
      // Registered too is for the gate to ask. A registry that does not answer is no reason to take it away again.
      await this.next.judged({ signal });
    } catch (error) {
      // Let go of: the previous one is not stopped for a successor that nobody brings up.
      if (findError(error, 'ERR_DETACHED')) void this.#stop?.cancel();
      else await this.#removeNext();
      throw error;
    }
  }

  async #startAfter(current: AllocLifecycle, signal: AbortSignal): Promise<void> {
    try {
      await this.next.start({ signal, after: new PrevAllocWatcher(current, {}, this.next.env) });
    } catch (error) {
      if (!isHandoverError(error, 'ERR_PREVIOUS_RUNNING')) throw error;
      // Its time is up. Before its first signal its stop is called off; after it there is no way back, and the next one
      // starts whenever the previous one ends (AL-2).
      if (isServing(current.state) || (await this.#stop?.cancel()) === 'cancelled') throw error;
      await this.next.start({ signal, after: new PrevAllocWatcher(current, { deadline: 'never' }, this.next.env) });
    }
  }

  async #removeNext(): Promise<void> {
    const { next } = this;
    if (isBeforeStart(next.state)) await this.#discard(next);
    else if (!isTerminal(next.state)) await next.stop({ reason: 'unhealthy' }).result;
    if (isTerminal(next.state)) await this.#destroy(next);
    else if (!next.life.aborted) this.#warnOfRemains(next, `it is ${next.state}`);
  }

  async #destroy(alloc: AllocLifecycle): Promise<void> {
    try {
      await alloc.destroy();
    } catch (error) {
      this.#warnOfRemains(alloc, messageOf(error));
    }
  }

  async #discard(alloc: AllocLifecycle): Promise<void> {
    try {
      await alloc.discard();
    } catch (error) {
      if (!alloc.life.aborted) this.#warnOfRemains(alloc, messageOf(error));
    }
  }

  #warnOfRemains({ id }: AllocLifecycle, why: string): void {
    this.#remains.add(id);
    const message = `What is left of alloc ${id} could not be removed; destroy() it again: ${why}`;
    this.#emitter.warn(`alloc ${id}`, { code: 'remains', message });
  }

  // ── calling it off ──

  async #cancel(): Promise<void> {
    if (this.next.status().reached === 'healthy' && this.o.order === 'start-first') return;
    const called =
      this.#stop !== undefined && this.current?.state !== 'unkillable' ? await this.#stop.cancel() : undefined;
    if (called !== 'cancelled' && this.#committed) return;
    this.#startCancel.abort(this.#calledOff());
  }

  /** Whether the commit point of RO-1 has been passed, so that there is no going back. */
  get #committed(): boolean {
    const verdict = this.current === undefined ? false : (COMMITTED[this.current.state] ?? false);
    if (verdict !== 'once-next-starts') return verdict;
    return this.o.order === 'stop-first' && !isBeforeStart(this.next.state);
  }

  /** A successor that does not serve yet goes with the previous one (AL-5); as the cure of an unhealthy one it stays. */
  #onBypass(): void {
    const reason = this.#stop?.reason;
    if (reason === 'replaced' || reason === 'unhealthy' || this.next.status().reached === 'healthy') return;
    this.#unwanted = true;
    this.#startCancel.abort(this.#calledOff());
  }

  #calledOff(): HandoverError {
    const { next, o } = this;
    const cause: unknown = o.signal?.reason;
    const message = `The replacement by alloc ${next.id} was called off`;
    return new HandoverError('ERR_GATE_MISSED', message, {
      details: { allocId: next.id, gate: o.gate, state: next.state },
      ...(cause === undefined ? {} : { cause }),
    });
  }

  // ── what came of it ──

  async #conclude(up: Promise<Up>): Promise<ReplaceResult> {
    const { next } = this;
    const stop = await this.#stop?.result;
    if (stop?.outcome === 'detached') return this.#result('detached', stop);
    const kept = stop?.outcome === 'kept' || stop?.outcome === 'cancelled';
    // A next one that failed has said why already; one that is late is called off now, also when the previous one has
    // ended meanwhile.
    if (kept || this.#missed(stop)) this.#startCancel.abort(whyKept(stop) ?? this.#calledOff());
    const { error } = await this.#unlessLetGo(up);
    if (findError(error, 'ERR_DETACHED') || next.life.aborted) return this.#result('detached', stop);
    if (kept) {
      // It may have come up, and been lost again. Unhealthy or not, it may be all that clients still reach.
      const { unregistered } = next;
      if (isServing(next.state) && this.current !== undefined) await this.#registered(this.current);
      if (!this.#letGo()) await this.#removeNext();
      // Of one that is let go of nothing is undone (G-4).
      if (this.#letGo()) return this.#result('detached', stop);
      const cause = causeOf(error, stop) ?? this.#calledOff();
      return this.#result(this.#keptAs(), stop, becauseOf(cause, unregistered));
    }
    if (error !== undefined) {
      const stopped = this.#unwanted && stop?.outcome === 'stopped';
      return this.#result(stopped ? 'stopped' : 'failed', stop, isHandoverError(error) ? error : undefined);
    }
    return this.#replaced(stop);
  }

  /** The previous one is removed, unless the next one was lost before; afterwards it may be lost as well. */
  async #replaced(stop: AllocStopReport | undefined): Promise<ReplaceResult> {
    for (let cleared = false; ; cleared = true) {
      const lost = await this.#lostSince();
      if (lost !== undefined) return this.#result(findError(lost, 'ERR_DETACHED') ? 'detached' : 'failed', stop, lost);
      if (cleared && isServing(this.next.state)) return this.#result('replaced', stop, this.next.unregistered);
      if (cleared) continue;
      await this.#clearPrevious();
      await this.#registered(this.next);
    }
  }

  async #clearPrevious(): Promise<void> {
    const { current, o } = this;
    if (o.untouched?.state === 'pending') await this.#discard(o.untouched);
    if (current === undefined) return;
    if (isTerminal(current.state)) await this.#destroy(current);
    else this.#warnOfRemains(current, `it is ${current.state}`);
  }

  #letGo(): boolean {
    return [this.next, this.current].some((alloc) => alloc?.life.aborted);
  }

  /** One of them is in the registry, or it was waited for long enough. */
  async #registered(alloc: AllocLifecycle): Promise<void> {
    const { clock } = this.#ground;
    const late = (): Error => new Error(`not registered in ${REGISTER_MS} ms`);
    // It may have ended meanwhile, or the registry may be down for long: what was to come after it comes all the same.
    await withDeadline(clock, REGISTER_MS, this.next.life, late, (signal) => alloc.reinstated({ signal })).catch(
      () => undefined,
    );
  }

  /** One that cannot be killed may be let go of while the next one waits for it: then nobody sees its end any more. */
  async #unlessLetGo(up: Promise<Up>): Promise<Up> {
    const { current } = this;
    const gone = deferred<Up>();
    const dispose = onAbort(current?.life, (error) => {
      if (current !== undefined && !isTerminal(current.state)) gone.resolve({ error });
    });
    try {
      return await Promise.race([up, gone.promise]);
    } finally {
      dispose();
    }
  }

  /** Cancelled before it began: the previous one is not so much as held. */
  async #neverBegun(): Promise<ReplaceResult> {
    if (this.next.life.aborted) return this.#result('detached', undefined);
    await this.#removeNext();
    const kept = this.current !== undefined && isServing(this.current.state);
    return this.#result(kept ? 'kept-previous' : 'failed', undefined, this.#calledOff());
  }

  #missed(stop: AllocStopReport | undefined): stop is AllocStopReport {
    return this.o.onNextFailed === 'keep' && stop?.gate?.outcome === 'deadline';
  }

  /** The previous one was kept, unless it has ended or was told to end since. */
  #keptAs(): 'kept-previous' | 'stopped' | 'failed' {
    const { current } = this;
    if (current?.stopping !== undefined) return 'stopped';
    return current !== undefined && isServing(current.state) ? 'kept-previous' : 'failed';
  }

  /** The next one came up, and was lost, stopped or let go of before the previous one had ended. */
  async #lostSince(): Promise<HandoverError | undefined> {
    try {
      await this.next.until('running');
      return undefined;
    } catch (error) {
      if (!findError(error, 'ERR_DETACHED')) await this.#removeNext();
      return error as HandoverError;
    }
  }

  /** Whoever serves now; the next one goes before the previous. */
  #serving(): AllocLifecycle | undefined {
    return [this.next, this.current].find((alloc) => alloc !== undefined && isServing(alloc.state));
  }

  #result(outcome: ReplaceResult['outcome'], stop: AllocStopReport | undefined, cause?: HandoverError): ReplaceResult {
    const serving = this.#serving();
    const facts = {
      outcome,
      ...(cause === undefined ? {} : { cause }),
      ...(stop === undefined ? {} : { stop }),
      ...(this.#remains.size > 0 && { remains: [...this.#remains] }),
      ...this.#timeline.close(stop),
    };
    const view = serving && viewOf(serving.status());
    this.#emitter.emit('replace:ended', { result: { ...facts, serving: view } });
    return { ...facts, serving };
  }
}
