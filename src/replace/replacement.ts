import type { AllocLifecycle } from '../alloc/lifecycle.js';
import { viewOf } from '../alloc/board.js';
import { NextAllocWatcher } from '../alloc/next.js';
import { PrevAllocWatcher } from '../alloc/previous.js';
import { isBeforeStart, isServing, isTerminal } from '../alloc/states.js';
import type { AllocStop } from '../alloc/stop.js';
import type { AllocStopReport } from '../alloc/types.js';
import { type Ground, resolveEnv } from '../env.js';
import { HandoverError, findError, isHandoverError } from '../errors.js';
import { Emitter } from '../events.js';
import { onAbort } from '../internal/signals.js';
import type { ReplaceSettings } from './options.js';
import type { ReplacePlan } from './plan.js';
import { Timeline } from './timeline.js';
import type { ReplaceResult } from './types.js';

type Settings = Omit<ReplaceSettings, keyof ReplacePlan> & ReplacePlan & { readonly signal: AbortSignal | undefined };
type Up = { readonly error?: unknown };

/**
 * One replacement in progress. It only wires the two lifecycles together, each of which waits for the other by its
 * watcher, and then says what came of it.
 */
export class Replacement {
  readonly #ground: Ground;
  readonly #timeline: Timeline;
  /** Calls the next one's start off. */
  readonly #startCancel = new AbortController();
  #stop: AllocStop | undefined;

  constructor(
    private readonly current: AllocLifecycle | undefined,
    private readonly next: AllocLifecycle,
    private readonly o: Settings,
  ) {
    this.#ground = resolveEnv(next.env);
    this.#timeline = new Timeline(this.#ground.clock, current, next);
  }

  async run(): Promise<ReplaceResult> {
    const dispose: (() => void)[] = [];
    try {
      if (this.current !== undefined) {
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

  /** Brings the next one up to healthy. In start-first order a next one that fails is taken away at once: the gate sees it. */
  async #bringUp(): Promise<void> {
    const { signal } = this.#startCancel;
    try {
      if (this.current === undefined || this.o.order === 'start-first') await this.next.start({ signal });
      else await this.#startAfter(this.current, signal);
      await this.next.until('healthy', { signal });
    } catch (error) {
      if (!findError(error, 'ERR_DETACHED')) await this.#removeNext();
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
    if (isBeforeStart(next.state)) await next.discard();
    else if (!isTerminal(next.state)) await next.stop({ reason: 'unhealthy' }).result;
    if (isTerminal(next.state)) await next.destroy().catch(() => undefined);
  }

  // ── calling it off ──

  async #cancel(): Promise<void> {
    const committed = this.o.order === 'start-first' && this.next.status().reached === 'healthy';
    if (committed) return;
    if (this.#stop !== undefined && this.current?.state !== 'unkillable') {
      if ((await this.#stop.cancel()) === 'too-late') return;
    }
    this.#startCancel.abort(this.#calledOff());
  }

  /** Somebody wants the previous one gone for a reason of its own: a successor that does not serve yet goes with it (AL-5). */
  #onBypass(): void {
    const reason = this.#stop?.reason;
    if (reason === 'replaced' || reason === 'unhealthy' || this.next.status().reached === 'healthy') return;
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
    const stop = await this.#stop?.result;
    switch (stop?.outcome) {
      case 'kept':
      case 'cancelled':
        return this.#kept(stop, up);
      case 'detached':
        return this.#result('detached', this.current, stop);
      case 'stopped':
        if (this.#startCancel.signal.aborted) return this.#ended('stopped', stop, await up);
        break;
      case 'unkillable':
      case undefined:
        break;
    }
    const { error } = await up;
    if (findError(error, 'ERR_DETACHED')) return this.#result('detached', this.next, stop);
    if (error !== undefined) return this.#ended('failed', stop, { error });
    if (this.current !== undefined && isTerminal(this.current.state))
      await this.current.destroy().catch(() => undefined);
    return this.#result('replaced', this.next, stop);
  }

  async #kept(stop: AllocStopReport, up: Promise<Up>): Promise<ReplaceResult> {
    // A next one that failed has said why already; one that is late is called off now.
    this.#startCancel.abort(stop.gate?.cause ?? this.#calledOff());
    const { error } = await up;
    const cause = isHandoverError(error) && !isHandoverError(error, 'ERR_ALLOC_ENDED') ? error : undefined;
    return this.#result('kept-previous', this.current, stop, cause ?? stop.gate?.cause ?? this.#calledOff());
  }

  #ended(outcome: 'stopped' | 'failed', stop: AllocStopReport | undefined, { error }: Up): ReplaceResult {
    const cause = isHandoverError(error) ? error : undefined;
    return this.#result(outcome, undefined, stop, cause);
  }

  #result(
    outcome: ReplaceResult['outcome'],
    serving: AllocLifecycle | undefined,
    stop: AllocStopReport | undefined,
    cause?: HandoverError,
  ): ReplaceResult {
    const facts = {
      outcome,
      ...(cause === undefined ? {} : { cause }),
      ...(stop === undefined ? {} : { stop }),
      ...this.#timeline.close(stop),
    };
    const view = serving && viewOf(serving.status());
    new Emitter<'replace'>(this.#ground).emit('replace:ended', { result: { ...facts, serving: view } });
    return { ...facts, serving };
  }
}
