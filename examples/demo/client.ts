import { get } from 'node:http';

/** Between the starts of two requests, whatever the earlier ones do. */
const EVERY_MS = 5;
/** After this time a request has failed. */
const TIMEOUT_MS = 2_000;

/** One request; times in ms on the clock of `performance.now()`. */
export interface Sample {
  readonly start: number;
  readonly ok: boolean;
}

/** What a client saw of an update. */
export interface Seen {
  /**
   * From the start of the first failed request to the start of the first good one after it; several add up. `null`: the
   * last requests failed too, it was not over.
   */
  readonly outageMs: number | null;
  readonly failed: number;
  readonly requests: number;
}

/** A client that asks every few milliseconds. */
export class Client {
  readonly #samples: Sample[] = [];
  readonly #inFlight = new Set<Promise<void>>();
  readonly #timer: NodeJS.Timeout;

  constructor(private readonly url: string) {
    this.#timer = setInterval(() => this.#ask(), EVERY_MS);
  }

  /** Asks no more, and waits for the answers that are due. */
  async stop(): Promise<Seen> {
    clearInterval(this.#timer);
    await Promise.all(this.#inFlight);
    return summary(this.#samples);
  }

  #ask(): void {
    const start = performance.now();
    const request = answers(this.url).then((ok) => void this.#samples.push({ start, ok }));
    this.#inFlight.add(request);
    void request.then(() => this.#inFlight.delete(request));
  }
}

export function summary(samples: readonly Sample[]): Seen {
  const inOrder = [...samples].sort((a, b) => a.start - b.start);
  let outageMs = 0;
  let downSince: number | undefined;
  for (const { start, ok } of inOrder) {
    if (!ok) downSince ??= start;
    else if (downSince !== undefined) {
      outageMs += start - downSince;
      downSince = undefined;
    }
  }
  return {
    outageMs: downSince === undefined ? Math.round(outageMs) : null,
    failed: inOrder.filter(({ ok }) => !ok).length,
    requests: inOrder.length,
  };
}

function answers(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get(url, { agent: false, timeout: TIMEOUT_MS }, (response) => {
      response.resume();
      response.on('end', () => resolve((response.statusCode ?? 500) < 400));
      response.on('error', () => resolve(false));
    });
    request.on('timeout', () => request.destroy());
    request.on('error', () => resolve(false));
    request.on('close', () => resolve(false));
  });
}
