import type { Call, Clock, ExitResult, Registrar, ServiceInstance, ShutdownTarget } from 'handover';
import { deferred } from '../../src/internal/deferred.js';
import { abortable, sleep } from '../../src/internal/signals.js';

/** How a call goes: well, well after so many ms, badly, never (until aborted), never (and deaf to aborts). */
export type Manner = 'ok' | 'reject' | 'hang' | 'deaf' | number;

export interface TargetScript {
  readonly stopSignal?: string;
  /** Signal → ms until it exits. Default: SIGTERM 100, SIGKILL 10. */
  readonly exits?: Readonly<Record<string, number>>;
  /** Exits by itself at this time. */
  readonly exitAt?: number;
  /** How the calls of each method go, in order; the last one goes on. Default `ok`. */
  readonly signal?: readonly Manner[];
  readonly kill?: readonly Manner[];
  readonly isRunning?: readonly Manner[];
  readonly wait?: readonly Manner[];
  /** Given: it can be disarmed and rearmed. */
  readonly disarm?: readonly Manner[];
  readonly onDisarm?: () => void | Promise<void>;
}

/** Carries out a manner on a clock. */
export async function behave(clock: Clock, manner: Manner, { signal }: Call): Promise<void> {
  if (manner === 'reject') throw new Error('connection reset');
  if (manner === 'deaf') return deferred<never>().promise;
  if (manner === 'hang') return abortable(deferred<never>().promise, signal);
  if (typeof manner === 'number') await sleep(clock, manner, { signal });
}

/** A target that follows a script, and writes each call with its time into a log. */
export class ScriptedTarget implements ShutdownTarget {
  readonly stopSignal: string | undefined;
  readonly disarm?: (call: Call) => Promise<void>;
  readonly rearm?: (call: Call) => Promise<void>;
  readonly #exited = deferred<ExitResult>();
  readonly #counts = new Map<string, number>();
  readonly #timers = new Set<() => void>();
  #running = true;

  constructor(
    readonly clock: Clock,
    readonly log: string[],
    readonly script: TargetScript = {},
    readonly id = 'web-1',
  ) {
    this.stopSignal = script.stopSignal;
    if (script.exitAt !== undefined) this.#exitIn(script.exitAt, { code: 0, by: 'self' });
    if (script.disarm !== undefined) {
      this.disarm = (call) => this.#disarm(call);
      this.rearm = (call) => this.#call('rearm', ['ok'], call);
    }
  }

  get running(): boolean {
    return this.#running;
  }

  async isRunning(call: Call): Promise<boolean> {
    await this.#call('isRunning', this.script.isRunning, call);
    return this.#running;
  }

  async wait(call: Call): Promise<ExitResult> {
    await this.#call('wait', this.script.wait, call);
    return abortable(this.#exited.promise, call.signal);
  }

  async signal(name: string, call: Call): Promise<void> {
    const ms = (this.script.exits ?? { SIGTERM: 100 })[name];
    if (ms !== undefined) this.#exitIn(ms, { code: 0, by: 'signal' });
    await this.#call(`signal ${name}`, this.script.signal, call);
  }

  async kill(call: Call): Promise<void> {
    const ms = (this.script.exits ?? {})['SIGKILL'] ?? 10;
    if (ms !== Infinity) this.#exitIn(ms, { code: null, signal: 'SIGKILL', by: 'kill' });
    await this.#call('kill', this.script.kill, call);
  }

  /** Ends it now. */
  exit(exit: Partial<ExitResult> = {}): void {
    if (!this.#running) return;
    this.#running = false;
    this.#timers.forEach((cancel) => cancel());
    this.#exited.resolve({ code: null, signal: null, oom: false, by: 'self', at: this.clock.wall(), ...exit });
  }

  /** Forgets the exits that are still to come; the test is over. */
  dispose(): void {
    this.#timers.forEach((cancel) => cancel());
  }

  async #disarm(call: Call): Promise<void> {
    await this.#call('disarm', this.script.disarm, call);
    await this.script.onDisarm?.();
  }

  #exitIn(ms: number, exit: Partial<ExitResult>): void {
    if (ms === 0) this.exit(exit);
    else this.#timers.add(this.clock.timer(ms, () => this.exit(exit)));
  }

  async #call(what: string, manners: readonly Manner[] = ['ok'], call: Call): Promise<void> {
    const count = this.#counts.get(what) ?? 0;
    this.#counts.set(what, count + 1);
    this.log.push(`${this.clock.now()} ${what}`);
    await behave(this.clock, manners[count] ?? manners.at(-1) ?? 'ok', call);
  }
}

export interface RegistrarScript {
  readonly register?: readonly Manner[];
  readonly deregister?: readonly Manner[];
  /** Given: it can confirm, and shows an instance for so many ms after its deregistration. */
  readonly shownFor?: number;
}

/** A registry that follows a script; it does what it was asked only when the call goes well. */
export class ScriptedRegistrar implements Registrar {
  readonly held = new Set<string>();
  readonly confirms?: (instance: ServiceInstance, call: Call) => Promise<boolean>;
  readonly #goneAt = new Map<string, number>();
  readonly #counts = { register: 0, deregister: 0 };

  constructor(
    readonly clock: Clock,
    readonly log: string[],
    readonly script: RegistrarScript = {},
  ) {
    const { shownFor } = script;
    if (shownFor === undefined) return;
    this.confirms = async ({ id }) => this.held.has(id) || clock.now() < (this.#goneAt.get(id) ?? 0) + shownFor;
  }

  async register(instance: ServiceInstance, call: Call): Promise<void> {
    await this.#call('register', call);
    this.held.add(instance.id);
    this.log.push(`${this.clock.now()} registered`);
  }

  async deregister(instance: ServiceInstance, call: Call): Promise<void> {
    await this.#call('deregister', call);
    this.held.delete(instance.id);
    this.#goneAt.set(instance.id, this.clock.now());
    this.log.push(`${this.clock.now()} deregistered`);
  }

  async #call(what: 'register' | 'deregister', call: Call): Promise<void> {
    const manners = this.script[what] ?? ['ok'];
    this.log.push(`${this.clock.now()} ${what}`);
    await behave(this.clock, manners[this.#counts[what]++] ?? manners.at(-1) ?? 'ok', call);
  }
}

export const SERVICE: ServiceInstance = { id: 'web-web-1', service: 'web', address: '10.0.0.1', port: 8080 };
