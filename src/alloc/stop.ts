import type { Wait } from '../env.js';
import type { ShutdownBudget, ShutdownReport, ShutdownRun, ShutdownTarget, StopPhase } from '../shutdown/types.js';
import type { StopReason, StopRun } from '../shutdown/types.js';
import type { NextAllocWatcher } from './next.js';
import { isBeforeStart, isTerminal } from './states.js';
import { StopGate } from './stop-gate.js';
import type { StopPorts } from './stop-ports.js';
import type { AllocStopReport, NextOutcome } from './types.js';

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
  readonly #gate: StopGate;
  readonly #bypassListeners = new Set<() => void>();
  #reason: StopReason;
  #run: ShutdownRun | undefined;
  #holding: Wait | null = null;
  #over = false;
  #cancelling = false;
  #skipDelay = false;
  #killNow = false;

  constructor(
    private readonly ports: StopPorts,
    request: StopRequest,
  ) {
    this.id = ports.id;
    this.budget = ports.budget;
    this.#reason = request.reason;
    this.#gate = new StopGate(request.after, ports.ground.clock, () => void this.cancel());
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
    const holding = this.#holding;
    return holding?.for === 'successor' ? { ...holding, until: this.#gate.until } : holding;
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
    if (this.#run === undefined) this.#gate.leave();
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
    this.#gate.bypass();
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
      // An end stays true, also of one that was let go of.
      if (isTerminal(state())) return report('stopped');
      life.throwIfAborted();
      if (isBeforeStart(state())) await this.ports.discard();
      else await this.#untilStarted();
      const gate = await this.#heldBack();
      if (isTerminal(state())) return report('stopped', gate);
      if (life.aborted) return report('detached', gate);
      if (this.#cancelling) return this.#callOff('cancelled', gate, []);
      if (this.#gate.keeps(gate)) return this.#callOff('kept', gate, []);
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
      const until = this.ports.wait()?.until ?? null;
      const why = 'It is being started, and is stopped once that is over';
      this.#holding = { for: 'exit', since: this.ports.ground.clock.wall(), until, why };
    }
    await this.ports.started();
    this.#holding = null;
  }

  /** Waits for the successor. `undefined`: there was nothing to wait for. */
  async #heldBack(): Promise<NextOutcome | undefined> {
    const wait = isTerminal(this.ports.state()) ? null : this.#gate.wait();
    if (wait === null) return undefined;
    this.#holding = wait;
    this.ports.send('hold', { code: this.#reason, message: wait.why }, wait);
    const outcome = await this.#gate.reached(this.ports.life);
    this.#holding = null;
    return outcome;
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
    void this.#gate.mind(minding.signal);
    const done = await run.result;
    minding.abort();
    switch (done.outcome) {
      case 'cancelled':
        // It may have ended just after it was registered again.
        if (isTerminal(this.ports.state())) break;
        return this.#callOff(this.#gate.lost === undefined ? 'cancelled' : 'kept', this.#gate.lost ?? gate, [done]);
      case 'unkillable': {
        const message = 'It was killed and has not ended; it is watched';
        const wait = { for: 'exit', since: this.ports.ground.clock.wall(), until: null, why: message } as const;
        this.ports.send('unkillable', { code: 'unkillable', message }, wait);
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
    this.ports.calledOff();
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
        if (await this.#gate.isLost(call)) return;
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
}

function report(
  outcome: AllocStopReport['outcome'],
  gate?: NextOutcome,
  tasks: readonly ShutdownReport[] = [],
): AllocStopReport {
  return { outcome, ...(gate && { gate }), tasks };
}
