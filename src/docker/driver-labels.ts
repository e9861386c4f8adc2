import { createHash } from 'node:crypto';
import type { PrestartContext } from '../driver/driver.js';
import { portsOf } from './published.js';
import type { DockerSpec } from './spec.js';

/** The labels by which a driver finds its containers again, whoever made them (DP-2). */
export const LABELS = {
  alloc: 'handover.alloc',
  task: 'handover.task',
  hash: 'handover.hash',
  /** The reference, as the spec gave it. */
  image: 'handover.image',
  /** JSON: name of a port → `80/tcp` of the container, so that a recovered handle knows its endpoints without the spec. */
  ports: 'handover.ports',
} as const;

/** Labels as the engine gives them. */
export type Labels = Readonly<Record<string, string>>;

/** Who a container belongs to; absent labels read as empty text. */
export interface Owned {
  readonly allocId: string;
  readonly task: string;
  readonly specHash: string;
  readonly reference: string;
  readonly ports: Readonly<Record<string, string>>;
}

export function labelsFor(ctx: PrestartContext<unknown>, spec: DockerSpec): Labels {
  return {
    [LABELS.alloc]: ctx.allocId,
    [LABELS.task]: ctx.task,
    [LABELS.hash]: ctx.specHash,
    [LABELS.image]: spec.image,
    [LABELS.ports]: JSON.stringify(portsOf(spec)),
  };
}

/** @returns `undefined` for a container that is not ours */
export function ownedBy(labels: Labels): Owned | undefined {
  const allocId = labels[LABELS.alloc];
  if (allocId === undefined) return undefined;
  return {
    allocId,
    task: labels[LABELS.task] ?? '',
    specHash: labels[LABELS.hash] ?? '',
    reference: labels[LABELS.image] ?? '',
    ports: readPorts(labels[LABELS.ports]),
  };
}

/**
 * The name under which a container is created: the same for the same owner and spec, another for any other, so that a
 * repeated create meets its own earlier attempt, and a fixed name never blocks a prestart (DP-7).
 */
export function uniqueName(who: Pick<Owned, 'allocId' | 'task' | 'specHash'>): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([who.allocId, who.task, who.specHash]))
    .digest('hex');
  const readable = `${who.allocId}-${who.task}`.replace(/[^a-zA-Z0-9_.-]+/g, '-').replace(/^[^a-zA-Z0-9]+/, '');
  return `${readable || 'task'}-${hash.slice(0, 8)}`;
}

/** Somebody may have written the label by hand: what is not a map of text counts as no ports. */
function readPorts(json = '{}'): Readonly<Record<string, string>> {
  try {
    const ports: unknown = JSON.parse(json);
    if (typeof ports !== 'object' || ports === null) return {};
    return Object.fromEntries(Object.entries(ports).filter(([, port]) => typeof port === 'string'));
  } catch {
    return {};
  }
}
