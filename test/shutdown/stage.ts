import {
  type Env,
  type HandoverEvent,
  type RunOptions,
  type ShutdownHooks,
  type ShutdownOptions,
  type ShutdownReport,
  type ShutdownRun,
  ShutdownSequencer,
} from 'handover';
import { FakeClock } from 'handover/testing';
import {
  behave,
  type Manner,
  type RegistrarScript,
  ScriptedRegistrar,
  ScriptedTarget,
  SERVICE,
} from './scripted-target.js';
import type { TargetScript } from './scripted-target.js';

export interface StageScript {
  readonly target?: TargetScript;
  /** Given: the target has one service registered. */
  readonly registrar?: RegistrarScript;
  readonly hooks?: { readonly [K in 'preStop' | 'postStop' | 'cancelled']?: Manner };
  readonly preStopFirst?: boolean;
  readonly defaults?: ShutdownOptions;
}

/** A sequencer, a target and a registry on one fake clock, with one log of all calls. */
export class Stage {
  readonly clock = new FakeClock();
  readonly log: string[] = [];
  readonly events: HandoverEvent[] = [];
  readonly target: ScriptedTarget;
  readonly registrar: ScriptedRegistrar | undefined;
  readonly sequencer: ShutdownSequencer;

  constructor(readonly script: StageScript = {}) {
    this.target = new ScriptedTarget(this.clock, this.log, script.target);
    this.registrar = script.registrar && new ScriptedRegistrar(this.clock, this.log, script.registrar);
    this.registrar?.held.add(SERVICE.id);
    const env: Env = {
      clock: this.clock,
      registrar: this.registrar,
      hooks: this.#hooks(),
      onEvent: (event) => this.events.push(event),
    };
    this.sequencer = new ShutdownSequencer(script.defaults, env);
  }

  run(o: RunOptions = {}): ShutdownRun {
    return this.sequencer.run(this.target, { ...(this.registrar && { services: [SERVICE] }), ...o });
  }

  /** Runs to the end. */
  async stop(o: RunOptions = {}): Promise<ShutdownReport> {
    return this.clock.until(this.run(o).result);
  }

  /** The calls that matter for the order: without looks and waits. */
  get acts(): readonly string[] {
    return this.log.filter((line) => !/ (wait|isRunning)$/.test(line));
  }

  get phases(): readonly string[] {
    return this.events.flatMap((event) => (event.type === 'shutdown:phase' ? [event.phase] : []));
  }

  get warnings(): readonly string[] {
    return this.events.flatMap((event) => (event.type === 'warning' ? [event.reason.code] : []));
  }

  #hooks(): ShutdownHooks {
    const { hooks = {}, preStopFirst } = this.script;
    const entries = Object.entries(hooks).map(([name, manner]) => [
      name,
      async (_id: string, call: { readonly signal?: AbortSignal | undefined }) => {
        this.log.push(`${this.clock.now()} ${name}`);
        await behave(this.clock, manner, call);
      },
    ]);
    return { ...(Object.fromEntries(entries) as ShutdownHooks), preStopFirst };
  }
}

/** Does something so many turns from now: between two steps of what goes on meanwhile. */
export async function after(turns: number, act: () => void): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await Promise.resolve();
  act();
}

/** A report's phases as `phase result ms`. */
export function shape({ phases }: ShutdownReport): readonly string[] {
  return phases.map(({ phase, result, ms }) => `${phase} ${result} ${ms}`);
}

/** preStop 0–1000, deregister –1300, delay –6300, SIGTERM, SIGKILL 10300 (preStop has taken one of five seconds). */
export function slow(): Stage {
  return new Stage({
    target: { exits: {}, disarm: ['ok'] },
    registrar: { deregister: [300] },
    hooks: { preStop: 1_000, cancelled: 'ok', postStop: 'ok' },
  });
}

/** One moment in each of its phases before SIGKILL. */
export const MOMENTS = [
  { at: 500, during: 'preStop' },
  { at: 1_100, during: 'deregister' },
  { at: 4_000, during: 'drain' },
  { at: 8_000, during: 'signal' },
] as const;
