import type { Call } from '../call.js';
import { Deadline } from '../clock.js';
import type { Ground, Wait } from '../env.js';
import { HandoverError } from '../errors.js';
import { linkSignals } from '../internal/signals.js';
import type {
  ShutdownBudget,
  ShutdownReport,
  ShutdownRun,
  ShutdownTarget,
  StopPhase,
  StopReason,
  StopRun,
} from '../shutdown/types.js';
import type { Why } from './board.js';
import type { NextAllocWatcher } from './next.js';
import { type AllocEvent, isBeforeStart, isTerminal } from './states.js';
import type { AllocState, AllocStopReport, NextOutcome } from './types.js';

/** What a stop does to its alloc. */
export interface StopPorts {
  readonly id: string;
  readonly ground: Ground;
  readonly budget: ShutdownBudget;
  /** Aborts when the alloc is let go of. */
  readonly life: AbortSignal;
  state(): AllocState;
  send(event: AllocEvent, why: Why, wait?: Wait): void;
  /** Ends an alloc that has not been started. */
  discard(): Promise<void>;
  /** Settles when a start in progress has. */
  started(): Promise<void>;
  /** What is running. */
  target(): ShutdownTarget;
  /** Hands the target to the sequencer. */
  sequence(target: ShutdownTarget, reason: StopReason): ShutdownRun;
  /** The stop is over and the alloc runs on: it can be stopped again. */
  calledOff(): void;
}

const ENDED = { code: 'ended', message: 'It has ended' } as const;
const BYPASSED = Symbol('bypassed');
const CANCELLED = Symbol('cancelled');

/**
 * One stop of an alloc: held until its successor has reached the gate, if it is because of a replacement (AL-3), then
 * handed to the shutdown sequencer, which every stop goes through (SS-15).
 */
export class AllocStop implements StopRun<AllocStopReport> {
  readonly id: string;
  readonly budget: ShutdownBudget;
  readonly result: Promise<AllocStopReport>;
  readonly #hold = new AbortController();
  readonly #bypassListeners = new Set<() => void>();
  #reason: StopReason;
  #run: ShutdownRun | undefined;
  #holding: Wait | null = null;
  #over = false;
  #skipDelay = false;
  #killNow = false;
  /** The successor whose gate binds this stop; none once it was bypassed. */
  #after: NextAllocWatcher | undefined;
  #lost: NextOutcome | undefined;

  constructor(
    private readonly ports: StopPorts,
    o: { readonly reason: StopReason; readonly after: NextAllocWatcher | undefined },
  ) {
    this.id = ports.id;
    this.budget = ports.budget;
    this.#reason = o.reason;
    this.#after = o.after;
    this.result = this.#stop();
  }

  /** Why it is stopped; a bypass changes it. */
  get reason(): StopReason {
    return this.#reason;
  }

  get phase(): StopPhase {
    return this.#over ? 'done' : (this.#run?.phase ?? 'held');
  }

  get wait(): Wait | null {
    return this.#over ? null : (this.#run?.wait ?? this.#holding);
  }

  skipDelay(): void {
    this.#skipDelay = true;
    this.#run?.skipDelay();
  }

  escalate(): void {
    if (this.#run === undefined) this.bypass(this.#reason);
    else this.#run.escalate();
  }

  killNow(): void {
    this.#killNow = true;
    this.bypass(this.#reason);
    this.#run?.killNow();
  }

  async cancel(): Promise<'cancelled' | 'too-late'> {
    if (this.#over) return 'too-late';
    if (this.#run === undefined) this.#hold.abort(CANCELLED);
    else if ((await this.#run.cancel()) === 'too-late') return 'too-late';
    const { outcome } = await this.result;
    return outcome === 'cancelled' || outcome === 'kept' ? 'cancelled' : 'too-late';
  }

  /** Goes on without the successor: the alloc is wanted gone for a reason of its own (AL-5). */
  bypass(reason: StopReason): void {
    if (this.#over) return;
    this.#reason = reason;
    this.#after = undefined;
    this.#hold.abort(BYPASSED);
    for (const listener of this.#bypassListeners) listener();
  }

  /** Told, synchronously, when a stop because of a replacement becomes one for another reason. */
  onBypass(listener: () => void): () => void {
    this.#bypassListeners.add(listener);
    return () => this.#bypassListeners.delete(listener);
  }

  async #stop(): Promise<AllocStopReport> {
    try {
      // A turn for the caller to get hold of the run before anything happens.
      await Promise.resolve();
      if (isBeforeStart(this.ports.state())) await this.ports.discard();
      else await this.ports.started();
      const gate = await this.#heldBack();
      if (typeof gate === 'string') return { outcome: gate, tasks: [] };
      if (isTerminal(this.ports.state())) return { outcome: 'stopped', ...(gate && { gate }), tasks: [] };
      if (gate !== undefined && this.#after?.onFailed === 'keep' && isMiss(gate))
        return this.#callOff('kept', gate, []);
      return await this.#sequence(gate);
    } finally {
      this.#over = true;
    }
  }

  /** Waits for the successor. `undefined`: there was nothing to wait for. */
  async #heldBack(): Promise<NextOutcome | 'detached' | 'cancelled' | undefined> {
    if (this.#hold.signal.reason === CANCELLED) return this.#cancelled();
    const after = this.#after;
    if (after === undefined || isTerminal(this.ports.state())) return undefined;
    const { clock } = this.ports.ground;
    const started = clock.now();
    this.#holding = {
      for: 'successor',
      since: clock.wall(),
      until: new Deadline(clock, after.patience).wall,
      on: after.next.id,
      why: `Serves on until alloc ${after.next.id} is ${after.gate}`,
    };
    this.ports.send('hold', { code: this.#reason, message: this.#holding.why }, this.#holding);
    const link = linkSignals(this.#hold.signal, this.ports.life);
    try {
      return await after.wait({ signal: link.signal });
    } catch (reason) {
      if (reason === CANCELLED) return this.#cancelled();
      if (reason === BYPASSED) return { outcome: 'bypassed', waited: clock.now() - started };
      return 'detached';
    } finally {
      this.#holding = null;
      link.dispose();
    }
  }

  async #sequence(gate: NextOutcome | undefined): Promise<AllocStopReport> {
    this.ports.send('drain', { code: this.#reason, message: `It is stopped: ${this.#reason}` });
    this.#run = this.ports.sequence(this.#guarded(this.ports.target()), this.#reason);
    if (this.#skipDelay) this.#run.skipDelay();
    if (this.#killNow) this.#run.killNow();
    const report = await this.#run.result;
    const tasks = [report];
    switch (report.outcome) {
      case 'cancelled':
        return this.#callOff(this.#lost === undefined ? 'cancelled' : 'kept', this.#lost ?? gate, tasks);
      case 'unkillable':
        this.ports.send('unkillable', {
          code: 'unkillable',
          message: 'It was killed and has not ended; it is watched',
        });
        return { outcome: 'unkillable', ...(gate && { gate }), tasks };
      case 'detached':
        return { outcome: 'detached', ...(gate && { gate }), tasks };
      case 'exited':
      case 'forced':
      case 'already-gone':
        this.ports.send('exitedWell', ENDED);
        return { outcome: 'stopped', ...(gate && { gate }), tasks };
    }
  }

  #cancelled(): 'cancelled' {
    this.#callOff('cancelled', undefined, []);
    return 'cancelled';
  }

  #callOff(
    outcome: 'kept' | 'cancelled',
    gate: NextOutcome | undefined,
    tasks: readonly ShutdownReport[],
  ): AllocStopReport {
    this.#over = true;
    this.ports.calledOff();
    this.ports.send('callOff', { code: 'called-off', message: gate?.cause?.message ?? 'Its stop was called off' });
    return { outcome, ...(gate && { gate }), tasks };
  }

  /** The target, but each first signal is looked at: the gate is a level (AL-3), and the state knows before it is sent. */
  #guarded(target: ShutdownTarget): ShutdownTarget {
    const told = (): void =>
      this.ports.send('signal', { code: this.#reason, message: `It was told to stop: ${this.#reason}` });
    return {
      id: target.id,
      stopSignal: target.stopSignal,
      isRunning: (call) => target.isRunning(call),
      wait: (call) => target.wait(call),
      rearm: async (call) => target.rearm?.(call),
      disarm: async (call) => {
        if (await this.#gateLost(call)) return;
        await target.disarm?.(call);
      },
      signal: (name, call) => {
        told();
        return target.signal(name, call);
      },
      kill: (call) => {
        told();
        return target.kill(call);
      },
    };
  }

  async #gateLost(call: Call): Promise<boolean> {
    const after = this.#after;
    if (after?.onFailed !== 'keep') return false;
    // Not knowing is no reason to stop what serves.
    if (await after.holds(call).catch(() => false)) return false;
    // Bypassed while we looked: then nothing depends on the successor any more.
    if (this.#after === undefined) return false;
    const message = `Alloc ${after.next.id} is not ${after.gate} any more, just before alloc ${this.id} was to be signalled`;
    this.#lost = {
      outcome: 'failed',
      waited: 0,
      cause: new HandoverError('ERR_GATE_MISSED', message, {
        details: { allocId: after.next.id, gate: after.gate, state: 'rejected' },
      }),
    };
    void this.#run?.cancel();
    return true;
  }
}

function isMiss({ outcome }: NextOutcome): boolean {
  return outcome === 'failed' || outcome === 'deadline';
}
