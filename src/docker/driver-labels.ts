import { createHash } from 'node:crypto';
import type { PrestartContext } from '../driver/driver.js';
import { invalidOption } from '../errors.js';
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
  /** JSON: the names of those that the context of the prestart gave, to tell them from those of image and spec. */
  given: 'handover.labels',
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
  /** Those of the context. */
  readonly labels: Labels;
}

/** @throws HandoverError `ERR_INVALID_OPTION` for a label of the context that is one of the driver's own */
export function labelsFor(ctx: PrestartContext<unknown>, spec: DockerSpec): Labels {
  const { labels = {} } = ctx;
  const own = Object.values(LABELS).find((label) => label in labels);
  if (own !== undefined) throw invalidOption(`labels.${own}`, 'is a label of the driver’s own; give it another name');
  return {
    ...labels,
    [LABELS.alloc]: ctx.allocId,
    [LABELS.task]: ctx.task,
    [LABELS.hash]: ctx.specHash,
    [LABELS.image]: spec.image,
    [LABELS.ports]: JSON.stringify(portsOf(spec)),
    [LABELS.given]: JSON.stringify(Object.keys(labels)),
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
    ports: textOnly(read(labels[LABELS.ports])),
    labels: pick(labels, read(labels[LABELS.given])),
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

/** Somebody may have written the label by hand: what is no JSON counts as nothing. */
function read(json = ''): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

function textOnly(of: unknown): Readonly<Record<string, string>> {
  const entries = typeof of === 'object' && of !== null ? Object.entries(of) : [];
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
}

function pick(labels: Labels, names: unknown): Labels {
  return Object.fromEntries(Object.entries(labels).filter(([name]) => Array.isArray(names) && names.includes(name)));
}
