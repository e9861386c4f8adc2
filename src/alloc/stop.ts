import type { Call } from '../call.js';
import type { Ground, Wait } from '../env.js';
import type { HandoverError } from '../errors.js';
import { linkSignals } from '../internal/signals.js';
import type {
  ExitResult,
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
  readonly state: () => AllocState;
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
  calledOff(stop: AllocStop): void;
}

/** What a stop is asked to do. */
export interface StopRequest {
  readonly reason: StopReason;
  /** The successor that it waits for. */
  readonly after: NextAllocWatcher | undefined;
  /** A stop that is being called off, and has to be over first. */
  readonly behind: AllocStop | undefined;
}

/**
 * One stop of an alloc: held until its successor has reached the gate, if it is because of a replacement (AL-3), then
 * handed to the shutdown sequencer, which every stop goes through (SS-15).
 */
export class AllocStop implements StopRun<AllocStopReport> {
  readonly id: string;
  readonly budget: ShutdownBudget;
  readonly result: Promise<AllocStopReport>;
  /** Aborts when the successor is not to be waited for any more. */
  readonly #hold = new AbortController();
  readonly #bypassListeners = new Set<() => void>();
  #reason: StopReason;
  #run: ShutdownRun | undefined;
  #holding: Wait | null = null;
  #over = false;
  #cancelling = false;
  #skipDelay = false;
  #killNow = false;
  /** The successor whose gate binds this stop; none once it was bypassed. */
  #after: NextAllocWatcher | undefined;
  /** The gate was lost again while it drained. */
  #lost: NextOutcome | undefined;

  constructor(
    private readonly ports: StopPorts,
    request: StopRequest,
  ) {
    this.id = ports.id;
    this.budget = ports.budget;
    this.#reason = request.reason;
    this.#after = request.after;
    this.result = this.#stop(request.behind);
  }

  /** Why it is stopped; a bypass changes it. */
  get reason(): StopReason {
    return this.#reason;
  }

  /** Whether it is being called off: whoever wants the alloc stopped now needs a stop of their own. */
  get leaving(): boolean {
    return this.#cancelling && !this.#over;
  }

  get phase(): StopPhase {
    return this.#over ? 'done' : (this.#run?.phase ?? 'held');
  }

  get wait(): Wait | null {
    if (this.#over) return null;
    if (this.#run !== undefined) return this.#run.wait;
    return this.#holding && { ...this.#holding, until: this.#after?.expires ?? null };
  }

  skipDelay(): void {
    this.#skipDelay = true;
    this.#run?.skipDelay();
  }

  escalate(): void {
    if (this.#over) return;
    if (this.#run === undefined) this.bypass(this.#reason);
    else this.#run.escalate();
  }

  killNow(): void {
    if (this.#over) return;
    this.#killNow = true;
    this.bypass(this.#reason);
    if (this.#run === undefined) this.ports.callOffStart();
    this.#run?.killNow();
  }

  async cancel(): Promise<'cancelled' | 'too-late'> {
    if (this.#over) return 'too-late';
    this.#cancelling = true;
    if (this.#run === undefined) this.#hold.abort();
    else if ((await this.#run.cancel()) === 'too-late') {
      this.#cancelling = false;
      return 'too-late';
    }
    const { outcome } = await this.result;
    return outcome === 'cancelled' || outcome === 'kept' ? 'cancelled' : 'too-late';
  }

  /** Goes on without the successor: the alloc is wanted gone for a reason of its own (AL-5). */
  bypass(reason: StopReason): void {
    this.#reason = reason;
    this.#after = undefined;
    this.#hold.abort();
    for (const listener of this.#bypassListeners) listener();
  }

  /** Told, synchronously, when a stop because of a replacement becomes one for another reason. */
  onBypass(listener: () => void): () => void {
    this.#bypassListeners.add(listener);
    return () => this.#bypassListeners.delete(listener);
  }

  async #stop(behind: AllocStop | undefined): Promise<AllocStopReport> {
    const { life, state } = this.ports;
    try {
      // A turn for the caller to get hold of the run before anything happens.
      await behind?.result;
      life.throwIfAborted();
      if (isBeforeStart(state())) await this.ports.discard();
      else await this.#untilStarted();
      const gate = await this.#heldBack();
      if (isTerminal(state())) return report('stopped', gate);
      if (life.aborted) return report('detached', gate);
      if (this.#cancelling) return this.#callOff('cancelled', gate, []);
      if (this.#after?.onFailed === 'keep' && isMiss(gate)) return this.#callOff('kept', gate, []);
      return await this.#sequence(gate);
    } catch (error) {
      if (life.aborted) return report('detached');
      throw error;
    } finally {
      this.#over = true;
    }
  }

  /** A stop that comes while it is being started waits for that; `killNow()` calls the start off. */
  async #untilStarted(): Promise<void> {
    if (this.ports.state() === 'starting') {
      const why = 'It is being started, and is stopped once that is over';
      this.#holding = { for: 'exit', since: this.ports.ground.clock.wall(), until: null, why };
    }
    await this.ports.started();
    this.#holding = null;
  }

  /** Waits for the successor. `undefined`: there was nothing to wait for. */
  async #heldBack(): Promise<NextOutcome | undefined> {
    const after = this.#after;
    if (after === undefined || this.#hold.signal.aborted || isTerminal(this.ports.state())) return undefined;
    const { clock } = this.ports.ground;
    const started = clock.now();
    this.#holding = {
      for: 'successor',
      since: clock.wall(),
      until: after.expires,
      on: after.next.id,
      why: `Serves on until alloc ${after.next.id} is ${after.gate}`,
    };
    this.ports.send('hold', { code: this.#reason, message: this.#holding.why }, this.#holding);
    const link = linkSignals(this.#hold.signal, this.ports.life);
    try {
      return await after.wait({ signal: link.signal });
    } catch {
      return { outcome: 'bypassed', waited: clock.now() - started };
    } finally {
      this.#holding = null;
      link.dispose();
    }
  }

  async #sequence(gate: NextOutcome | undefined): Promise<AllocStopReport> {
    this.ports.send('drain', { code: this.#reason, message: `It is stopped: ${this.#reason}` });
    const run = this.ports.sequence(this.#guarded(this.ports.target()), this.#reason);
    this.#run = run;
    if (this.#skipDelay) run.skipDelay();
    if (this.#killNow) run.killNow();
    // Asked for by whoever was told of the drain, before there was anything to cancel.
    if (this.#cancelling) void run.cancel();
    const minding = new AbortController();
    void this.#mind(minding.signal);
    const done = await run.result;
    minding.abort();
    switch (done.outcome) {
      case 'cancelled':
        // It may have ended just after it was registered again.
        if (isTerminal(this.ports.state())) break;
        return this.#callOff(this.#lost === undefined ? 'cancelled' : 'kept', this.#lost ?? gate, [done]);
      case 'unkillable': {
        const message = 'It was killed and has not ended; it is watched';
        this.ports.send('unkillable', { code: 'unkillable', message });
        return report('unkillable', gate, [done]);
      }
      case 'detached':
        return report('detached', gate, [done]);
      case 'exited':
      case 'forced':
      case 'already-gone':
        break;
    }
    this.ports.exited(done.exit);
    return report('stopped', gate, [done]);
  }

  #callOff(
    outcome: 'kept' | 'cancelled',
    gate: NextOutcome | undefined,
    tasks: readonly ShutdownReport[],
  ): AllocStopReport {
    this.#over = true;
    this.ports.calledOff(this);
    this.ports.send('callOff', { code: 'called-off', message: gate?.cause?.message ?? 'Its stop was called off' });
    return report(outcome, gate, tasks);
  }

  /** The target, but the first signal is looked at: the gate is a level (AL-3), and the state knows before it is sent. */
  #guarded(target: ShutdownTarget): ShutdownTarget {
    const told = (): void =>
      this.ports.send('signal', { code: this.#reason, message: `It was told to stop: ${this.#reason}` });
    return {
      id: target.id,
      get stopSignal() {
        return target.stopSignal;
      },
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
    const cause = await after.lost(call);
    // Bypassed while we looked: then nothing depends on the successor any more.
    if (cause === undefined || this.#after === undefined) return false;
    this.#keep(cause);
    return true;
  }

  /** While it drains nobody serves but the successor; one that ends then is not worth waiting for the signal (AL-3). */
  async #mind(signal: AbortSignal): Promise<void> {
    const after = this.#after;
    if (after?.onFailed !== 'keep' || after.gate === 'none') return;
    try {
      const cause = await after.ended(signal);
      if (this.#after !== undefined) this.#keep(cause);
    } catch {
      // The stop was over first.
    }
  }

  #keep(cause: HandoverError): void {
    this.#lost = { outcome: 'failed', waited: 0, cause };
    void this.cancel();
  }
}

function report(
  outcome: AllocStopReport['outcome'],
  gate?: NextOutcome,
  tasks: readonly ShutdownReport[] = [],
): AllocStopReport {
  return { outcome, ...(gate && { gate }), tasks };
}

function isMiss(gate: NextOutcome | undefined): boolean {
  return gate?.outcome === 'failed' || gate?.outcome === 'deadline';
}
