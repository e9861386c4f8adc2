import { getEventListeners } from 'node:events';
import {
  type AllocEnv,
  AllocLifecycle,
  type AllocSettings,
  type AllocState,
  type Clock,
  type HandoverEvent,
  type ReplaceOptions,
  type ReplaceResult,
  replace,
} from 'handover';
import { FakeClock, FakeHost, FakeRegistrar, type FakeScript } from 'handover/testing';
import { meets } from '../../src/alloc/states.js';

export type Command =
  | 'cancel'
  | 'operatorStopsA'
  | 'unhealthyStopsA'
  | 'stopsB'
  | 'discardsB'
  | 'cancelsStopOfA'
  | 'killNow'
  | 'escalate'
  | 'skipDelay'
  | 'detachA'
  | 'detachB'
  | 'dieA'
  | 'dieB'
  | 'pruneB'
  | 'registrarFails'
  | 'registrarHangs';

/** What happens in one replacement; all times from its begin, ms. */
export interface Scenario {
  readonly order: 'stop-first' | 'start-first';
  readonly onNextFailed: 'keep' | 'proceed';
  readonly a: FakeScript;
  readonly b: FakeScript;
  /** What the check of B answers: good from `from`, and bad again every other `flap`. */
  readonly health: { readonly from: number; readonly flap: number };
  readonly shutdownDelay: number;
  readonly commands: readonly { readonly at: number; readonly command: Command }[];
}

/** Counts what the library has armed, apart from what the fake world has. */
class CountingClock implements Clock {
  armed = 0;

  constructor(private readonly inner: FakeClock) {}

  now = (): number => this.inner.now();
  wall = (): number => this.inner.wall();
  random = (): number => this.inner.random();

  timer(ms: number, fire: () => void): () => void {
    if (ms === Infinity) return () => undefined;
    let over = false;
    const end = (): void => {
      if (!over) this.armed--;
      over = true;
    };
    this.armed++;
    const cancel = this.inner.timer(ms, () => {
      end();
      fire();
    });
    return () => {
      end();
      cancel();
    };
  }
}

/** One replacement of `a` by `b` over the real classes, with every rule looked at while it goes on. */
export class ReplaceWorld {
  readonly clock = new FakeClock();
  readonly host = new FakeHost({ clock: this.clock });
  readonly registrar = new FakeRegistrar();
  readonly broken: string[] = [];
  readonly control = new AbortController();
  readonly a: AllocLifecycle;
  readonly b: AllocLifecycle;
  readonly happened = new Set<Command>();
  result: ReplaceResult | undefined;
  readonly #counting = new CountingClock(this.clock);
  readonly #last = new Map<string, AllocState | 'ended'>();
  #ended = 0;
  #begun = false;

  constructor(private readonly scenario: Scenario) {
    const driver = this.host.driver();
    const { order, health, shutdownDelay } = scenario;
    const env: AllocEnv = {
      clock: this.#counting,
      registrar: this.registrar,
      onEvent: (event) => this.#look(event),
      checks: { up: async ({ id }) => id === 'a' || this.#up(health) },
    };
    const settings: AllocSettings = {
      services: [{ service: 'web', task: 'web', port: 'http' }],
      health: { checks: [{ name: 'up', type: 'custom' }], minHealthyTime: '5s', healthyDeadline: '1m' },
      shutdown: { shutdownDelay, killTimeout: '5s' },
      prestart: { timeout: '90s' },
    };
    const make = (id: string): AllocLifecycle => {
      const spec = { version: id, ...(order === 'stop-first' && { port: 8080 }) };
      return new AllocLifecycle({ id, tasks: [{ name: 'web', driver, spec }], ...settings }, env);
    };
    this.a = make('a');
    this.b = make('b');
  }

  /** Plays the scenario to its end. Whatever breaks a rule is in `broken`. */
  async play(): Promise<void> {
    const { clock, host, scenario } = this;
    await clock.until(this.a.start());
    await clock.until(this.a.until('healthy'));
    host.script('a', scenario.a);
    host.script('b', scenario.b);
    this.#begun = true;
    for (const { at, command } of scenario.commands) clock.timer(at, () => this.#command(command));
    // What cannot be killed ends at last, so that everything settles.
    clock.timer(8 * 60_000, () => this.#dieIfUnkillable());
    const { order, onNextFailed } = scenario;
    const o: ReplaceOptions = { order, onNextFailed, gateDeadline: '75s', signal: this.control.signal };
    const done = replace(this.a, this.b, o).then((result) => {
      this.result = result;
      this.#atTheEnd(result);
    });
    await clock.until(done, '1d').catch((error: unknown) => this.#breaks(`it does not settle: ${String(error)}`));
    await this.#afterwards();
  }

  // ── what is done to it ──

  readonly #commands: Readonly<Record<Command, () => unknown>> = {
    cancel: () => this.control.abort(new Error('changed my mind')),
    operatorStopsA: () => this.#settles(this.a.stop({ reason: 'operator' }).result),
    unhealthyStopsA: () => this.#settles(this.a.stop({ reason: 'unhealthy' }).result),
    stopsB: () => this.#settles(this.b.stop({ reason: 'operator' }).result),
    discardsB: () => this.#settles(this.b.discard().catch(() => undefined)),
    cancelsStopOfA: () => this.a.stopping && this.#settles(this.a.stopping.cancel()),
    killNow: () => this.a.stopping?.killNow(),
    escalate: () => this.a.stopping?.escalate(),
    skipDelay: () => this.a.stopping?.skipDelay(),
    detachA: () => this.#settles(this.a.detach()),
    detachB: () => this.#settles(this.b.detach()),
    dieA: () => this.host.running().includes('a/web') && this.host.die('a/web'),
    dieB: () => this.host.running().includes('b/web') && this.host.die('b/web'),
    pruneB: () => this.#prune(),
    registrarFails: () => this.registrar.failNext(3),
    registrarHangs: () => this.registrar.hangNext(1),
  };

  readonly #open = new Set<Promise<unknown>>();

  #command(command: Command): void {
    this.happened.add(command);
    this.#commands[command]();
  }

  #settles(promise: Promise<unknown>): void {
    this.#open.add(promise);
    void promise.then(
      () => this.#open.delete(promise),
      (error: unknown) => this.#breaks(`a promise was rejected: ${String(error)}`),
    );
  }

  #prune(): void {
    const prepared = this.host.remains().includes('b/web') && !this.host.running().includes('b/web');
    if (prepared && this.b.handle('web') === undefined) this.host.prune('b/web');
  }

  #dieIfUnkillable(): void {
    for (const alloc of [this.a, this.b]) {
      const owner = `${alloc.id}/web`;
      if (alloc.state === 'unkillable' && this.host.running().includes(owner)) this.host.die(owner);
    }
  }

  #up({ from, flap }: Scenario['health']): boolean {
    const now = this.clock.now();
    return now >= from && (flap === 0 || Math.floor(now / flap) % 2 === 0);
  }

  // ── the rules, at each event ──

  #look(event: HandoverEvent): void {
    if (event.type === 'replace:ended' && ++this.#ended > 1) this.#breaks('replace:ended came twice');
    if ('alloc' in event) this.#lookAtAlloc(event);
    if (event.type === 'alloc:changed' && event.alloc.id === 'a' && event.alloc.state === 'stopping')
      this.#lookAtSignal();
    this.#lookAtService(event.type);
    if (JSON.stringify(event).includes('is held by')) this.#breaks('two wanted to hold one port');
  }

  #lookAtAlloc(event: Extract<HandoverEvent, { alloc: unknown }>): void {
    const { id, state, terminal } = event.alloc;
    const last = this.#last.get(id);
    if (last === 'ended') this.#breaks(`${event.type} of ${id} came after its end`);
    if (event.type === 'alloc:changed' && event.from !== (last ?? 'pending')) this.#breaks(`${id} jumped to ${state}`);
    this.#last.set(id, terminal ? 'ended' : state);
  }

  /** AL-3: under `keep`, no signal before the successor has reached the gate, unless somebody else wanted it. */
  #lookAtSignal(): void {
    const { order, onNextFailed } = this.scenario;
    const gate = order === 'stop-first' ? 'prepared' : 'healthy';
    const wanted = this.#any('operatorStopsA', 'unhealthyStopsA', 'killNow', 'escalate');
    if (wanted || onNextFailed === 'proceed' || meets(this.b.status().reached, gate)) return;
    this.#breaks(`a was signalled while b was ${this.b.state}`);
  }

  /** AL-3: start-first never has an instant in which nobody serves, unless one died or somebody stopped one. */
  #lookAtService(at: string): void {
    const { order, onNextFailed, b } = this.scenario;
    const excused =
      onNextFailed === 'proceed' ||
      b.exitAfter !== undefined ||
      this.#any('operatorStopsA', 'unhealthyStopsA', 'killNow', 'escalate', 'dieA', 'dieB', 'stopsB');
    if (!this.#begun || order === 'stop-first' || excused) return;
    const serves = [...this.registrar.registered.keys()].some((id) => this.host.running().includes(ownerOf(id)));
    if (!serves) this.#breaks(`nobody serves at ${at}`);
  }

  #any(...commands: readonly Command[]): boolean {
    return commands.some((command) => this.happened.has(command));
  }

  #breaks(rule: string): void {
    this.broken.push(`${this.clock.now()} ms: ${rule}`);
  }

  // ── the rules, at the end ──

  /** The outcome matches the world, in the very moment of the result. */
  #atTheEnd({ outcome, serving, cause }: ReplaceResult): void {
    const { a, b, host } = this;
    const running = host.running();
    const holds: Readonly<Record<typeof outcome, boolean>> = {
      replaced: serving === b && running.includes('b/web') && (!running.includes('a/web') || a.state === 'unkillable'),
      'kept-previous': serving === a && running.includes('a/web') && a.stopping === undefined && this.#gone(b),
      stopped: this.#gone(b) && this.#any('operatorStopsA', 'unhealthyStopsA'),
      failed: serving === undefined && this.#gone(b),
      detached: this.#any('detachA', 'detachB'),
    };
    if (!holds[outcome]) this.#breaks(`${outcome}, serving ${serving?.id ?? 'nobody'}: a ${a.state}, b ${b.state}`);
    if ((outcome === 'kept-previous' || outcome === 'failed') && cause === undefined)
      this.#breaks(`${outcome} without a cause`);
    if (getEventListeners(this.control.signal, 'abort').length > 0) this.#breaks('a listener is left');
    if (this.#ended !== 1) this.#breaks(`replace:ended came ${this.#ended} times`);
  }

  /** Ended and removed; what cannot be killed, or was let go of, is excused. */
  #gone(alloc: AllocLifecycle): boolean {
    if (alloc.state === 'unkillable' || this.#any(alloc.id === 'a' ? 'detachA' : 'detachB')) return true;
    return alloc.status().terminal && !this.host.remains().includes(`${alloc.id}/web`);
  }

  async #afterwards(): Promise<void> {
    const { clock, registrar, host } = this;
    // Everything that was still on its way arrives, and the registry agrees.
    await clock.advance('10m');
    for (const id of registrar.registered.keys()) {
      const owner = ownerOf(id);
      if (!host.running().includes(owner) && !this.#any(owner === 'a/web' ? 'detachA' : 'detachB'))
        this.#breaks(`${id} is registered and does not run`);
    }
    for (const alloc of [this.a, this.b]) {
      const { registered, state } = alloc.status();
      if (
        state === 'running' &&
        alloc.status().health === 'passing' &&
        registered.length === 0 &&
        !this.#any('detachA', 'detachB')
      )
        this.#breaks(`${alloc.id} runs, passes and is not registered`);
    }
    if (this.#open.size > 0) this.#breaks(`${this.#open.size} promises have not settled`);
    await this.a.detach();
    await this.b.detach();
    if (this.#counting.armed > 0) this.#breaks(`${this.#counting.armed} timers are left`);
  }
}

/** `web-a-web-http` → `a/web`. */
function ownerOf(instance: string): string {
  return `${instance.split('-')[1] ?? ''}/web`;
}
