import { createHash } from 'node:crypto';
import * as v from 'valibot';
import { HandoverError } from '../errors.js';
import type { ImageRecord } from './record.js';
import type { Artifact, ArtifactSource } from './types.js';

const leaseSchema = v.object({
  owner: v.string(),
  reference: v.string(),
  platform: v.optional(v.string()),
  until: v.optional(v.number()),
  since: v.number(),
});

const contentSchema = v.object({
  v: v.literal(1),
  reference: v.string(),
  references: v.array(v.string()),
  digest: v.optional(v.string()),
  ours: v.array(v.tuple([v.string(), v.nullable(v.string())])),
  firstSeen: v.number(),
  idleSince: v.nullable(v.number()),
  leases: v.array(leaseSchema),
});

const intentSchema = v.object({
  v: v.literal(1),
  reference: v.string(),
  platform: v.nullable(v.string()),
  before: v.nullable(v.string()),
  at: v.number(),
});

/** Who holds a piece of content: each owner once (IC-2). `until` is for a claim that ends by itself. Wall times in ms. */
export type StoredLease = v.InferOutput<typeof leaseSchema>;
/** What is stored of one piece of content (IC-21). */
export type StoredContent = v.InferOutput<typeof contentSchema>;
/** A pull that was about to begin: what its reference meant then, by id; `null` = nothing (IC-21). */
export type StoredIntent = v.InferOutput<typeof intentSchema>;

/** All that is stored of one source. */
export interface Stored {
  readonly contents: ReadonlyMap<string, StoredContent>;
  readonly intents: readonly StoredIntent[];
}

/** The keys of one source in a store that others use too. */
export class StoreKeys {
  readonly prefix: string;

  /** A source's id may be a path: as one part of a key it cannot be taken for the beginning of another's. */
  constructor(source: Pick<ArtifactSource, 'id'>) {
    this.prefix = `image/${encodeURIComponent(source.id)}/`;
  }

  content(imageId: string): string {
    return `${this.prefix}content/${imageId}`;
  }

  /** References and platforms may be of any length; a key may not. */
  intent(reference: string, platform: string | undefined): string {
    const hash = createHash('sha256')
      .update(`${reference} ${platform ?? ''}`)
      .digest('hex');
    return `${this.prefix}intent/${hash}`;
  }

  /** @throws HandoverError `ERR_STORE_CORRUPT` naming the key of what cannot be read */
  read(entries: readonly (readonly [key: string, value: unknown])[]): Stored {
    const contents = new Map<string, StoredContent>();
    const intents: StoredIntent[] = [];
    const content = this.content('');
    for (const [key, value] of entries) {
      if (key.startsWith(content)) contents.set(key.slice(content.length), parse(contentSchema, key, value));
      else intents.push(parse(intentSchema, key, value));
    }
    return { contents, intents };
  }
}

/** What is to be stored of a record now; nothing once it is forgotten. */
export function storedContent<A extends Artifact>(record: ImageRecord<A>): StoredContent | undefined {
  if (record.state === 'absent') return undefined;
  const { reference, references, digest, firstSeen, idleSince } = record;
  return {
    v: 1,
    reference,
    references: [...references],
    ...(digest === undefined ? {} : { digest }),
    ours: [...record.ours].map(([name, platform]) => [name, platform ?? null]),
    firstSeen,
    idleSince,
    leases: [...record.holders].map(([owner, { since, holds }]) => ({ owner, since, ...claim([...holds]) })),
  };
}

/** An owner's claim that lasts longest stands for all of them. */
function claim(holds: readonly Pick<StoredLease, 'reference' | 'platform' | 'until'>[]) {
  const end = ({ until }: Pick<StoredLease, 'until'>): number => until ?? Infinity;
  const { reference, platform, until } = holds.reduce((longest, hold) => (end(hold) > end(longest) ? hold : longest));
  return { reference, ...(platform === undefined ? {} : { platform }), ...(until === undefined ? {} : { until }) };
}

function parse<S extends v.GenericSchema>(schema: S, key: string, value: unknown): v.InferOutput<S> {
  const result = v.safeParse(schema, value);
  if (result.success) return result.output;
  const version = typeof value === 'object' && value !== null ? (value as { v?: unknown }).v : undefined;
  const problem =
    typeof version === 'number' && version > 1 ? `is of version ${version}, which is newer` : 'is damaged';
  const message = `What the store has under ${key} ${problem}. Nothing was changed; use the version of handover that wrote it, or delete that key: the content itself stays`;
  throw new HandoverError('ERR_STORE_CORRUPT', message, { details: { path: key } });
}
