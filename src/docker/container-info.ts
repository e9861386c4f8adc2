import type { FixedPort } from './published.js';
import type { Labels } from './driver-labels.js';

const HEALTHS = ['starting', 'healthy', 'unhealthy'] as const;

/** What the engine's own check says; `none`: there is no check. */
export type Health = (typeof HEALTHS)[number] | 'none';

/** What is asked of the engine about one container. */
export interface ContainerInfo {
  readonly id: string;
  readonly name: string;
  readonly imageId: string;
  readonly status: string;
  /** As the engine counts: paused and restarting ones are running. */
  readonly running: boolean;
  readonly paused: boolean;
  readonly exitCode: number;
  readonly oom: boolean;
  /** Wall time of the engine, ms; `undefined` = never. */
  readonly startedAt: number | undefined;
  readonly finishedAt: number | undefined;
  /** By the engine's own check. */
  readonly health: Health;
  /** Whether it has a terminal. */
  readonly tty: boolean;
  readonly labels: Labels;
  readonly stopSignal: string | undefined;
  readonly restartPolicy: RestartPolicy;
  /** Whether its ports are the host's own. */
  readonly hostNetwork: boolean;
  /** `8080/tcp` → where it is published. */
  readonly ports: Readonly<Record<string, readonly PortBinding[] | null>>;
}

/** As the engine gives and takes it. */
export interface RestartPolicy {
  readonly Name: string;
  readonly MaximumRetryCount?: number;
}

export interface PortBinding {
  readonly HostIp: string;
  readonly HostPort: string;
}

/** One container of a list. */
export interface ListedContainer {
  readonly id: string;
  readonly imageId: string;
  readonly status: string;
  readonly labels: Labels;
  /** The ports of the host that it holds now. */
  readonly published: readonly FixedPort[];
}

/** One entry of `GET /containers/json`. */
export interface ListBody {
  readonly Id: string;
  readonly ImageID: string;
  readonly State: string;
  readonly Labels?: Labels | null;
  readonly Ports?: readonly { readonly IP?: string; readonly PublicPort?: number; readonly Type: string }[] | null;
}

/** The answer of `GET /containers/{id}/json`. */
export interface InspectBody {
  readonly Id: string;
  readonly Name: string;
  readonly Image: string;
  readonly State: {
    readonly Status: string;
    readonly Running: boolean;
    readonly Paused: boolean;
    readonly ExitCode: number;
    readonly OOMKilled: boolean;
    readonly StartedAt: string;
    readonly FinishedAt: string;
    readonly Health?: { readonly Status: string } | null;
  };
  readonly Config: { readonly Labels?: Labels | null; readonly StopSignal?: string; readonly Tty?: boolean };
  readonly HostConfig: { readonly RestartPolicy?: RestartPolicy; readonly NetworkMode?: string };
  readonly NetworkSettings?: { readonly Ports?: ContainerInfo['ports'] | null };
}

export function infoOf({ Id, Name, Image, State, Config, HostConfig, NetworkSettings }: InspectBody): ContainerInfo {
  return {
    id: Id,
    name: Name.replace(/^\//, ''),
    imageId: Image,
    status: State.Status,
    running: State.Running,
    paused: State.Paused,
    exitCode: State.ExitCode,
    oom: State.OOMKilled,
    startedAt: timeOf(State.StartedAt),
    finishedAt: timeOf(State.FinishedAt),
    health: healthOf(State.Health?.Status),
    tty: Config.Tty ?? false,
    labels: Config.Labels ?? {},
    stopSignal: Config.StopSignal,
    restartPolicy: HostConfig.RestartPolicy ?? { Name: 'no' },
    hostNetwork: HostConfig.NetworkMode === 'host',
    ports: NetworkSettings?.Ports ?? {},
  };
}

export function listedOf({ Id, ImageID, State, Labels, Ports }: ListBody): ListedContainer {
  const published = (Ports ?? []).flatMap(({ IP = '', PublicPort, Type }) =>
    PublicPort === undefined ? [] : [{ key: `${PublicPort}/${Type}`, address: IP }],
  );
  return { id: Id, imageId: ImageID, status: State, labels: Labels ?? {}, published };
}

function healthOf(status = ''): Health {
  return HEALTHS.find((health) => health === status) ?? 'none';
}

/** The engine writes "never" as the year 1. */
function timeOf(text: string): number | undefined {
  const ms = Date.parse(text);
  return Number.isNaN(ms) || ms <= 0 ? undefined : ms;
}
