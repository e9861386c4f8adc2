import { type AllocLifecycle, replace } from 'handover';
import { Client, type Seen } from './client.js';
import type { World } from './world.js';

/** What came of one of the two updates. */
export interface Update extends Seen {
  readonly outcome: string;
  /** The state changes of both versions, for the timeline. */
  readonly spans: readonly Span[];
}

/** How long one version was in one state; ms from the start of the update. */
export interface Span {
  readonly version: 'v1' | 'v2';
  readonly state: string;
  readonly from: number;
  readonly to: number;
}

type Way = (previous: AllocLifecycle, next: AllocLifecycle, signal: AbortSignal) => Promise<string>;

/** The order of the day elsewhere: what is running is killed, and only then is the new content fetched. */
export const killFirst: Way = async (previous, next, signal) => {
  await previous.stop({ reason: 'operator' }).result;
  await next.start({ signal });
  await next.until('healthy', { signal });
  return 'replaced';
};

/** The same with handover. */
export const handover: Way = async (previous, next, signal) => {
  const { outcome } = await replace(previous, next, { order: 'stop-first', signal });
  return outcome;
};

/** Runs one update while a client asks, and clears everything away after it. */
export async function runUpdate(world: World, run: string, way: Way, signal: AbortSignal): Promise<Update> {
  const previous = world.previous(run);
  const next = world.next(run);
  try {
    await previous.start({ signal });
    await previous.until('healthy', { signal });
    const spans = new Spans({ v1: previous, v2: next });
    const client = new Client(world.url);
    const outcome = await way(previous, next, signal).catch(async (error: unknown) => {
      await client.stop();
      throw error;
    });
    return { ...(await client.stop()), outcome, spans: spans.end() };
  } finally {
    await world.reset();
  }
}

/** Watches the states of both versions. */
class Spans {
  readonly #start = performance.now();
  readonly #spans: Span[] = [];
  readonly #open = new Map<Span['version'], { readonly state: string; readonly from: number }>();
  readonly #ends: (() => void)[];

  constructor(versions: Readonly<Record<Span['version'], AllocLifecycle>>) {
    this.#ends = (Object.entries(versions) as [Span['version'], AllocLifecycle][]).map(([version, alloc]) => {
      this.#open.set(version, { state: alloc.state, from: 0 });
      return alloc.on('alloc:changed', ({ alloc: { state } }) => this.#moved(version, state));
    });
  }

  end(): readonly Span[] {
    for (const end of this.#ends) end();
    for (const version of [...this.#open.keys()]) this.#moved(version, '');
    return this.#spans;
  }

  #moved(version: Span['version'], state: string): void {
    const now = performance.now() - this.#start;
    const open = this.#open.get(version);
    if (open !== undefined) this.#spans.push({ version, state: open.state, from: open.from, to: now });
    this.#open.set(version, { state, from: now });
  }
}
