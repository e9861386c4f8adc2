import type { AllocLifecycle } from 'handover';

/** How long one version was in one state; ms from the start of the update. */
export interface Span {
  readonly version: 'v1' | 'v2';
  readonly state: string;
  readonly from: number;
  readonly to: number;
}

/** Watches the states of both versions. */
export class Spans {
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
