import type { FakeImage } from './images.js';
import type { OutputLog } from './output.js';

/** The states of a container, as the engine words them. */
export type FakeContainerState = 'created' | 'running' | 'paused' | 'restarting' | 'exited' | 'dead' | 'removing';

/** The parts of `HostConfig` that the fake engine acts on. */
export interface FakeHostConfig {
  readonly AutoRemove?: boolean;
  readonly NetworkMode?: string;
  readonly PortBindings?: Readonly<Record<string, readonly { readonly HostIp?: string; readonly HostPort?: string }[]>>;
  readonly RestartPolicy?: { readonly Name?: string; readonly MaximumRetryCount?: number };
}

/** A container of the fake engine; tests may look at everything and change its state. */
export interface FakeContainer {
  readonly id: string;
  name: string;
  readonly image: FakeImage;
  /** The image as it was named at creation. */
  readonly imageName: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly labels: Readonly<Record<string, string>>;
  hostConfig: FakeHostConfig;
  state: FakeContainerState;
  exitCode: number;
  oom: boolean;
  /** Wall time, ms; 0 = never. */
  startedAt: number;
  finishedAt: number;
  /** Every signal it was sent, in order. */
  readonly signals: string[];
  /** `8080/tcp` → host port, while it runs. */
  ports: ReadonlyMap<string, number>;
  /** What it has written, oldest first. */
  readonly output: OutputLog;
  /** What its check says; `none` without one. */
  health: 'starting' | 'healthy' | 'unhealthy' | 'none';
  /** Network → how it is in it, for those it was connected to after it was created. */
  readonly networks: Map<string, object>;
}

/** How a container behaves, from the same environment variables that the test program of the engine suites reads. */
export interface Behaviour {
  /** Milliseconds between SIGTERM and the exit. */
  readonly exitDelay: number;
  readonly ignoresTerm: boolean;
  /** It ends by itself after so many milliseconds. */
  readonly exitAfter: number | undefined;
  readonly exitCode: number;
  /** Where it says that it listens. */
  readonly port: number;
}

export function behaviourOf(container: FakeContainer): Behaviour {
  const env = new Map(envOf(container).map((entry) => entry.split(/=(.*)/s).slice(0, 2) as [string, string]));
  const after = env.get('EXIT_AFTER_MS');
  return {
    exitDelay: Number(env.get('EXIT_MS') ?? 0),
    ignoresTerm: env.get('IGNORE_TERM') === '1',
    exitAfter: after === undefined ? undefined : Number(after),
    exitCode: Number(env.get('EXIT_CODE') ?? 1),
    port: Number(env.get('PORT') ?? 8080),
  };
}

/** Whether the engine counts it as running: paused and restarting ones are. */
export function isUp(container: FakeContainer): boolean {
  return ['running', 'paused', 'restarting'].includes(container.state);
}

/** The stop signal that was asked for, if any: by the container, else by its image. */
export function stopSignalOf(container: FakeContainer): string | undefined {
  return (container.body['StopSignal'] as string | undefined) ?? container.image.config.StopSignal;
}

/** `GET /containers/{id}/json`. */
export function inspectJson(c: FakeContainer): object {
  return {
    Id: c.id,
    Name: `/${c.name}`,
    Image: c.image.id,
    State: {
      Status: c.state,
      Running: isUp(c),
      Paused: c.state === 'paused',
      Restarting: c.state === 'restarting',
      OOMKilled: c.oom,
      Dead: c.state === 'dead',
      ExitCode: c.exitCode,
      Error: '',
      StartedAt: timeText(c.startedAt),
      FinishedAt: timeText(c.finishedAt),
      ...(c.health === 'none' ? {} : { Health: { Status: c.health } }),
    },
    Config: { ...c.body, Image: c.imageName, Env: envOf(c), Labels: c.labels, StopSignal: stopSignalOf(c) },
    HostConfig: c.hostConfig,
    NetworkSettings: {
      Ports: Object.fromEntries([...c.ports].map(([port, host]) => [port, bindings(host, addressesOf(c, port))])),
      Networks: { ...endpointsOf(c), ...Object.fromEntries(c.networks) },
    },
  };
}

/** One entry of `GET /containers/json`. */
export function listJson(c: FakeContainer): object {
  const published = [...c.ports].flatMap(([port, host]) => {
    const [number, type] = port.split('/');
    return addressesOf(c, port).map((IP) => ({ IP, PrivatePort: Number(number), PublicPort: host, Type: type }));
  });
  return {
    ...{ Id: c.id, Names: [`/${c.name}`], Image: c.imageName, ImageID: c.image.id },
    ...{ Labels: c.labels, State: c.state, Ports: published },
  };
}

function envOf(c: FakeContainer): readonly string[] {
  return [...c.image.config.Env, ...((c.body['Env'] as readonly string[] | undefined) ?? [])];
}

/** The addresses of the host that a port is bound on. */
function addressesOf(c: FakeContainer, port: string): readonly string[] {
  const address = c.hostConfig.PortBindings?.[port]?.[0]?.HostIp ?? '';
  return address === '' ? ['0.0.0.0', '::'] : [address];
}

function bindings(port: number, addresses: readonly string[]): readonly object[] {
  return addresses.map((HostIp) => ({ HostIp, HostPort: String(port) }));
}

/** Network → how it is in it, as it was asked for at the creation. */
export function endpointsOf({ body }: FakeContainer): Readonly<Record<string, object>> {
  const { EndpointsConfig } = (body['NetworkingConfig'] ?? {}) as {
    readonly EndpointsConfig?: Readonly<Record<string, object>>;
  };
  return EndpointsConfig ?? {};
}

function timeText(wall: number): string {
  return wall === 0 ? '0001-01-01T00:00:00Z' : new Date(wall).toISOString();
}
