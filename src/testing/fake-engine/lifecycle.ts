import type { Clock } from '../../clock.js';
import { clash, type Held } from '../../driver/resources.js';
import { deferred } from '../../internal/deferred.js';
import { EngineProblem } from './answer.js';
import { behaviourOf, type FakeContainer, isUp, stopSignalOf } from './container.js';
import type { EngineNetworks } from './networks.js';
import { type Deed, deedOf, SERVER } from './program.js';

const KILL = 'SIGKILL';
/** What the program handles; a container's first process ignores other signals. */
const HANDLED = ['SIGTERM', 'SIGINT'];
const SIGNAL = /^(SIG)?(HUP|INT|QUIT|ABRT|KILL|USR1|USR2|TERM|WINCH|RTMIN\+\d+)$/i;
const FIRST_EPHEMERAL_PORT = 32_768;
/** How long the engine waits before it starts a container again by its restart policy. */
const RESTART_MS = 100;

interface Waiter {
  readonly condition: string;
  readonly done: (body: object) => void;
}

/** Runs the containers of a fake engine: starts, signals, exits, restarts and waits. */
export class Lifecycle {
  readonly #waiters = new Map<string, Waiter[]>();
  readonly #timers = new Set<() => void>();
  /** Containers whose next exit is final, whatever their restart policy says. */
  readonly #final = new Set<string>();
  #nextPort = FIRST_EPHEMERAL_PORT;

  constructor(
    private readonly clock: Clock,
    private readonly networks: EngineNetworks,
    private readonly all: () => readonly FakeContainer[],
    private readonly forget: (container: FakeContainer) => void,
  ) {}

  /** @returns whether it was not running already */
  start(c: FakeContainer): boolean {
    if (c.state === 'paused') throw new EngineProblem(409, 'cannot start a paused container, try unpause instead');
    if (c.state === 'dead' || c.state === 'removing') {
      throw new EngineProblem(409, 'container is marked for removal and cannot be started');
    }
    if (c.state === 'running') return false;
    this.networks.require(c);
    c.ports = this.#bind(c);
    c.state = 'running';
    c.startedAt = this.clock.wall();
    c.exitCode = 0;
    c.oom = false;
    this.#final.delete(c.id);
    c.output.ended = false;
    const deed = deedOf((c.body['Cmd'] as readonly string[] | undefined) ?? SERVER) ?? listening(c);
    for (const [stream, text] of deed.writes) c.output.write(stream, text);
    if (deed.after !== undefined) this.#later(deed.after, c, () => this.exit(c, deed.code));
    return true;
  }

  /** As by hand: whatever runs is ended, and started again at once, whatever its restart policy says. */
  restart(c: FakeContainer): void {
    this.#final.add(c.id);
    this.exit(c, 137);
    this.start(c);
  }

  signal(c: FakeContainer, name: string): void {
    if (!SIGNAL.test(name)) throw new EngineProblem(400, `Invalid signal: ${name}`);
    if (!isUp(c)) {
      throw new EngineProblem(409, `Cannot kill container: ${c.name}: Container ${c.id} is not running`);
    }
    const signal = name.startsWith('SIG') ? name : `SIG${name}`;
    c.signals.push(signal);
    const own = stopSignalOf(c);
    // As the engine does: a signal other than the container's own stop signal does not end its restarts.
    if (own === undefined || own === signal) {
      this.#final.add(c.id);
      if (c.state === 'paused') c.state = 'running';
    }
    if (c.state === 'restarting') {
      if (this.#final.has(c.id)) this.exit(c, c.exitCode);
    } else if (signal === KILL) {
      this.exit(c, 137);
    } else {
      this.deliver(c, [signal]);
    }
  }

  /** What a running container makes of signals; a frozen one does nothing until it thaws. */
  deliver(c: FakeContainer, signals: readonly string[]): void {
    const { exitDelay, ignoresTerm } = behaviourOf(c);
    const handled = [...HANDLED, stopSignalOf(c) ?? KILL];
    if (c.state !== 'running' || ignoresTerm || !signals.some((signal) => handled.includes(signal))) return;
    if (exitDelay === 0) this.exit(c, 0);
    else this.#later(exitDelay, c, () => this.exit(c, 0));
  }

  /** The container's process has ended. */
  exit(c: FakeContainer, code: number, oom = false): void {
    if (!isUp(c)) return;
    c.state = 'exited';
    c.exitCode = code;
    c.oom = oom;
    c.finishedAt = this.clock.wall();
    c.output.ended = true;
    c.ports = new Map();
    this.#settle(c, ['next-exit', 'not-running'], { StatusCode: code, Error: null });
    if (c.hostConfig.AutoRemove === true) {
      this.remove(c);
    } else if (this.#restarts(c)) {
      c.state = 'restarting';
      this.#later(RESTART_MS, c, () => {
        c.state = 'exited';
        this.start(c);
      });
    }
  }

  remove(c: FakeContainer): void {
    this.forget(c);
    this.#settle(c, ['next-exit', 'not-running', 'removed'], { StatusCode: c.exitCode, Error: null });
  }

  wait(c: FakeContainer, condition: string): Promise<object> {
    if (condition === 'not-running' && !isUp(c)) return Promise.resolve({ StatusCode: c.exitCode, Error: null });
    const { promise, resolve } = deferred<object>();
    this.#waiters.set(c.id, [...(this.#waiters.get(c.id) ?? []), { condition, done: resolve }]);
    return promise;
  }

  /** Nothing happens by itself any more. */
  close(): void {
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
  }

  #restarts(c: FakeContainer): boolean {
    const policy = c.hostConfig.RestartPolicy?.Name ?? 'no';
    if (this.#final.has(c.id)) return false;
    return policy === 'always' || policy === 'unless-stopped' || (policy === 'on-failure' && c.exitCode !== 0);
  }

  #settle(c: FakeContainer, conditions: readonly string[], body: object): void {
    const waiters = this.#waiters.get(c.id) ?? [];
    this.#waiters.set(
      c.id,
      waiters.filter((waiter) => !conditions.includes(waiter.condition)),
    );
    for (const waiter of waiters) if (conditions.includes(waiter.condition)) waiter.done(body);
  }

  #bind(c: FakeContainer): ReadonlyMap<string, number> {
    const taken = this.all().flatMap((other) => [...other.ports].map(([port, host]) => heldPort(other, port, host)));
    // As the engine does: a port that is bound but not exposed is not published.
    const exposed = Object.keys((c.body['ExposedPorts'] as object | undefined) ?? {});
    const wanted = Object.entries(c.hostConfig.PortBindings ?? {}).filter(([port]) => exposed.includes(port));
    return new Map(
      wanted.map(([port, [binding]]) => {
        const asked = Number(binding?.HostPort ?? 0);
        const wants = heldPort(c, port, asked);
        if (!taken.some((other) => clash(wants, other))) return [port, asked === 0 ? this.#nextPort++ : asked] as const;
        throw new EngineProblem(
          500,
          `driver failed programming external connectivity on endpoint ${c.name} (${c.id}): Bind for ${binding?.HostIp || '0.0.0.0'}:${asked} failed: port is already allocated`,
        );
      }),
    );
  }

  /** Only as long as the container goes on running as it does now. */
  #later(ms: number, c: FakeContainer, then: () => void): void {
    const { startedAt } = c;
    const cancel = this.clock.timer(ms, () => {
      this.#timers.delete(cancel);
      if (isUp(c) && c.startedAt === startedAt) then();
    });
    this.#timers.add(cancel);
  }
}

/** The server's: how it begins, and when it ends by itself. */
function listening(c: FakeContainer): Pick<Deed, 'writes' | 'code'> & { readonly after: number | undefined } {
  const { exitAfter, exitCode, port } = behaviourOf(c);
  return { writes: [['stdout', `listening ${port}\n`]], code: exitCode, after: exitAfter };
}

/** Port `host` of the host, as a container holds it for its port `8080/tcp`. */
function heldPort({ hostConfig }: FakeContainer, port: string, host: number): Held {
  return { key: `${host}/${port.split('/')[1]}`, address: hostConfig.PortBindings?.[port]?.[0]?.HostIp };
}
